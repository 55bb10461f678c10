"""Lines that MLPerf Training's logging writes (``:::MLLOG``): the time of every step by the clock of one process."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from analysis.logs.limits import LEAST_PRINTED_S, MOST_SECONDS, MOST_STEP
from analysis.logs.lines import Line, positive, ranks_of
from analysis.logs.rows import Rows
from analysis.logs.step_log import LogError

MARK = ":::MLLOG "
TIME = re.compile(r'"(train_step_tim(?:e|ing)(?: in s)?)": *+([^\s,}]++)')
"""Seconds; submissions of different rounds use different names."""
STEP, BATCH, STARTED = "tracked_stats", "global_batch_size", "init_start"
ONE_CLOCK = (
    "an MLPerf log has whole steps by the clock of one process{of}: the tail of steps is known, ranks are not; each "
    "rank's own train_step_time (forward and backward, without the sums of gradients) in tracked_stats would tell them"
)


def is_mllog(line: Line) -> bool:
    """Whether a line has the time of a step."""
    return MARK in line.text and STEP in line.text and TIME.search(line.text) is not None


def read_mllog(source: str, lines: Iterable[Line]) -> Rows:
    """Steps in the order of their lines: the number that a line has counts steps, samples or tokens.

    Raises:
        LogError: a line's JSON is damaged, or a number is none.
    """
    rows, started, following = Rows(source), 0, Counter[tuple[str, ...]]()
    processes, found = list[tuple[str, ...]](), list[tuple[int, float]]()
    for line in lines:
        if MARK not in line.text:
            continue
        where = f"{source}: line {line.number}"
        if is_mllog(line) and (time := TIME.search(line.text)):
            processes.append(line.process)
            found.append(
                (following[line.process], max(positive(time[2], time[1], where, MOST_SECONDS), LEAST_PRINTED_S))
            )
            following[line.process] += 1
        elif STARTED in line.text or BATCH in line.text:
            key, value = _entry(line, where)
            started += key == STARTED
            if key == BATCH:
                rows.job["global_batch_samples"] = int(positive(str(value), key, where, MOST_STEP))
    rows.remarks.append(ONE_CLOCK.format(of=f" of {started:,}" if started > 1 else ""))
    for rank, (step, seconds) in zip(ranks_of(processes), found, strict=True):
        rows.add(rank, step, seconds)
    return rows


def _entry(line: Line, where: str) -> tuple[Any, Any]:
    """(key, value) of a line."""
    try:
        entry = msgspec.json.decode(line.text.partition(MARK)[2])
    except (msgspec.DecodeError, RecursionError):
        raise LogError(f"{where}: is no JSON after {MARK.strip()}; correct or remove that line") from None
    return (entry.get("key"), entry.get("value")) if isinstance(entry, dict) else (None, None)
