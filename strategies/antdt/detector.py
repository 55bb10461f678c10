"""AntDT's straggler detection (section VI-A): means over a window, at equal work, against a centre of all (pure).

A worker with a small batch computes fewer samples per second than an equal one with a large batch, because the fixed
cost of an iteration is spread over fewer. So speeds are compared by *pace*: seconds over (samples + c), where c is
the base as a number of samples. Equal workers have equal paces whatever their batches; twice as slow is twice the pace.
A constant addition to every iteration (a sleep, a slow link) does not shrink with the batch; a small batch then makes
the pace look worse than it is, but the smallest batch is the best one for such a worker anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean, median
from typing import Annotated, ClassVar, final

from reading.ranges import Checked, Number, OneOf
from strategies.antdt.monitor import Monitor, MonitorSettings, Span, check_windows
from strategies.protocol import AnyEvent, Started

CENTERS = ("mean_all", "median_others")


def bounds(seconds: Mapping[int, float], ratio: float, center: str) -> dict[int, float]:
    """Seconds from which each node is slow: ``ratio`` times the centre.

    ``mean_all`` is the paper's: the mean of all, the node itself included, so of n nodes one is flagged only if it
    takes more than ratio (n - 1) / (n - ratio) times as long as each of the others; n must exceed ratio.
    ``median_others`` leaves the node itself out, for small clusters.
    """
    if center == "mean_all":
        return dict.fromkeys(seconds, ratio * fmean(seconds.values())) if seconds else {}
    if len(seconds) < 2:
        return {}
    ranked = sorted(seconds, key=lambda node: seconds[node])
    ordered = [seconds[node] for node in ranked]
    return {node: ratio * median_without(ordered, rank) for rank, node in enumerate(ranked)}


def median_without(ordered: Sequence[float], rank: int) -> float:
    """Median of sorted numbers (two or more) without the one at ``rank``."""
    others = len(ordered) - 1
    low, high = ((middle if middle < rank else middle + 1) for middle in ((others - 1) // 2, others // 2))
    return (ordered[low] + ordered[high]) / 2


def slow(seconds: Mapping[int, float], ratio: float, center: str = "mean_all") -> list[int]:
    """Nodes whose mean ``seconds`` reach the bound, slowest first (ties: lower number)."""
    limits = bounds(seconds, ratio, center)
    reached = [node for node, limit in limits.items() if seconds[node] >= limit > 0.0]
    return sorted(reached, key=lambda node: (-seconds[node], node))


def still_slow(
    fastest_s: Mapping[int, float], seconds: Mapping[int, float], ratio: float, center: str = "mean_all"
) -> set[int]:
    """Nodes of ``fastest_s`` that would be slow, too, if they took that long instead of their mean, each by itself."""
    if center == "mean_all":
        limits = {node: ratio * fmean({**seconds, node: own_s}.values()) for node, own_s in fastest_s.items()}
    else:  # whose bounds leave the node itself out
        limits = bounds(seconds, ratio, center) if fastest_s else {}
    return {node for node, own_s in fastest_s.items() if own_s >= limits.get(node, inf) > 0.0}


Records = Sequence[tuple[float, float]]
"""(samples, seconds): means over some iterations."""

LEAST_CHANGE = 1.1
"""Least factor by which a batch must have changed to be used in a fit."""
MOST_BASE = 19.0
"""Largest base as a multiple of the batch: 95 % of an iteration."""


def fit_base(records: Records) -> float | None:
    """The base in samples of the line fitted by least squares; None where batches were about equal."""
    sizes = [samples for samples, _ in records]
    if not sizes or max(sizes) < LEAST_CHANGE * min(sizes):
        return None
    size, time_s = fmean(sizes), fmean(seconds for _, seconds in records)
    covariance = sum((samples - size) * (seconds - time_s) for samples, seconds in records)
    slope = covariance / sum((samples - size) ** 2 for samples in sizes)
    most = MOST_BASE * size
    return most if slope <= 0 else min(most, max(0.0, time_s / slope - size))


def paces(records: Records, base_samples: float) -> list[float]:
    """Seconds per sample of every record, with the base counted as additional samples."""
    return [seconds / (samples + base_samples) for samples, seconds in records]


@final
class Base:
    """Estimates the base of a cluster's workers, ``samples``: the median of fits to each worker's own changes of size.

    Stragglers are used only if there are no other workers, because their speed may have changed with their batch.
    Before any batch has changed the base is 0: time in proportion to the batch, as AntDT assumes.
    """

    def __init__(self) -> None:
        self.samples = 0.0
        self._steady: dict[int, float] = {}
        self._straggling: dict[int, float] = {}

    def learn(self, records: Mapping[int, Records], stragglers: Collection[int]) -> None:
        """Fit the base to the records in the workers' windows."""
        for worker, own in records.items():
            if (base := fit_base(own)) is not None:
                (self._straggling if worker in stragglers else self._steady)[worker] = base
        if told := self._steady or self._straggling:
            self.samples = median(told.values())


JUDGES = ("at_equal_work", "published")
NEVER_MATURE = "nothing was ever decided: no two workers were there for 0.8 of short_window_s with enough iterations"

Paces = Mapping[int, Sequence[float]]
"""The values by which workers are compared, by worker, oldest first."""


@dataclass(kw_only=True)
class DetectorSettings(MonitorSettings):
    """Which nodes are stragglers.

    Attributes:
        slowness_ratio: the paper's lambda; above 1 and, against the mean of all, less than the number of workers.
        center: ``mean_all`` (the paper's) or ``median_others``, for few workers.
        judge: ``at_equal_work``: workers are compared by seconds over (samples + the fixed cost of an iteration as
            samples), so that a straggler with a small batch remains one; ``published``: by their plain times.
    """

    slowness_ratio: Annotated[float, Number(above=1.0)] = 1.5
    center: Annotated[str, OneOf(*CENTERS)] = "mean_all"
    judge: Annotated[str, OneOf(*JUDGES)] = "at_equal_work"


@final
@dataclass(kw_only=True)
class StragglerDetector(Checked, DetectorSettings):
    """Finds *transient* stragglers (by the short window) and *persistent* ones (by the long window).

    Source: AntDT section VI-A: a worker is a straggler if its mean batch processing time is at least ``slowness_ratio``
    times the mean of all workers; servers likewise, by their time per update over the long window.
    """

    watches_servers: ClassVar[bool] = True

    def validate(self, num_workers: int) -> None:
        # a mean that includes the node is at least 1 / n of its time, so with n <= ratio no time can reach the bound
        if self.center == "mean_all" and self.slowness_ratio >= num_workers:
            raise ValueError(
                f"slowness_ratio={self.slowness_ratio}: must be less than the number of workers ({num_workers}), or "
                "none could ever be this much slower than the mean of all"
            )
        if num_workers < 2:
            raise ValueError(f"center={self.center}: needs 2 workers or more")

    def validate_period(self, decide_every_s: float) -> None:
        """Raise ``ValueError`` naming the window that does not fit decisions every ``decide_every_s`` seconds."""
        check_windows(self.short_window_s, self.long_window_s, decide_every_s, self.min_records)

    def start(self, started: Started) -> None:
        self.monitor, self.base = Monitor(self), Base()
        self._flagged_s: dict[int, float] = {}
        self._warning = NEVER_MATURE

    def observe_event(self, event: AnyEvent) -> None:
        self.monitor.observe_event(event)

    @property
    def compares_times(self) -> bool:
        """Whether plain times are compared, as in the paper."""
        return self.judge == "published"

    def learn(self) -> None:
        """Estimate the fixed cost of an iteration from changes of times with sizes."""
        workers = self.monitor.mature_workers("short")
        if len(workers) > 1:
            self._warning = ""
        if not self.compares_times:
            now_s, long_s = self.monitor.t, self.long_window_s
            self._flagged_s |= dict.fromkeys(self.stragglers("short"), now_s)
            straggling = [worker for worker, since_s in self._flagged_s.items() if now_s - since_s < long_s]
            self.base.learn({worker: self.monitor.records(worker, "long") for worker in workers}, straggling)

    def paces(self, span: Span) -> dict[int, list[float]]:
        """Values by which mature workers are compared: seconds per sample at equal work, or seconds."""
        monitor = self.monitor
        if self.compares_times:
            return {w: [seconds for _, seconds in monitor.records(w, span)] for w in monitor.mature_workers(span)}
        base = self.base.samples
        return {worker: paces(monitor.records(worker, span), base) for worker in monitor.mature_workers(span)}

    def stragglers(self, span: Span, forget: Collection[int] = ()) -> list[int]:
        """Stragglers except those in ``forget``, slowest first.

        At equal work a straggler must be slow in most records (a single pause does not count) and in the newest ones
        (it has not recovered).
        """
        records = {worker: own for worker, own in self.paces(span).items() if worker not in forget}
        found = self._slow(records)
        if self.compares_times:
            return found
        if not found:
            return []
        now = self._slow({worker: own[-self.min_records :] for worker, own in records.items()})
        mostly = slow({worker: median(own) for worker, own in records.items()}, self.slowness_ratio, self.center)
        return [worker for worker in found if worker in now and worker in mostly]

    def slow_servers(self, min_update_s: float = 0.0) -> list[int]:
        """Servers that are stragglers by the long window and take ``min_update_s`` per update or more."""
        updates_s = self.monitor.mature_updates_s("long")
        records = {server: self.monitor.update_times_s(server) for server in updates_s}
        return [server for server in self._slow(records, updates_s) if updates_s[server] >= min_update_s]

    def _slow(self, records: Paces, means: Mapping[int, float] | None = None) -> list[int]:
        """Stragglers, slowest first; of a worker with few records, all must be slow."""
        means = means or {node: fmean(own) for node, own in records.items()}
        found = slow(means, self.slowness_ratio, self.center)
        few = {node: min(records[node]) for node in found if len(records[node]) < self.min_records}
        all_slow = still_slow(few, means, self.slowness_ratio, self.center)
        return [node for node in found if node not in few or node in all_slow]

    def log_state(self) -> dict[str, float | int | str]:
        return {"warning": self._warning} if self._warning else {}
