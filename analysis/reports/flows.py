"""Arrows of a trace: from a worker's push to the update that uses it, and from an update to the pulls of its version.

A viewer draws an arrow between the slices that enclose its two ends, so both lie within a slice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from math import isnan
from typing import Any, NamedTuple

import pandas as pd

from analysis.measures.work import server_bpt_s
from analysis.records.load import Run

Entry = dict[str, Any]
MOST = 50_000
"""Iterations of a run whose trace has arrows; with more they would be most of the file."""
SHORTEST_US = 0.2
"""A slice without a length encloses nothing."""
SHORTEST_S = 1e-6
"""Shortest phase at which an arrow begins or ends."""


class Update(NamedTuple):
    """One update as a slice of the job's lane, in microseconds; ``t`` in seconds, as recorded."""

    version: int
    t: float
    start_us: float
    dur_us: float
    num_grads: int
    samples: int
    void: bool

    @property
    def arrow_us(self) -> float:
        """Where arrows end and begin: at its start, since how long it took is not known of each."""
        return self.start_us + SHORTEST_US / 2


def update_slices(run: Run) -> list[Update]:
    """The updates in a row, each as long as one of the servers' usually is, and over before the next."""
    rows = run.tables.updates.sort_values("t", kind="stable")
    usual_us = 1e6 * float(server_bpt_s(run.tables.server_busy).median())
    usual_us = SHORTEST_US if isnan(usual_us) else usual_us
    times = [1e6 * t for t in rows["t"]]
    found: list[Update] = []
    later, end_us = [*times, float("inf")][1:], 0.0
    for row, start_us, next_us in zip(rows.itertuples(), times, later, strict=True):
        start_us = round(max(start_us, end_us), 1)  # updates of the same moment follow one another
        dur_us = round(max(SHORTEST_US, min(usual_us, next_us - start_us)), 1)
        end_us = start_us + dur_us
        found.append(Update(row.version, row.t, start_us, dur_us, row.num_grads, row.samples, row.void))
    return found


def flows(
    iterations: pd.DataFrame, pieces: pd.DataFrame, updates: list[Update], workers: int, lane: tuple[int, int]
) -> Iterator[Entry]:
    """The arrows as pairs of entries.

    Args:
        iterations: table of that name.
        pieces: its :func:`analysis.measures.segments.segments`.
        updates: slices of :func:`update_slices`.
        workers: ``pid`` of the workers' lanes, whose ``tid`` are their numbers.
        lane: ``pid`` and ``tid`` of the updates.
    """
    if len(iterations) > MOST:
        return
    by_version = _by_version(updates)
    rows = iterations[iterations["applied_version"].notna()]
    used = dict(zip(rows["grad"], zip(rows["applied_version"], rows["applied_t"], strict=True), strict=True))
    long = pieces["end_s"] - pieces["start_s"] > SHORTEST_S
    busy = pieces[(pieces["phase"] != "wait") & long]  # lines of an iteration are in a row
    ends = busy.drop_duplicates("grad", keep="last").itertuples()
    for number, (first, last) in enumerate(zip(busy.drop_duplicates("grad").itertuples(), ends, strict=True)):
        track, begin_us, end_us = (workers, int(first.worker)), _middle_us(first), _middle_us(last)
        read = _before(by_version[int(first.version_read)], begin_us)
        if read is not None:
            yield from _arrow("pull", 2 * number, (lane, read.arrow_us), (track, begin_us))
        version, t = used.get(first.grad, (None, 0.0))
        update = None if version is None else _at(by_version[int(version)], float(t))
        if update is not None and update.arrow_us > end_us:
            yield from _arrow("push", 2 * number + 1, (track, end_us), (lane, update.arrow_us))


def _by_version(updates: list[Update]) -> defaultdict[int, list[Update]]:
    """After a rollback a version is made again: all slices of each, in temporal order."""
    found: defaultdict[int, list[Update]] = defaultdict(list)
    for update in updates:
        found[update.version].append(update)
    return found


def _before(made: list[Update], at_us: float) -> Update | None:
    """The last one before a time."""
    place = bisect_left([update.arrow_us for update in made], at_us)
    return made[place - 1] if place else None


def _at(made: list[Update], t: float) -> Update | None:
    return min(made, key=lambda update: abs(update.t - t), default=None)


def _middle_us(piece: Any) -> float:
    return 0.5e6 * float(piece.start_s + piece.end_s)


def _arrow(
    name: str, number: int, begin: tuple[tuple[int, int], float], end: tuple[tuple[int, int], float]
) -> Iterator[Entry]:
    for ph, ((pid, tid), ts) in (("s", begin), ("f", end)):
        entry = {"ph": ph, "name": name, "cat": name, "id": number, "pid": pid, "tid": tid, "ts": round(ts, 2)}
        yield entry | ({"bp": "e"} if ph == "f" else {})
