"""The cost model: durations of everything on the virtual clock, and the origin of their values.

A model is a small YAML file in ``runtime/fitted/costs/`` or anywhere. ``python run.py calibrate`` fits one to records;
``ideal`` has no costs at all. Times are seconds, sizes bytes, rates bytes per second.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from runtime.config.checking import convert, refuse_nonfinite
from runtime.errors import ConfigError
from runtime.fitted import ROOT, Kind

SCHEMA = 1
DIRECTORY = ROOT / "costs"
KIND = Kind("cost model", "cluster.costs", "python run.py calibrate", "values", DIRECTORY)

Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Rate = Annotated[float, Meta(gt=0)]


class Costs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All costs are 0 by default. A quantity of samples, gradients or bytes costs base + slope * quantity."""

    compute_base_s: Seconds = 0.0
    compute_per_sample_s: Seconds = 0.0
    """Forward and backward pass of the real computation, of a cluster without a device profile."""
    stage_base_s: Seconds = 0.0
    stage_per_byte_s: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Copies of the parameters to a GPU and of the gradient back, per byte of the model; a part of computing."""
    jitter_sigma: Annotated[float, Meta(ge=0, le=3)] = 0.0
    """Computing times are multiplied by LogNormal(-sigma^2/2, sigma): mean one."""
    jitter_rho: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Correlation of a worker's jitter from one iteration to the next (AR(1) of the logarithm)."""
    run_sigma: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """A run's loading, computing, messages and updates are multiplied by one LogNormal(-sigma^2/2, sigma), drawn by its
    seed: a machine is not equally fast every day. Devices that pace, links and what is injected stay as they are."""
    sleep_overshoot_s: Seconds = 0.0
    """By how much a sleep (device pacing, injected delay) is longer than requested."""
    data_base_s: Seconds = 0.0
    data_per_sample_s: Seconds = 0.0
    """Time to load a batch."""
    control_s: Seconds = 0.0
    """One way of a control message between the coordinator and a task."""
    worker_cores: Rate = 1.0
    server_cores: Rate = 1.0
    """Cores that a task uses while it loads, computes or updates at the speed of this model; with fewer it is slower in
    proportion. 1 of models that were fitted to live tasks, which are one thread."""
    wait_cores: Annotated[float, Meta(ge=0)] = 0.0
    server_wait_cores: Annotated[float, Meta(ge=0)] = 0.0
    """Cores on which a worker, or a server, polls while it waits for others; modelled only on hosts. 0 if it sleeps, 1
    if one thread polls for messages (STAR, section II), as many as it computes on if these threads spin until there
    is more to do (Intel's OpenMP, for 200 ms: ``KMP_BLOCKTIME``). A server polls from its first update on."""
    decision_s: Seconds = 0.0
    """The coordinator's work on one event; it handles one at a time."""
    link_bytes_per_s: Rate | None = None
    """Rate of every host's uplink and downlink, shared max-min fairly; None: no limit."""
    latency_s: Seconds = 0.0
    """Time of every parameter or gradient message."""
    transfer_per_byte_s: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Time to copy a message by the worker's processor, not shared with other workers."""
    carry_per_byte_s: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Work of the network stack at either end during a message; modelled only on hosts, whose cores it uses."""
    carry_within_per_byte_s: Annotated[float, Meta(ge=0, le=1)] | None = None
    """The same for a message between tasks of one host, which passes no link; None: ``carry_per_byte_s``."""
    interrupt_per_byte_s: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Time for which a byte between hosts interrupts all other tasks, on any host: emulated hosts share one kernel,
    which charges work on packets to the task that it interrupts. 0 of hosts that are machines of their own."""
    message_sigma: Annotated[float, Meta(ge=0, le=3)] = 0.0
    """A worker's parameters, and its gradient, have LogNormal(-sigma^2/2, sigma) times their bytes and work, drawn for
    each: the rates of a cloud's links vary (Uta et al., NSDI 2020). Modelled only on hosts, to and from servers."""
    update_base_s: Seconds = 0.0
    update_per_byte_s: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """A server's work on one update, per byte of its range and gradient; updates of a server queue."""
    concurrent_delays: bool = False
    """Whether a delay that is injected into a server's update holds up the parameters of that update alone, as in
    TensorFlow, whose servers have a thread for each request; otherwise later updates wait, too. Not on hosts."""
    ring_step_s: Seconds = 0.0
    ring_per_byte_s: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Time of each of the 2 (n - 1) steps of an all-reduce among n workers, in which every worker sends 1/n of the
    vector to its neighbour; links with a rate add to it. Between hosts they are added to a message's cost."""
    evaluation_s: Seconds = 0.0
    """From the request for an evaluation to its result; training does not wait for it."""
    pending_s: Seconds = 0.0
    launch_s: Seconds = 0.0
    """From the loss of a process until it is scheduled again, and from then until it is ready."""
    checkpoint_base_s: Seconds = 0.0
    disk_bytes_per_s: Rate | None = None
    """Writing or reading a checkpoint; None: no limit."""

    def compute_s(self, samples: int, accum: int = 1) -> float:
        """Seconds of the real computation of a batch in ``accum`` micro-batches, without jitter.

        Copies to a GPU and back count once; their part that depends on the model is there :meth:`of_model`.
        """
        return self.compute_base_s * accum + self.compute_per_sample_s * samples + self.stage_base_s

    def of_model(self, num_bytes: int) -> Costs:
        """The same costs for a model of this size: its copies to a GPU and back take as long for every batch."""
        if not self.stage_per_byte_s:
            return self
        staged_s = self.stage_base_s + self.stage_per_byte_s * num_bytes
        return msgspec.structs.replace(self, stage_base_s=staged_s, stage_per_byte_s=0.0)

    def of_run(self, factor: float) -> Costs:
        """The same costs where all work takes ``factor`` times as long (:attr:`run_sigma`)."""
        if factor == 1.0:
            return self
        return msgspec.structs.replace(self, **{name: factor * getattr(self, name) for name in WORK})

    @staticmethod
    def stretch(uses_cores: float, has_cores: float | None) -> float:
        """Return the factor by which work on so many cores takes longer; None for as many as it can use."""
        return 1.0 if has_cores is None else max(1.0, uses_cores / has_cores)

    def slept_s(self, asked_s: float) -> float:
        """Seconds that a sleep of ``asked_s`` takes: 0 for none."""
        return asked_s + self.sleep_overshoot_s if asked_s > 0 else 0.0

    def data_s(self, samples: int) -> float:
        """Seconds to load a batch."""
        return self.data_base_s + self.data_per_sample_s * samples

    def transfer_s(self, num_bytes: int) -> float:
        """A message's own time on an idle network without a link rate."""
        return self.latency_s + self.transfer_per_byte_s * num_bytes

    @property
    def within_per_byte_s(self) -> float:
        """Work at either end of a message that stays on its host."""
        return self.carry_per_byte_s if self.carry_within_per_byte_s is None else self.carry_within_per_byte_s

    def carry_s(self, num_bytes: int) -> Carry:
        """Core-seconds at either end of a message."""
        return Carry(
            self.carry_per_byte_s * num_bytes,
            self.within_per_byte_s * num_bytes,
            self.interrupt_per_byte_s * num_bytes,
        )

    def update_s(self, num_bytes: float, num_grads: int) -> float:
        """Seconds of one update on one server."""
        return self.update_base_s + self.update_per_byte_s * num_bytes * num_grads

    def replica_step_s(self, num_bytes: int) -> float:
        """Seconds of one update of all parameters by a worker, which may have fewer cores for it than a server."""
        return self.update_s(num_bytes, 1) * self.stretch(self.server_cores, self.worker_cores)

    def hop_s(self, num_bytes: float) -> float:
        """Seconds to send ``num_bytes`` from one worker to its neighbour in a ring."""
        link_s = num_bytes / self.link_bytes_per_s if self.link_bytes_per_s else 0.0
        return self.neighbour_s(num_bytes) + link_s

    def neighbour_s(self, num_bytes: float) -> float:
        """A message's own time between two workers, without the rate of a link."""
        return self.ring_step_s + self.ring_per_byte_s * num_bytes

    def ring_s(self, num_bytes: float, num_workers: int) -> float:
        """Seconds of an all-reduce: 2 (n - 1) steps with 1/n of the vector, n - 1 to sum and n - 1 to distribute."""
        return 2 * (num_workers - 1) * self.hop_s(num_bytes / num_workers) if num_workers > 1 else 0.0

    def checkpoint_s(self, num_bytes: int) -> float:
        """Seconds to write or read a checkpoint."""
        return self.checkpoint_base_s + (num_bytes / self.disk_bytes_per_s if self.disk_bytes_per_s else 0.0)

    @property
    def restart_s(self) -> float:
        """Seconds from the loss of a process until it can work again."""
        return self.pending_s + self.launch_s


WORK = (
    *("compute_base_s", "compute_per_sample_s", "stage_base_s", "stage_per_byte_s", "data_base_s", "data_per_sample_s"),
    *("latency_s", "transfer_per_byte_s", "update_base_s", "update_per_byte_s", "ring_step_s", "ring_per_byte_s"),
)
"""Costs that ``run_sigma`` concerns."""


class Carry(NamedTuple):
    """Core-seconds of work of the network stack at either end of a message."""

    between_s: float
    """From one host to another."""
    within_s: float
    """From a task of a host to another of the same."""
    interrupt_s: float = 0.0
    """For which it interrupts all other tasks on any host, if it is sent from one host to another."""


FREE = Carry(0.0, 0.0)


class Covered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Smallest and largest value in the runs that a model was fitted to; outside, it extrapolates."""

    batch_samples: tuple[int, int]
    num_workers: tuple[int, int]


class Formerly(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How records and pages know a file that is older than fingerprints of values: by its bytes, comments included."""

    values_sha256: str
    """Of the values that it had: with others it is another model."""
    file_sha256: str


class CostFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a file ``runtime/fitted/costs/*.yaml``."""

    schema: Literal[1]
    values: Costs
    errors: dict[str, float] = {}
    """Standard error of each fitted value."""
    runs: tuple[str, ...] = ()
    """Records to which it was fitted."""
    machine: dict[str, Any] = {}
    covered: Covered | None = None
    formerly: Formerly | None = None


class CostModel(msgspec.Struct, frozen=True, kw_only=True):
    """A cost file with its name and fingerprint, as records name it.

    The fingerprint is computed from the values, so that a changed comment changes nothing; a file in older records
    keeps its fingerprint (:class:`Formerly`).
    """

    name: str
    sha256: str
    file: CostFile
    file_sha256: str
    """Of all bytes of the file, by which records from before 2026-11-27 name files of one's own."""

    @property
    def values(self) -> Costs:
        """The fitted values of the model."""
        return self.file.values

    @property
    def known_as(self) -> str:
        """How records name it."""
        return f"{self.name} {self.sha256[:8]}"

    def is_of(self, calibration: object) -> bool:
        """Whether these are the values of a record with this ``calibration``."""
        names = (self.known_as, f"{self.name} {self.file_sha256[:8]}")
        return str(calibration).startswith(names)

    def extrapolates(self, batch_samples: int, num_workers: int) -> bool:
        """Whether a run lies outside the range of the fit."""
        if self.file.covered is None:
            return False
        lows_highs = (self.file.covered.batch_samples, batch_samples), (self.file.covered.num_workers, num_workers)
        return any(not low <= value <= high for (low, high), value in lows_highs)


def load_costs(name: str, directory: Path = DIRECTORY, changes: Mapping[str, float] | None = None) -> CostModel:
    """The model ``name``: a file of ``runtime/fitted/costs/`` without its ending, or a path that ends in ``.yaml``.

    ``changes``: values in place of the file's (``cluster.cost_changes``), which give the model another fingerprint.

    Raises :class:`ConfigError` with one line for a file or a change that is missing, foreign or out of range.
    """
    kind = KIND._replace(directory=directory)
    model = _model_of(kind.read(name), name, kind.path_of(name).stem)
    return _changed(model, changes) if changes else model


def _changed(model: CostModel, changes: Mapping[str, float]) -> CostModel:
    try:
        refuse_nonfinite(changes, "")
        values = convert(msgspec.structs.asdict(model.values) | dict(changes), Costs, "")
    except ConfigError as error:
        raise ConfigError(f"cluster.cost_changes: {error}") from None
    file = msgspec.structs.replace(model.file, values=values)
    return msgspec.structs.replace(model, file=file, sha256=fingerprint(file), file_sha256=values_sha256(values))


@functools.lru_cache(maxsize=16)
def _model_of(data: bytes, name: str, stem: str) -> CostModel:
    """All jobs of a sweep name the same few."""
    file = parse_costs(data, name)
    return CostModel(
        name=stem,
        sha256=fingerprint(file),
        file=file,
        file_sha256=hashlib.sha256(data).hexdigest(),
    )


def fingerprint(file: CostFile) -> str:
    """SHA-256 of the values of a file, or what it was when records named it by all its bytes."""
    found = values_sha256(file.values)
    return file.formerly.file_sha256 if file.formerly and file.formerly.values_sha256 == found else found


def values_sha256(values: Costs) -> str:
    """SHA-256 of the values that are no default, in a fixed order: a cost that is new to all files changes none."""
    own = dict(msgspec.structs.asdict(values).items() - msgspec.structs.asdict(Costs()).items())
    return hashlib.sha256(msgspec.json.encode(own, order="sorted")).hexdigest()


def parse_costs(data: bytes, name: str = "costs") -> CostFile:
    """The model in the text of a cost file; raises :class:`ConfigError`."""
    raw = KIND.parse(data, name)
    try:
        refuse_nonfinite(raw["values"], "values")
        file: CostFile = convert(raw, CostFile, "")
    except ConfigError as error:
        raise ConfigError(f"{KIND.setting}={name}: {error}") from None
    return file
