"""AntDT-ND's decisions (AntDT section VI-A): which node is restarted, and which speeds the sizes are solved from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import sqrt
from statistics import fmean, median, stdev
from typing import final

from strategies.nodes.restarts import Restarts
from strategies.watching.flags import slow
from strategies.watching.monitor import Monitor, Span
from strategies.watching.pace import Base, paces

JUDGES = ("at_equal_work", "published")
CALM_DECISIONS = 2
"""published: decisions without a transient straggler after which sizes may become even again, ..."""
EVEN_RATIO = 1.1
"""... if the fastest worker is less than so many times as fast as the slowest."""
ALIKE_FRAC = 0.02
"""at_equal_work: a worker differs from the median if it does so by more than this part of it, ..."""
ALIKE_ERRORS = 3.0
"""... and by more than so many standard errors of its mean: noise is no reason for another batch."""

Paces = Mapping[int, Sequence[float]]


@final
class NDRules:
    """Every decision is told by its words in ``said``, in the order in which it was made.

    Args:
        monitor: what nodes were like lately.
        restarts: who may be restarted.
        ratio: the paper's lambda.
        center: one of ``flags.CENTERS``.
        max_pending_s: seconds that a new worker may be expected to wait for its place.
        min_update_s: seconds per update below which no server is slow.
        judge: one of ``JUDGES``: by speed at equal work, or by time as it is.
    """

    def __init__(
        self,
        monitor: Monitor,
        restarts: Restarts,
        ratio: float,
        center: str,
        max_pending_s: float,
        min_update_s: float,
        judge: str,
    ) -> None:
        self.monitor, self.restarts, self.ratio, self.center = monitor, restarts, ratio, center
        self.max_pending_s, self.min_update_s, self.published = max_pending_s, min_update_s, judge == "published"
        self.base, self.calm = Base(), 0
        self._flagged_s: dict[int, float] = {}

    def observe(self) -> None:
        """Learn from how times have changed with sizes, before a decision."""
        if not self.published:
            now_s, long_s = self.monitor.t, self.monitor.long_window_s
            self._flagged_s |= dict.fromkeys(self._stragglers("short"), now_s)
            straggling = [worker for worker, since_s in self._flagged_s.items() if now_s - since_s < long_s]
            workers = self.monitor.mature_workers("short")
            self.base.learn({worker: self.monitor.records(worker, "long") for worker in workers}, straggling)

    def _paces(self, span: Span) -> dict[int, list[float]]:
        """What mature workers are compared by: seconds per sample at equal work, or seconds."""
        monitor = self.monitor
        if self.published:
            return {w: [seconds for _, seconds in monitor.records(w, span)] for w in monitor.mature_workers(span)}
        base = self.base.samples
        return {worker: paces(monitor.records(worker, span), base) for worker in monitor.mature_workers(span)}

    def _stragglers(self, span: Span, gone: Collection[int] = ()) -> list[int]:
        """Without who is ``gone``, slowest first.

        At equal work only whoever is slow in most records (a single pause is no straggler) and in the newest ones
        (whoever has recovered is none any more).
        """
        records = {worker: own for worker, own in self._paces(span).items() if worker not in gone}
        found = self._slow(records)
        if self.published:
            return found
        if not found:
            return []
        now = self._slow({worker: own[-self.monitor.min_records :] for worker, own in records.items()})
        mostly = slow({worker: median(own) for worker, own in records.items()}, self.ratio, self.center)
        return [worker for worker in found if worker in now and worker in mostly]

    def _slow(self, records: Paces, means: Mapping[int, float] | None = None) -> list[int]:
        """Stragglers, slowest first; of whom there are few records, all must say so."""
        means = means or {node: fmean(own) for node, own in records.items()}
        found = slow(means, self.ratio, self.center)
        few = {node for node in found if len(records[node]) < self.monitor.min_records}
        alone = {node: slow({**means, node: min(records[node])}, self.ratio, self.center) for node in few}
        return [node for node in found if node not in few or node in alone[node]]

    def kill(self, t: float, pending_s: float, said: list[str]) -> str | None:
        """The node to restart at ``t``: a persistent server before a persistent worker, the slowest first."""
        updates_s = self.monitor.mature_updates_s("long")
        told = {server: self.monitor.update_times_s(server) for server in updates_s}
        servers = [f"server:{one}" for one in self._slow(told, updates_s) if updates_s[one] >= self.min_update_s]
        transient = [f"worker:{one}" for one in self._stragglers("short")]
        workers = [f"worker:{one}" for one in self._stragglers("long")]
        self.restarts.watch(t, {*servers, *workers, *transient})
        if workers and pending_s > self.max_pending_s:
            said.append(f"{workers[0]} stays: another would be pending for {pending_s:.3g} s")
            workers = []
        return self.restarts.pick(t, servers, said) or self.restarts.pick(t, workers, said)

    def adjust(
        self, members: Collection[int], adjusted: bool, killed: str | None, said: list[str]
    ) -> dict[int, float] | None:
        """Speeds in samples/s to solve the sizes from; empty: even sizes again; None: sizes stay as they are.

        ``members`` are those of the round, ``adjusted`` says whether their sizes differ. A ``killed`` worker counts no
        more, neither for the mean nor for the sizes.
        """
        role, _, number = (killed or "").partition(":")
        gone = {int(number)} if role == "worker" else set()
        records = {worker: own for worker, own in self._paces("short").items() if worker not in gone}
        transient = self._stragglers("short", gone)
        if transient or gone:
            slowest = ", ".join(f"worker:{one}" for one in transient[:5])
            said.append(f"ADJUST_BS: slow {slowest}" if transient else "ADJUST_BS among the others")
            self.calm = 0
        else:
            self.calm += 1
            if not adjusted:
                return None
        if self.published:
            return self._published(set(members), gone, said)
        speeds = speeds_of(records)
        if not transient and not gone:
            said.append("ADJUST_BS to what is left" if speeds else "ADJUST_BS to even sizes")
        return speeds

    def _published(self, members: set[int], gone: set[int], said: list[str]) -> dict[int, float] | None:
        """The paper's throughputs; sizes return only when these are alike, which the paper does not tell."""
        speeds = self.monitor.speeds_samples_per_s("short")
        speeds = {worker: speed for worker, speed in speeds.items() if worker not in gone}
        if not self.calm:
            return speeds
        alike = speeds.keys() >= members and max(speeds.values()) < EVEN_RATIO * min(speeds.values())
        if self.calm < CALM_DECISIONS or not alike:
            return None
        said.append("ADJUST_BS to even sizes")
        return {}


def speeds_of(records: Paces) -> dict[int, float]:
    """Samples per second at equal work, by worker; empty where nobody differs from the median by more than noise.

    Whoever does not differ counts as fast as the median.
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
    """Standard error of the mean."""
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
