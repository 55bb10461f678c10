"""AntDT-DD: batch sizes and gradient accumulation for a dedicated cluster of unequal devices (section VI-B).

Symbols: there are n_k workers of type k; F_k(b) is the time of a micro-batch of b samples, v_k the speed; B_k its
micro-batch with B_k^min (saturation) <= B_k <= B_k^max (memory); C_k its number of micro-batches, from C^min
``accum_min`` to C^max ``accum_max`` (1 to 5); X_i the samples of worker i in a round; B the global batch.

1. Profile (``profiling``): rounds that sum to B, in which every worker computes ``profile_iters`` (5) batches of each
   of ``profile_sizes`` (a quarter, half and all of B / N of N workers), while the others share the rest. A worker that
   joins or leaves meanwhile restarts the profile. There is no profile if ``devices`` has all speeds.
2. Types (``profiling``): given, or at most four, of workers whose speeds differ by a factor of at most ``type_ratio``
   (1.2). F_k is a straight line between the medians of the sizes, constant below the smallest and in proportion to b
   above the largest (``curve=linear``, as in the paper: b / v_k). B_k^min is the largest size that takes at most 10 %
   longer than the smallest size; v_k is the median throughput of the sizes from B_k^min on. B_k^max is
   ``max_batch_samples`` of the type in ``devices``, else of all types (None: no bound; the paper: 95 % of memory).
3. Eq. 4, once (``micro_batches``): min max_k C_k F_k(B_k) with sum_k n_k C_k B_k = B and the bounds. Here each worker
   has its own whole number X_i in place of C_k B_k. It computes them in C_k micro-batches whose sizes differ by one at
   most, and takes the sum of their F_k. For every combination of C_k: the X_i with C_k B_k^min <= X_i <= C_k B_k^max
   and sum_i X_i = B that minimise the time of the slowest worker: above the lower bounds each sample goes to the worker
   that would end first with it. The combination with the least time is taken; ties: fewest micro-batches.
4. From the next round on worker i of type k computes its X_i samples and sends the sum of their gradients once. A round
   of all workers is one update, the mean over B samples.
5. When workers leave or join: step 3 again. When the median time of a worker over ``check_iters`` (100) iterations
   differs from its profile by more than the factor ``type_ratio`` (the paper: never): steps 1 to 3 again, with a
   profile twice as long; a job has three profiles at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import ClassVar, final

from reading.ranges import check_settings, check_whole
from strategies.antdt.micro_batches import BatchPlan, solve, solve_anyhow
from strategies.antdt.profiling import (
    AccumulationSettings,
    Drifts,
    Sizes,
    cap_of,
    check_sizes,
    check_types,
    find_devices,
    is_complete,
    profile_rounds,
    sizes_around,
)
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import AllGate
from strategies.parts.load.allocation import samples_of_round, size_of
from strategies.parts.monitoring.base import Warmup
from strategies.protocol import AnyEvent, Arrived, Compute, Started

MOST_PROFILES = 3
"""Most profiles of a job: where speeds change all the time, more would take a large part of its iterations."""


@final
@dataclass(kw_only=True)
class AccumulationLoad(AccumulationSettings):
    """Fast devices accumulate micro-batches for the slow ones; ``AntDTDD`` explains the fields.

    Worker i computes X_i samples in C_k micro-batches by the plan, which is solved again when workers leave or join,
    and after another profile when a worker's speed turns out to differ from its profile.
    """

    steady: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self)
        check_whole("accum_max", self.accum_max, self.accum_min)
        if self.accum_max > self.accum_min + 9:
            raise ValueError(f"accum_max={self.accum_max}: at most 9 above accum_min={self.accum_min}, all are tried")
        if self.profile_sizes is not None:
            check_sizes("profile_sizes", self.profile_sizes)
        check_types(self.types, self.devices)

    def validate(self, num_workers: int) -> None:
        if self.types is not None and len(self.types) != num_workers:
            raise ValueError(f"types={list(self.types)}: {len(self.types)} types for {num_workers} workers")

    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        try:
            solve(global_batch_samples, *find_devices(self, {}, range(num_workers)), self._accums)
        except ValueError as error:
            bounded = next((name for name in ("devices", "max_batch_samples") if getattr(self, name)), "accum_min")
            raise ValueError(f"{bounded}: {error}") from None

    @property
    def _accums(self) -> range:
        return range(self.accum_min, self.accum_max + 1)

    # ---- events -----------------------------------------------------------------------------------------------------

    def start(self, started: Started) -> None:
        self._total = sum(started.batch_samples)
        self._sizes = dict(zip(started.workers, started.batch_samples, strict=True))
        self._warmup = Warmup(self.warmup_iters)
        self._measured: dict[int, list[tuple[float, float]]] = {worker: [] for worker in started.workers}
        self._accum = dict.fromkeys(started.workers, 1)
        self._profile: list[Sizes] = []
        self._plan: BatchPlan | None = None
        self._tries = 0
        self._drifts = Drifts(self.check_iters, self.type_ratio)
        self._members: tuple[int, ...] = ()

    def observe_event(self, event: AnyEvent) -> None:
        if isinstance(event, Arrived) and self._warmup.tells(event):
            grad, accum = event.grad, self._accum.get(event.grad.worker, 1)
            one = grad.samples / accum, event.timings.bpt_s / accum
            if self._plan is None:
                self._measured.setdefault(grad.worker, []).append(one)
            else:
                self._drifts.tell(grad.worker, *one)

    def order(self, worker: int) -> Compute:
        return Compute(worker=worker, num_samples=size_of(self._sizes, worker), accum=self._accum.get(worker, 1))

    def resize(self, workers: tuple[int, ...]) -> None:
        """Set the next round of the profile, or the plan once it ends; when members change, start or solve again."""
        changed, self._members = workers != self._members, workers
        total = samples_of_round(self._total, len(workers))
        if changed and self._plan is None and not is_complete(self):
            self._begin_profile(total, workers, self.warmup_iters)
        elif not changed and self._tries < MOST_PROFILES - 1 and self._drifts.has_drifted():
            self._tries += 1
            self._plan, self._measured = None, {worker: [] for worker in self._measured}
            self._begin_profile(total, workers, 0)
        if self._profile:
            self._sizes.update(sizes := self._profile.pop(0))
            self._accum = {worker: self._parts(sizes[worker], worker) for worker in workers}
        elif changed or self._plan is None:
            devices, types = find_devices(self, self._measured, workers)
            self._plan = solve_anyhow(total, devices, types, self._accums)
            self._drifts.begin(self._measured)
            self._sizes.update(zip(workers, self._plan.totals, strict=True))
            self._accum = {worker: self._plan.accum[kind] for worker, kind in zip(workers, types, strict=True)}

    def _begin_profile(self, total: int, workers: tuple[int, ...], warmup_iters: int) -> None:
        """Each profile is twice as long as the one before: a disturbance longer than that one misled it."""
        sizes = self.profile_sizes or sizes_around(total, len(workers))
        iters = self.profile_iters * 2**self._tries
        self._profile = profile_rounds(total, workers, sizes, iters, warmup_iters)

    def _parts(self, samples: int, worker: int) -> int:
        """Micro-batches while the profile runs: only as many as memory requires."""
        cap = cap_of(self, worker)
        return 1 if cap is None else ceil(samples / cap)

    def log_state(self) -> dict[str, float | int | str]:
        state: dict[str, float | int | str] = {"profile_rounds_left": len(self._profile)}
        if self._plan is None:
            return state
        below = int(self._plan.below_saturation)
        micro_batches = sum(self._accum[worker] for worker in self._members)
        return {**state, "planned_s": self._plan.slowest_s, "micro_batches": micro_batches, "below_saturation": below}


@final
@dataclass(kw_only=True)
class AntDTDD(AccumulationSettings, Composition):
    """One update per round of all workers; after a profile, fast devices accumulate micro-batches for the slow ones.

    Source: AntDT section VI-B, Eq. 4; the algorithm is above.

    Departures: totals are per worker and not per type, since the equation often has no whole solution otherwise. The
    rounds of the profile sum to B as well. Where saturated micro-batches cannot sum to B, the least is one sample, and
    the state reports it (``below_saturation``).

    Attributes:
        data: allocation policy, ``shared``, ``dynamic`` or ``even``; batch sizes differ by much.
    """

    data: str = "shared"

    def compose(self) -> Parts:
        return Parts(gate=AllGate(), load=self.make(AccumulationLoad))
