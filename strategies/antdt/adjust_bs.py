"""ADJUST_BS: batches by speed while there are stragglers (AntDT section VI-A; pure)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median, stdev
from typing import ClassVar, final

from strategies.antdt.detector import Paces, StragglerDetector
from strategies.parts.hooks import Peers, Tick
from strategies.parts.load.allocation import round_sizes, samples_of_round, size_of, slowest_s
from strategies.protocol import AnyCommand, AnyEvent, Command, Compute, Lost, NodeId, Restored, Started, Wake

CALM_DECISIONS = 2
"""``published``: decisions without a transient straggler after which sizes may become even again, ..."""
EVEN_RATIO = 1.1
"""... if the fastest worker is less than this factor faster than the slowest."""
ALIKE_FRAC = 0.02
"""``at_equal_work``: a worker counts as different if it deviates from the median by more than this part of it, ..."""
ALIKE_ERRORS = 3.0
"""... and by more than this number of standard errors of its mean: noise does not justify another batch."""
PAYING_FRAC = 0.98
"""Sizes return part of the way if the predicted round takes less than this fraction of the last one, ..."""
EARLY_FRAC = 0.9
"""... or if the worker that gets more finished within this fraction of a round: its next time tells its speed."""


@final
@dataclass(kw_only=True)
class AdjustBS:
    """Sizes are solved when there is a transient straggler or a worker was restarted, and apply from the next round on.

    min max B_i / v_i with sum B_i = B: in every round the assigned sizes sum to the global batch, whichever workers
    leave or join; a newcomer begins with B / N. Where the paper is silent: a decision without a transient straggler
    solves the sizes again from the present paces, and they are even when no pace differs by more than noise. With
    ``judge: published`` sizes become even after two such decisions, if all are about equally fast by then.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Wake})
    looks_at: ClassVar[tuple[type, ...]] = (StragglerDetector,)
    steady: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False

    def meet(self, peers: Peers) -> None:
        self._detector = peers.one(StragglerDetector)

    def start(self, started: Started) -> None:
        self._total = sum(started.batch_samples)
        self._sizes = dict(zip(started.workers, started.batch_samples, strict=True))
        self._speeds: dict[int, float] = {}
        self._round: set[int] = set()
        self._stale = False
        self._calm = 0

    def order(self, worker: int) -> Compute:
        return Compute(worker=worker, num_samples=size_of(self._sizes, worker))

    def observe_event(self, event: AnyEvent) -> None:
        """A lost worker's next incarnation counts as a newcomer."""
        match event:
            case Lost(restarting=False):
                self._forget(event.worker)
            case Restored():
                for worker in self._round - set(event.workers):
                    self._forget(worker)

    def _forget(self, worker: int) -> None:
        self._round.discard(worker)
        self._speeds.pop(worker, None)
        self._stale = True

    def log_state(self) -> dict[str, float | int | str]:
        return {"adjusted": bool(self._speeds)}

    # ---- decisions --------------------------------------------------------------------------------------------------

    def decide(self, tick: Tick) -> Sequence[AnyCommand]:
        """Solve new sizes if necessary; they apply from the next round on."""
        speeds = self._new_speeds(tick)
        if speeds is not None:
            self._speeds, self._stale = speeds, True
        return ()

    def _new_speeds(self, tick: Tick) -> dict[int, float] | None:
        """Speeds in samples/s to solve the sizes from; empty: even sizes again; None: sizes stay as they are.

        A killed worker no longer counts, neither in the mean nor in the sizes.
        """
        gone = {node.number for node in tick.restarted if node.role == "worker"}
        records = {worker: own for worker, own in self._detector.paces("short").items() if worker not in gone}
        transient = self._detector.stragglers("short", gone)
        if transient or gone:
            slowest = ", ".join(str(NodeId.worker(one)) for one in transient[:5])
            tick.said.append(f"ADJUST_BS: slow {slowest}" if transient else "ADJUST_BS among the others")
            self._calm = 0
        else:
            self._calm += 1
            if not self._speeds:
                return None
        if self._detector.compares_times:
            return self._published_speeds(gone, tick.said)
        speeds = speeds_of(records)
        if not transient and not gone:
            tick.said.append("ADJUST_BS to what is left" if speeds else "ADJUST_BS to even sizes")
        return speeds

    def _published_speeds(self, gone: Collection[int], said: list[str]) -> dict[int, float] | None:
        """The paper's throughputs; sizes return when these are alike, a rule that the paper does not give."""
        speeds = self._detector.monitor.speeds_samples_per_s("short")
        speeds = {worker: speed for worker, speed in speeds.items() if worker not in gone}
        if not self._calm:
            return speeds
        alike = speeds.keys() >= self._round and max(speeds.values()) < EVEN_RATIO * min(speeds.values())
        if self._calm < CALM_DECISIONS or not alike:
            return None
        said.append("ADJUST_BS to even sizes")
        return {}

    # ---- rounds -----------------------------------------------------------------------------------------------------

    def resize(self, workers: tuple[int, ...]) -> None:
        """Solve the sizes again if speeds or members have changed."""
        newcomers = set(workers) - self._round
        if self._stale or newcomers:
            self._sizes |= self._solve(workers, newcomers)
            self._round, self._stale = set(workers), False

    def _solve(self, workers: tuple[int, ...], newcomers: set[int]) -> dict[int, int]:
        """Without stragglers and with the same members, only steps towards the even split that pay or probe."""
        total, speeds = samples_of_round(self._total, len(workers)), self._speeds
        base = self._detector.base.samples
        same = not newcomers and self._round == set(workers)
        if not (self._calm and same):
            return round_sizes(total, workers, speeds, newcomers, base)
        now = {worker: size_of(self._sizes, worker) for worker in workers}
        back = round_sizes(total, workers, speeds, newcomers, base, returning=now)
        last_s = slowest_s(now, speeds, base)
        pays = not speeds or slowest_s(back, speeds, base) < PAYING_FRAC * last_s
        more = {worker: speed for worker, speed in speeds.items() if back.get(worker, 0) > now.get(worker, 0)}
        early = any(slowest_s(now, {worker: more[worker]}, base) < EARLY_FRAC * last_s for worker in more)
        return back if pays or early else now


def speeds_of(records: Paces) -> dict[int, float]:
    """Samples per second at equal work, by worker; empty if no worker differs from the median by more than noise.

    A worker that does not differ counts as fast as the median.
    """
    if not records:
        return {}
    means = {worker: fmean(own) for worker, own in records.items()}
    center = median(means.values())
    differs = {
        worker
        for worker, mean in means.items()
        if abs(mean - center) > max(ALIKE_FRAC * center, ALIKE_ERRORS * _error(records[worker]))
    }
    if not differs:
        return {}
    return {worker: 1 / (mean if worker in differs else center) for worker, mean in means.items()}


def _error(values: Sequence[float]) -> float:
    """Standard error of the mean of ``values``."""
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
