"""Lines that MLPerf Training's logging writes (``:::MLLOG``): the time of every step by the clock of one process."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from statistics import median
from typing import Any

import msgspec

from analysis.logs.limits import LEAST_PRINTED_S, MILLI, MOST_SECONDS, MOST_STEP
from analysis.logs.lines import Line, positive, ranks_of
from analysis.logs.rows import Rows
from analysis.logs.step_log import LogError, Untimed

MARK = ":::MLLOG "
TIME = re.compile(r'"(train_step_tim(?:e|ing)(?: in s)?)": *+([^\s,}]++)')
"""Seconds; submissions of different rounds use different names."""
AT = re.compile(r'"time_ms": *+(\d++)')
STEP, BATCH, STARTED = "tracked_stats", "global_batch_size", "init_start"
ONE_CLOCK = (
    "an MLPerf log has whole steps by the clock of one process{of}: the tail of steps is known, ranks are not; each "
    "rank's own train_step_time (forward and backward, without the sums of gradients) in tracked_stats would tell them"
)
SPANS = {"run": "run", "eval": "evaluation", "block": "block", "epoch": "epoch"}
"""Names by the words that keys begin with, which end with ``_start`` and ``_stop``."""
NO_STEPS = "the time of no single step is known; log train_step_time in tracked_stats"


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


def refuse_without_steps(source: str, lines: Iterable[Line]) -> None:
    """Say what a log tells that has no times of steps; a log of another form is let through.

    Raises:
        Untimed: it is a log of MLPerf Training.
        LogError: a line's JSON is damaged.
    """
    spans, began, found = {word: list[float]() for word in SPANS}, dict[str, float](), False
    for line in lines:
        if MARK not in line.text:
            continue
        found = True
        if not (at := AT.search(line.text)) or not ("_start" in line.text or "_stop" in line.text):
            continue
        where = f"{source}: line {line.number}"
        word, _, end = str(_entry(line, where)[0]).partition("_")
        if word in SPANS and end == "start":
            began[word] = MILLI * positive(at[1], "time_ms", where, MOST_STEP)
        elif word in began and end == "stop":
            spans[word].append(max(0.0, MILLI * positive(at[1], "time_ms", where, MOST_STEP) - began.pop(word)))
    if found:
        told = [
            f"{len(some)} {SPANS[word]}{'s' if len(some) > 1 else ''} took {sum(some):.4g} s{_spread(some)}"
            for word, some in spans.items()
            if some
        ]
        raise Untimed(f"{source}: is a log of MLPerf Training without train_step_time: {'; '.join((*told, NO_STEPS))}")


def _spread(some: list[float]) -> str:
    middle = median(some)
    return f" (median {middle:.4g} s, the longest {max(some) / middle:.2f} times)" if len(some) > 1 and middle else ""


def _entry(line: Line, where: str) -> tuple[Any, Any]:
    """(key, value) of a line."""
    try:
        entry = msgspec.json.decode(line.text.partition(MARK)[2])
    except (msgspec.DecodeError, RecursionError):
        raise LogError(f"{where}: is no JSON after {MARK.strip()}; correct or remove that line") from None
    return (entry.get("key"), entry.get("value")) if isinstance(entry, dict) else (None, None)
