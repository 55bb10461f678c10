"""AntDT's straggler detection (section VI-A): a mean time over a window too far above the others' (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Annotated, ClassVar, final

from strategies.antdt.flags import CENTERS, check_ratio, slow, still_slow
from strategies.antdt.monitor import TIMES, Monitor, Span, check_windows
from strategies.antdt.pace import Base, paces
from strategies.parts.checks import NonNegativeInt, Number, OneOf, PositiveFloat, PositiveInt, check_settings
from strategies.protocol import AnyEvent, Started

JUDGES = ("at_equal_work", "published")
NEVER_MATURE = "nothing was ever decided: no two workers were there for 0.8 of short_window_s with enough iterations"

Paces = Mapping[int, Sequence[float]]
"""The values by which workers are compared, by worker, oldest first."""


@dataclass(kw_only=True)
class DetectorSettings:
    """Who is a straggler.

    Attributes:
        slowness_ratio: the paper's lambda; above 1 and, against the mean of all, less than the number of workers.
        short_window_s: seconds; the paper's L_trans.
        long_window_s: seconds; the paper's L_per.
        report_iters: iterations of a worker that make one record of the Monitor.
        min_records: records that a window needs before a decision uses it.
        warmup_iters: first iterations of a process that the Monitor leaves out.
        center: ``mean_all`` (the paper's) or ``median_others``, for few workers.
        judge: ``at_equal_work``: workers are compared by seconds over (samples + the fixed cost of an iteration as
            samples), so that a straggler with a small batch remains one; ``published``: by their plain times.
        times: which time of an iteration counts: ``iter`` or ``bpt``, see :mod:`strategies.antdt.monitor`.
    """

    slowness_ratio: Annotated[float, Number(above=1.0)] = 1.5
    short_window_s: PositiveFloat = 300.0
    long_window_s: PositiveFloat = 600.0
    report_iters: PositiveInt = 10
    min_records: PositiveInt = 5
    warmup_iters: NonNegativeInt = 3
    center: Annotated[str, OneOf(*CENTERS)] = "mean_all"
    judge: Annotated[str, OneOf(*JUDGES)] = "at_equal_work"
    times: Annotated[str, OneOf(*TIMES)] = "iter"


@final
@dataclass(kw_only=True)
class StragglerDetector(DetectorSettings):
    """Finds *transient* stragglers (by the short window) and *persistent* ones (by the long window).

    Source: AntDT section VI-A: a worker is a straggler if its mean batch processing time is at least ``slowness_ratio``
    times the mean of all workers; servers likewise, by their time per update over the long window.
    """

    watches_servers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self)

    def validate(self, num_workers: int) -> None:
        """Raise ``ValueError`` if no worker could ever be a straggler."""
        check_ratio("slowness_ratio", self.slowness_ratio, num_workers, self.center)

    def validate_period(self, decide_every_s: float) -> None:
        """Raise ``ValueError`` if the windows cannot hold what a decision needs."""
        check_windows(self.short_window_s, self.long_window_s, decide_every_s, self.min_records)

    def start(self, started: Started) -> None:
        windows_s, counts = (self.short_window_s, self.long_window_s), (self.report_iters, self.min_records)
        self.monitor = Monitor(*windows_s, *counts, self.warmup_iters, times=self.times, sparse=True)
        self.base = Base()
        self._flagged_s: dict[int, float] = {}
        self._warning = NEVER_MATURE

    def observe_event(self, event: AnyEvent) -> None:
        """Pass every event to the Monitor."""
        self.monitor.observe_event(event)

    @property
    def published(self) -> bool:
        """Whether plain times are compared, as in the paper."""
        return self.judge == "published"

    def learn(self) -> None:
        """Estimate the fixed cost of an iteration from changes of times with sizes."""
        workers = self.monitor.mature_workers("short")
        if len(workers) > 1:
            self._warning = ""
        if not self.published:
            now_s, long_s = self.monitor.t, self.monitor.long_window_s
            self._flagged_s |= dict.fromkeys(self.stragglers("short"), now_s)
            straggling = [worker for worker, since_s in self._flagged_s.items() if now_s - since_s < long_s]
            self.base.learn({worker: self.monitor.records(worker, "long") for worker in workers}, straggling)

    def paces(self, span: Span) -> dict[int, list[float]]:
        """Values by which mature workers are compared: seconds per sample at equal work, or seconds."""
        monitor = self.monitor
        if self.published:
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
        if self.published:
            return found
        if not found:
            return []
        now = self._slow({worker: own[-self.monitor.min_records :] for worker, own in records.items()})
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
        few = {node: min(records[node]) for node in found if len(records[node]) < self.monitor.min_records}
        all_slow = still_slow(few, means, self.slowness_ratio, self.center)
        return [node for node in found if node not in few or node in all_slow]

    def log_state(self) -> dict[str, float | int | str]:
        """A warning as long as no decision was possible."""
        return {"warning": self._warning} if self._warning else {}
