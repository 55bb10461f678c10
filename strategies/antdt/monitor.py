"""Recent speed of every node: sliding windows over batch processing times, throughput and update times (pure).

AntDT's Monitor (section V-D). Its owner feeds it all events (:meth:`Monitor.observe_event`) and reads means over the
``short`` (AntDT's L_trans) or the ``long`` window (L_per); the windows are seconds of event time that end at the last
event.

Contents of a record
--------------------
For a worker: the means of time and samples over ``report_iters`` iterations, or over fewer when they take so long that
a window would hold fewer than ``min_records``. Only whole batches count, because the short ones at an epoch's end are
not representative, and the first ``warmup_iters`` iterations of a process are ignored. For a server: one ``Updated``.
Records of a lost process are removed; other nodes keep theirs.

``times`` selects the time of an iteration: ``bpt``, loading and computing (AntDT's BPT of a worker), or ``iter``, with
sending, without which a slow link is invisible.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Annotated, Literal, final

from reading.ranges import NonNegativeInt, OneOf, PositiveFloat, PositiveInt
from strategies.protocol import (
    AnyEvent,
    Arrived,
    Grad,
    Joined,
    Lost,
    NodeId,
    Restored,
    ServerLost,
    Started,
    Timings,
    Updated,
)

Span = Literal["short", "long"]
MATURE_FRAC = 0.8
"""Part of a window's length for which a node must have been present."""
SERVER_REPORT_S = 0.5
"""Seconds between two reports of a server."""
FEW_RECORDS = 2
"""Records that suffice of a node whose iterations are too long for more ..."""
SPANNED_FRAC = 0.5
"""... which holds if they reach back over this part of the window."""


@final
class Window:
    """Pairs (x, y) of the last ``length_s`` seconds with their sums; O(1) amortised per record.

    The two newest records stay whatever their age: where records are further apart than the window is long, they are
    all that is known.
    """

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self.records: deque[tuple[float, float, float]] = deque()
        self.sum_x = self.sum_y = 0.0

    def push(self, t: float, x: float, y: float) -> None:
        """Add a record of time ``t``, which never decreases."""
        self.records.append((t, x, y))
        self.sum_x += x
        self.sum_y += y
        self.expire(t)

    def expire(self, t: float) -> int:
        """Remove records older than the window at time ``t``; return the number left."""
        records, oldest = self.records, t - self.length_s
        while len(records) > FEW_RECORDS and records[0][0] < oldest:
            _, x, y = records.popleft()
            self.sum_x -= x
            self.sum_y -= y
        return len(records)


def check_windows(short_window_s: float, long_window_s: float, decide_every_s: float, min_records: int) -> None:
    """Raise ``ValueError`` for windows in which no decision could ever find what it needs."""
    if long_window_s < short_window_s:
        raise ValueError(f"long_window_s={long_window_s}: must be at least short_window_s ({short_window_s} s)")
    if short_window_s < decide_every_s:
        raise ValueError(
            f"short_window_s={short_window_s}: must be at least decide_every_s ({decide_every_s} s), or part of what "
            "happens between two decisions is in no window"
        )
    if long_window_s < (reports_s := min_records * SERVER_REPORT_S):
        raise ValueError(
            f"long_window_s={long_window_s}: must be at least {reports_s:g} s to hold min_records={min_records} "
            f"reports of a server, which come every {SERVER_REPORT_S} s"
        )


@final
class Node:
    """Both windows of one process; ``since_s`` is when it was (re)started, None while it is gone."""

    def __init__(self, short_s: float, long_s: float, since_s: float | None) -> None:
        self.lengths_s = short_s, long_s
        self.begin(since_s)

    def begin(self, t: float | None, incarnation: int = 0) -> None:
        """Reset: a process has started at ``t``, or is gone (None)."""
        short_s, long_s = self.lengths_s
        self.windows: dict[Span, Window] = {"short": Window(short_s), "long": Window(long_s)}
        self.since_s, self.incarnation = t, incarnation
        self.iterations = self.gathered = 0
        self.seconds = self.samples = 0.0
        self.reported_s = t or 0.0

    def push(self, t: float, x: float, y: float) -> None:
        for window in self.windows.values():
            window.push(t, x, y)


@dataclass(kw_only=True)
class MonitorSettings:
    """The records of a Monitor, and the windows that keep them.

    Attributes:
        short_window_s: seconds of the ``short`` window; the paper's L_trans.
        long_window_s: seconds of the ``long`` window; the paper's L_per.
        report_iters: iterations of a worker that make one record.
        min_records: records that a window needs before a decision uses it; where long iterations leave fewer, the two
            newest stay whatever their age, and suffice.
        warmup_iters: first iterations of a process that are left out (imports, allocation, caches).
        times: which time of an iteration counts, ``iter`` or ``bpt``.
    """

    short_window_s: PositiveFloat = 300.0
    long_window_s: PositiveFloat = 600.0
    report_iters: PositiveInt = 10
    min_records: PositiveInt = 5
    warmup_iters: NonNegativeInt = 3
    times: Annotated[str, OneOf("bpt", "iter")] = "iter"


@final
class Monitor:
    """Sliding windows of every worker and every server."""

    def __init__(self, settings: MonitorSettings) -> None:
        self.settings, self.report_s = settings, settings.short_window_s / settings.min_records
        self.t = 0.0
        self.workers: dict[int, Node] = {}
        self.servers: dict[int, Node] = {}

    # ---- events ------------------------------------------------------------------------------------------------------

    def observe_event(self, event: AnyEvent) -> None:
        """Record an event of the job; one that does not concern a node's speed or life only advances the time."""
        self.t = event.t
        match event:
            case Arrived():
                self._record_iteration(event.t, event.grad, event.timings)
            case Updated(updates=updates) if updates:
                self.servers[event.server].push(event.t, event.busy_s, updates)
            case Started():
                self.workers = {worker: self._node(event.t) for worker in event.workers}
                self.servers = {server: self._node(event.t) for server in range(event.num_servers)}
            case Lost():
                self._worker(event.worker).begin(None, event.incarnation + 1)
            case Joined():
                self._worker(event.worker).begin(event.t, event.incarnation)
            case ServerLost():
                self.servers[event.server].begin(None)
            case Restored():
                self._restore(event)

    def _record_iteration(self, t: float, grad: Grad, timings: Timings) -> None:
        node, seconds = self._worker(grad.worker), timings.iter_s if self.settings.times == "iter" else timings.bpt_s
        if node.since_s is None or node.incarnation != grad.incarnation:
            node.begin(t, grad.incarnation)  # it was replaced while the job was paused, which is not notified
        if not 0 < grad.samples == grad.assigned_samples or seconds <= 0.0:
            return
        node.iterations += 1
        if node.iterations <= self.settings.warmup_iters:
            node.reported_s = t
            return
        node.gathered += 1
        node.seconds += seconds
        node.samples += grad.samples
        if node.gathered >= self.settings.report_iters or t - node.reported_s >= self.report_s:
            node.push(t, node.seconds / node.gathered, node.samples / node.seconds)
            node.gathered, node.seconds, node.samples, node.reported_s = 0, 0.0, 0.0, t

    def _restore(self, event: Restored) -> None:
        for server in self.servers.values():
            if server.since_s is None:
                server.begin(event.t)
        for worker, node in self.workers.items():
            if worker not in event.workers:
                node.begin(None, node.incarnation)
            elif node.since_s is None:
                node.begin(event.t, node.incarnation)

    def _worker(self, worker: int) -> Node:
        if worker not in self.workers:
            self.workers[worker] = self._node(None)
        return self.workers[worker]

    def _node(self, since_s: float | None) -> Node:
        return Node(self.settings.short_window_s, self.settings.long_window_s, since_s)

    # ---- queries -----------------------------------------------------------------------------------------------------

    def mean_update_s(self, server: int, span: Span = "long") -> float | None:
        """Mean seconds that an update kept a server busy; None without a record."""
        window, count = self._window(self.servers.get(server), span)
        return window.sum_x / window.sum_y if window and count else None

    def mature(self, node: NodeId, span: Span) -> bool:
        """Whether this worker or server was present for 0.8 of the window with enough records in it."""
        found = (self.workers if node.role == "worker" else self.servers).get(node.number)
        window, count = self._window(found, span)
        if found is None or window is None or found.since_s is None:
            return False
        return self._enough(window, count) and self.t - found.since_s >= MATURE_FRAC * window.length_s

    def records(self, worker: int, span: Span) -> list[tuple[float, float]]:
        """(samples, seconds) of the records in a worker's window, oldest first."""
        window, _ = self._window(self.workers.get(worker), span)
        return [(seconds * speed, seconds) for _, seconds, speed in window.records] if window else []

    def update_times_s(self, server: int, span: Span = "long") -> list[float]:
        """Seconds per update of the records in a server's window, oldest first."""
        window, _ = self._window(self.servers.get(server), span)
        return [busy_s / updates for _, busy_s, updates in window.records] if window else []

    def mature_workers(self, span: Span) -> list[int]:
        """Workers whose window is mature."""
        return [worker for worker in sorted(self.workers) if self.mature(NodeId.worker(worker), span)]

    def mature_updates_s(self, span: Span = "long") -> dict[int, float]:
        """Mean seconds per update of every mature server, by server."""
        mature = [server for server in sorted(self.servers) if self.mature(NodeId.server(server), span)]
        found = {server: self.mean_update_s(server, span) for server in mature}
        return {server: seconds for server, seconds in found.items() if seconds is not None}

    def speeds_samples_per_s(self, span: Span = "short") -> dict[int, float]:
        """Mean throughput of every worker with enough records: of the ratios samples / seconds, not of their sums.

        So AntDT aggregates it (section VI-A).
        """
        windows = {worker: self._window(self.workers[worker], span) for worker in sorted(self.workers)}
        return {
            worker: window.sum_y / count
            for worker, (window, count) in windows.items()
            if window and self._enough(window, count)
        }

    def _enough(self, window: Window, count: int) -> bool:
        """Whether there are ``min_records`` records, or as many as fit when each takes a large part of the window."""
        if count >= self.settings.min_records:
            return True
        return count >= FEW_RECORDS and self.t - window.records[0][0] >= SPANNED_FRAC * window.length_s

    def _window(self, node: Node | None, span: Span) -> tuple[Window | None, int]:
        """The window without records that are too old, and the number of records left."""
        window = node.windows[span] if node else None
        return window, window.expire(self.t) if window else 0
