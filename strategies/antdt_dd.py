"""AntDT-DD: batch sizes and gradient accumulation for a dedicated cluster of unequal devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar, final

from strategies.checks import check_choice, check_number, check_whole
from strategies.gated import GatedStrategy
from strategies.gates import AllGate, Gate
from strategies.load.accumulation import Plan, solve, solve_anyhow
from strategies.load.device_types import DeviceSpec, check_types, find_devices, is_complete
from strategies.load.drifts import Drifts
from strategies.load.profiling import Sizes, check_sizes, profile_rounds, sizes_around
from strategies.protocol import AnyCommand, AnyEvent, Arrived, Compute, Started
from strategies.watching.warmup import Warmup

MOST_PROFILES = 3
"""A cluster whose speeds change all the time is not made for this; a profile costs a third of its iterations."""


@final
@dataclass(kw_only=True)
class AntDTDD(GatedStrategy):
    """One update per round of all workers; after a profile, fast devices accumulate micro-batches for the slow ones.

    Source: AntDT section VI-B, Eq. 4. Profile: every worker computes batches of ``profile_sizes``, and from the times
    come each type's curve F, its saturation point (least micro-batch) and who is of the same type. Then the equation is
    solved once, and from the next round on worker i computes X_i samples in C_k micro-batches; it is solved again when
    workers leave or join, and after another profile when a worker turns out not to be as fast as this one said.

    Departures: totals are per worker and not per type, since the equation often has no whole solution otherwise. The
    rounds of the profile sum to B as well: while some workers try a size, the others share the rest. Where saturated
    micro-batches cannot sum to B, the least is one sample, and the state says so (``below_saturation``).

    Attributes:
        accum_min, accum_max: least and most micro-batches of a worker (the paper: usually 1, for example 5).
        types: device type of every worker, by rank; None: workers whose profiled speeds differ by a factor of at most
            ``type_ratio`` are of one type.
        type_ratio: see ``types``; above 1.
        devices: what is known of each type; the profile is left out when every type's speed is given.
        max_batch_samples: largest micro-batch of a type that ``devices`` says nothing else of (memory); None: no cap.
        profile_sizes, profile_iters: sizes that are tried, and how often.
        check_iters: after so many iterations with the plan, a worker whose median time is ``type_ratio`` times what its
            profile said, or that part of it, makes for another profile, twice as long; 0: never, as in the paper.
        curve: ``measured`` times with straight lines between the sizes, or ``linear``: F(b) = b / v, as in the paper.
        warmup_iters: first iterations of a process that count for nothing.
    """

    topologies: ClassVar[frozenset[str]] = frozenset({"ps", "allreduce"})

    accum_min: int = 1
    accum_max: int = 5
    types: tuple[str, ...] | None = None
    type_ratio: float = 1.2
    devices: dict[str, DeviceSpec] | None = None
    max_batch_samples: int | None = None
    profile_sizes: tuple[int, ...] | None = None
    profile_iters: int = 5
    check_iters: int = 100
    curve: str = "measured"
    warmup_iters: int = 3
    data: str = "shared"

    def __post_init__(self) -> None:
        """Check the fields."""
        check_whole("accum_min", self.accum_min, 1)
        check_whole("accum_max", self.accum_max, self.accum_min)
        if self.accum_max > self.accum_min + 9:
            raise ValueError(f"accum_max={self.accum_max}: at most 9 above accum_min={self.accum_min}, all are tried")
        check_number("type_ratio", self.type_ratio, above=1)
        if self.max_batch_samples is not None:
            check_whole("max_batch_samples", self.max_batch_samples, 1)
        if self.profile_sizes is not None:
            check_sizes("profile_sizes", self.profile_sizes)
        check_whole("profile_iters", self.profile_iters, 1)
        check_whole("check_iters", self.check_iters)
        check_choice("curve", self.curve, "measured", "linear")
        check_whole("warmup_iters", self.warmup_iters)
        check_types(self.types, self.devices)

    def validate(self, num_workers: int) -> None:
        """Every worker has a type."""
        if self.types is not None and len(self.types) != num_workers:
            raise ValueError(f"types={list(self.types)}: {len(self.types)} types for {num_workers} workers")

    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        """The equation can be solved with the bounds that are known before the profile."""
        try:
            solve(global_batch_samples, *find_devices(self, {}, range(num_workers)), self._accums)
        except ValueError as error:
            bounded = next((name for name in ("devices", "max_batch_samples") if getattr(self, name)), "accum_min")
            raise ValueError(f"{bounded}: {error}") from None

    @property
    def _accums(self) -> range:
        return range(self.accum_min, self.accum_max + 1)

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """Everybody waits for everybody."""
        return AllGate(workers)

    def shares(self, started: Started) -> list[int]:
        """An even split until the profile begins."""
        self._warmup = Warmup(self.warmup_iters)
        self._measured: dict[int, list[tuple[float, float]]] = {worker: [] for worker in started.workers}
        self._accum = dict.fromkeys(started.workers, 1)
        self._profile: list[Sizes] = []
        self._plan: Plan | None = None
        self._tries = 0
        self._drifts = Drifts(self.check_iters, self.type_ratio)
        self._members: tuple[int, ...] = ()
        return super().shares(started)

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Look at the times before the gate acts on the arrival."""
        if isinstance(event, Arrived) and self._warmup.tells(event):
            grad, accum = event.grad, self._accum[event.grad.worker]
            one = grad.samples / accum, event.timings.bpt_s / accum
            if self._plan is None:
                self._measured[grad.worker].append(one)
            else:
                self._drifts.tell(grad.worker, *one)
        return super().handle(event)

    def before_round(self, workers: tuple[int, ...]) -> None:
        """The next round of the profile or, once, the plan; begun anew or solved again when the members are others."""
        changed, self._members = workers != self._members, workers
        if changed and self._plan is None and not is_complete(self):
            self._begin_profile(workers, self.warmup_iters)
        elif not changed and self._tries < MOST_PROFILES - 1 and self._drifts.found():
            self._tries += 1
            self._plan, self._measured = None, {worker: [] for worker in self._measured}
            self._begin_profile(workers, 0)
        if self._profile:
            self._batch.update(sizes := self._profile.pop(0))
            self._accum = {worker: self._parts(sizes[worker], worker) for worker in workers}
        elif changed or self._plan is None:
            devices, types = find_devices(self, self._measured, workers)
            self._plan = solve_anyhow(self._global_batch, devices, types, self._accums)
            self._drifts.begin(self._measured)
            self._batch.update(zip(workers, self._plan.totals, strict=True))
            self._accum = {worker: self._plan.accum[kind] for worker, kind in zip(workers, types, strict=True)}

    def _begin_profile(self, workers: tuple[int, ...], warmup_iters: int) -> None:
        """Each one after the first twice as long as the one before: what misled that was longer than it."""
        sizes = self.profile_sizes or sizes_around(self._global_batch, len(workers))
        iters = self.profile_iters * 2**self._tries
        self._profile = profile_rounds(self._global_batch, workers, sizes, iters, warmup_iters)

    def _parts(self, samples: int, worker: int) -> int:
        """Micro-batches while the profile runs: no more than memory demands."""
        spec = self.devices[self.types[worker]] if self.devices and self.types else DeviceSpec()
        cap = spec.max_batch_samples or self.max_batch_samples
        return 1 if cap is None else ceil(samples / cap)

    def _compute(self, worker: int) -> Compute:
        return Compute(worker=worker, num_samples=self._batch[worker], accum=self._accum[worker])

    def log_state(self) -> dict[str, float | int | str]:
        """The gate's state, the phase, and the plan's time and size."""
        state: dict[str, float | int | str] = {**self._gate.log_state(), "profile_rounds_left": len(self._profile)}
        if self._plan is None:
            return state
        below = int(self._plan.below_saturation)
        micro_batches = sum(self._accum[worker] for worker in self._members)
        return {**state, "planned_s": self._plan.slowest_s, "micro_batches": micro_batches, "below_saturation": below}
