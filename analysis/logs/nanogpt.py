"""Lines that nanoGPT and programs made from it print: the time of an iteration, or the time of all until then."""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import median

from analysis.logs.limits import LEAST_PRINTED_S, MILLI, MOST_SECONDS, MOST_STEP
from analysis.logs.lines import Line, positive, ranks_of, whole
from analysis.logs.rows import Rows

ITERATION = re.compile(r"\biter (\d++): loss\b")
ITERATION_TIME = re.compile(r"\btime:? ([\d.,]++)ms")
"""A time that nanoGPT prints, at every tenth iteration by default."""
STEP = re.compile(r"\b[Ss]tep:? {0,9}(\d++)(?:/\d++)?(?: \([\d.]{1,9}%\))? {1,9}\|")
STEP_TIME = re.compile(r"\| dt:? ([\d.,]++)ms")
"""A time that build-nanogpt and nanochat print."""
TRAINED = re.compile(r"\bstep:(\d++)/\d++ train_time:([\d.,]++)ms\b")
"""All time of training until then, which modded-nanogpt prints in whole milliseconds."""
ONE_CLOCK = (
    "nanoGPT prints whole steps by the clock of rank 0: the tail of steps is known, ranks are not; a line of every "
    "rank with its time of forward and backward, and a prefix of its rank, would tell them"
)
ROUNDED = "times are differences of whole milliseconds: a step may be off by {part:.1%}"
EACH = "log_interval = 1"


def is_nanogpt(line: Line) -> bool:
    """Whether a line is one of a step."""
    return _iteration(line) is not None or TRAINED.search(line.text) is not None


def read_nanogpt(source: str, lines: Iterable[Line]) -> Rows:
    """Steps of every process that was printed, which is rank 0 by default.

    Raises:
        LogError: a number is none.
    """
    processes, found = list[tuple[str, ...]](), list[tuple[int, float]]()
    before = dict[tuple[str, ...], tuple[int, float]]()
    for line in lines:
        where = f"{source}: line {line.number}"
        if said := _iteration(line):
            step, milliseconds = _numbers(*said, where)
        elif trained := TRAINED.search(line.text):
            step, until_ms = _numbers(trained[1], trained[2], where)
            last, since_ms = before.get(line.process, (0, 0.0))
            if step <= last or until_ms < since_ms:  # a restarted job counts from its start
                last, since_ms = 0, 0.0
            before[line.process] = step, until_ms
            milliseconds = (until_ms - since_ms) / max(1, step - last)
        else:
            continue
        processes.append(line.process)
        found.append((step, max(MILLI * milliseconds, LEAST_PRINTED_S)))
    rows = Rows(source, EACH, sampled=not before, remarks=[ONE_CLOCK])
    if before:
        rows.remarks.append(ROUNDED.format(part=MILLI / median(seconds for _, seconds in found)))
    for rank, (step, seconds) in zip(ranks_of(processes), found, strict=True):
        rows.add(rank, step, seconds)
    return rows


def _iteration(line: Line) -> tuple[str, str] | None:
    """(step, its milliseconds), as they are printed."""
    for number, time in ((ITERATION, ITERATION_TIME), (STEP, STEP_TIME)):
        if (step := number.search(line.text)) and (found := time.search(line.text, step.end() - 1)):
            return step[1], found[1]
    return None


def _numbers(step: str, milliseconds: str, where: str) -> tuple[int, float]:
    return whole(step, "step", where, MOST_STEP), positive(milliseconds, "time (ms)", where, MOST_SECONDS / MILLI)
