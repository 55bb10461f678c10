"""The runs that measure the injectors (pure): jobs of one worker, and the windows of their plans.

A job's iterations are limited by the worker's processor, or by its link. Between windows it is undisturbed, so every
run contains the reference for its windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from analysis.measures.injections import FLOAT_BYTES, PAYLOAD_FRAC
from analysis.measures.injector_errors import BITS_PER_MBIT
from stragglab.grids.grid import QUIET

LENGTHS_MS = (50, 200)
LONG_MS = (200, 400)
"""For cpulimit, which switches once a second."""
AIM = 1.1
"""Iterations are made slightly longer than promised, as the machine may be faster later than in the first run."""
LEVELS = (0.75, 0.5, 0.25, 0.20, 0.10, 0.05)
ACTUATORS: dict[str, tuple[str, ...]] = {"sleep": (), "cgroup": ("cgroup_cpu",), "duty": (), "cpulimit": ("cpulimit",)}
"""Mechanisms that slow a worker down, and their needs from the machine (``runtime.live.machines.doctor``)."""
KINDS = {"tc": "bandwidth", "hog": "gpu"}
"""The disturbed resource by mechanism; the others disturb the processor."""
HOSTS = ("network", "links")
"""Needs of emulated hosts from the machine."""
LINKS_MBPS = (10, 100, 1000)
LINK_LEVELS = (0.75, 0.25, 0.10)

PROBE_S, PROBE_BATCH = 8.0, 256
MAX_BATCH = 1438 // 2
"""The workload's samples make at least two shards."""
HIDDEN_UNITS = 1024
TRANSFER_S = 0.1
"""Transfer time of the model of a link's run at the full rate."""
LINK_ITERATION_S = 2.2 * TRANSFER_S
MLP_WEIGHTS_PER_UNIT, MLP_REST = 75, 10
"""For the ``digits`` MLP: 64 inputs, 10 outputs, and the biases."""

ITERATIONS = 4
"""Minimum number of whole iterations in a window."""
WINDOW_S, GAP_S, WARM_S = 1.5, 1.5, 2.0
GAP_ITERATIONS = 6
RUN_S = 24.0
"""Maximum length of a run; further levels go into another run."""

COMMON = (
    *("strategy=bsp", "seed=0", "cluster.num_workers=1", "topology.num_servers=1", "workload=digits"),
    *("workload.epochs=null", "eval_every_s=1000", "checkpoint_every_s=null", "runtime.telemetry_every_s=0.25"),
    *QUIET,
)
"""Settings of all runs: nothing but the iterations uses the processor."""


class Window(NamedTuple):
    """A row of the file that ``straggler=trace`` reads."""

    time: float
    duration: float
    target: str
    kind: str
    magnitude: float


class Cell(NamedTuple):
    """One run of the grid, with its windows and its needs."""

    name: str
    needs: tuple[str, ...]
    settings: tuple[str, ...]
    windows: tuple[Window, ...]
    lasts_s: float

    @property
    def measures(self) -> str:
        """Return the measures that are left out if something that they need is missing."""
        return self.name.partition("_")[0]


def probe(hosts: bool, device: str | None = None) -> Cell:
    """The run that determines how long a sample takes, on a device (``backend.device``) if one is named."""
    return Cell("probe", (), (*_job(hosts, device, PROBE_BATCH), *COMMON, "straggler=none"), (), PROBE_S)


def grid(sample_s: float, hosts: bool, quick: bool, device: str | None = None) -> list[Cell]:
    """All other runs, for a worker that computes a sample in ``sample_s``; ``hosts``: whether hosts can be emulated.

    With a ``device`` those of the hogs on it, and nothing else. ``quick``: short iterations and one link; without a
    device the first levels.
    """
    cells: list[Cell] = []
    for by, needs in ({"hog": ()} if device else ACTUATORS).items():
        for length_ms in LONG_MS if by == "cpulimit" else LENGTHS_MS:
            batch = min(max(1, round(AIM * length_ms / 1e3 / sample_s)), MAX_BATCH)
            chosen = () if device else (f"runtime.cpu_by={'auto' if by == 'sleep' else by}",)
            levels = LEVELS[:-1] if by == "cpulimit" else LEVELS  # it has no percent for 0.05 of a host's 0.4 cores
            runs = _schedules(by, "device:0" if device else "worker:0", batch * sample_s, levels)
            cells += _cells(f"{by}_{length_ms}ms", needs, (*chosen, *_job(hosts, device, batch)), runs)
    for mbps in () if device else LINKS_MBPS:
        runs = _schedules("tc", "link:0", LINK_ITERATION_S, LINK_LEVELS)
        cells += _cells(f"link_{mbps}mbps", HOSTS, tuple(_link_job(mbps)), runs)
    wanted = (f"_{LENGTHS_MS[0]}ms_{'' if device else 1}", f"cpulimit_{LONG_MS[0]}ms_1", f"_{LINKS_MBPS[1]}mbps_1")
    return [cell for cell in cells if not quick or any(part in cell.name for part in wanted)]


def plan_text(windows: Sequence[Window]) -> str:
    """The windows as a CSV file, as ``straggler=trace`` reads it."""
    return "".join(",".join(map(str, row)) + "\n" for row in (Window._fields, *windows))


def _job(hosts: bool, device: str | None, batch: int) -> Iterator[str]:
    """Limited by the worker's processor or device. Without hosts, it may use this machine up to one core.

    The model is so large that a sample takes a while on a fast device.
    """
    if device:
        yield from (f"backend.device={device}", "cluster.gpus.devices=[0]", "cluster=local")
    elif hosts:
        yield from ("cluster=hosts", "cluster.hosts.link_mbps=null", "cluster.hosts.count=2")
    else:
        yield "cluster=local"
    yield from ("cluster.device=null", "workload.task.model=cnn", f"workload.task.hidden_units={HIDDEN_UNITS}")
    yield f"workload.global_batch_samples={batch}"


def _link_job(mbps: int) -> Iterator[str]:
    """Limited by the worker's link: a model whose transfer takes ``TRANSFER_S``, and little computation."""
    yield from ("cluster=hosts", "cluster.hosts.count=2", "cluster.hosts.cpu_cores=null", "cluster.device=null")
    weights = TRANSFER_S * mbps * BITS_PER_MBIT / 8 * PAYLOAD_FRAC / FLOAT_BYTES
    units = round((weights - MLP_REST) / MLP_WEIGHTS_PER_UNIT)
    yield from (f"cluster.hosts.link_mbps={mbps}", "workload.task.model=mlp", f"workload.task.hidden_units={units}")
    yield "workload.global_batch_samples=8"


def _schedules(by: str, target: str, base_s: float, levels: Sequence[float]) -> Iterator[tuple[list[Window], float]]:
    """The windows of each run and its end: all ``levels`` (remaining speed), as many per run as fit."""
    gap_s = max(GAP_S, GAP_ITERATIONS * base_s)
    windows: list[Window] = []
    t = WARM_S + gap_s
    for level in levels:
        # one iteration more than counts: the first overlaps the window's start, the last its end
        lasts_s = max(WINDOW_S, ITERATIONS * base_s / level) + base_s / level
        if windows and t + lasts_s + gap_s > RUN_S:
            yield windows, t
            windows, t = [], WARM_S + gap_s
        windows.append(_window(t, lasts_s, by, target, base_s, level))
        t += lasts_s + gap_s
    yield windows, t


def _window(t: float, lasts_s: float, by: str, target: str, base_s: float, level: float) -> Window:
    when = (round(t, 3), round(lasts_s, 3))
    if by == "sleep":
        return Window(*when, target, "delay", round(base_s * (1.0 / level - 1.0), 6))
    return Window(*when, target, KINDS.get(by, "cpu"), level)


def _cells(
    name: str, needs: tuple[str, ...], job: tuple[str, ...], runs: Iterator[tuple[list[Window], float]]
) -> Iterator[Cell]:
    for part, (windows, end_s) in enumerate(runs, start=1):
        yield Cell(f"{name}_{part}", needs, (*job, *COMMON, "straggler=trace"), tuple(windows), round(end_s, 3))
