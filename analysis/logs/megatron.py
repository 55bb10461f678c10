"""Lines that Megatron-LM prints: the time of every iteration and, if asked for, timers of all ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from analysis.logs.limits import MOST_SECONDS, MOST_STEP
from analysis.logs.lines import Line, positive, whole
from analysis.logs.rows import Rows
from analysis.logs.step_log import LogError

ITERATION = re.compile(r"\biteration:?\s++(\d++)\s*+(?:/\s*+\w++\s*+)?\|")
"""Of how many may be missing, or endless (``/infinity``), in programs that print such lines as well."""
ELAPSED = re.compile(r"elapsed time per iteration \(ms\):\s*+([^\s|]++)\s*+\|")
BATCH = re.compile(r"global batch size:\s*+(\d++)")
ALL_RANKS = re.compile(r"\btimes across ranks \(ms\):$")
TIMER = re.compile(r"(?:^|\s\s)([A-Za-z][\w-]*+):$")
RANK = re.compile(r"(?:^|\s\s)rank\s++(\d++):\s*+(\S++)$")
"""Both are indented, so any prefix ends before them."""
MILLI = 1e-3
LEAST_S = 1e-6
"""A timer that shows 0 took less than that shows."""
WORK = "forward-backward"
"""The timer of a rank's own work, as far as Megatron times it: without the sums of gradients and the optimizer."""
NO_RANKS = "Megatron-LM printed no times of single ranks; --timing-log-level 1 --timing-log-option all makes it do so"
EACH = "--log-interval 1"

Timers = dict[str, dict[int, float]]
"""Seconds by timer and rank."""


class Iteration(NamedTuple):
    """A line of an iteration."""

    step: int
    seconds: float
    batch: int | None


def is_megatron(line: Line) -> bool:
    """Whether a line is one of an iteration."""
    return ITERATION.search(line.text) is not None and ELAPSED.search(line.text) is not None


def read_megatron(source: str, lines: Iterable[Line], timer: str | None = None) -> Rows:
    """Iterations, and of every rank the timer ``timer`` (None: ``forward-backward``) if all ranks were printed.

    ``--timing-log-option all`` makes Megatron-LM print timers of all ranks (with ``--timing-log-level 1`` or more);
    without it only the time of whole iterations is known. Times are means since the last line, which counts as a step.

    Raises:
        LogError: no such timer is in it, or a number is none.
    """
    wanted, names = timer or WORK, set[str]()
    ranks, whole_steps = Rows(source, EACH), Rows(source, EACH, remarks=[NO_RANKS])
    for (step, seconds, batch), timers in _iterations(source, lines):
        whole_steps.add("all", step, seconds)
        names |= timers.keys()
        for rank, own_s in timers.get(wanted, {}).items():
            ranks.add(str(rank), step, own_s, seconds)
        if batch:
            ranks.job["global_batch_samples"] = whole_steps.job["global_batch_samples"] = batch
    if timer and names and not len(ranks):
        raise LogError(f"{source}: no timer {timer} of all ranks in it; it has {', '.join(sorted(names))}")
    return ranks if len(ranks) else whole_steps


def _iterations(source: str, lines: Iterable[Line]) -> Iterator[tuple[Iteration, Timers]]:
    """Timers are printed after their iteration."""
    current: Iteration | None = None
    timers: Timers = {}
    timer: str | None = None
    for line in lines:
        if (found := ITERATION.search(line.text)) and (elapsed := ELAPSED.search(line.text)):
            if current:
                yield current, timers
            current, timers, timer = _iteration(source, line, found[1], elapsed[1]), {}, None
        elif ALL_RANKS.search(line.text):
            timer = ""
        elif timer is not None and (named := TIMER.search(line.text)):
            timer = named[1]
        elif timer and (ranked := RANK.search(line.text)):
            where = f"{source}: line {line.number}"
            milliseconds = positive(ranked[2], timer, where, MOST_SECONDS / MILLI)
            rank = whole(ranked[1], "rank", where, MOST_STEP)
            if rank in timers.setdefault(timer, {}):
                timer = ""  # the name of another timer is missing: not this one's
            else:
                timers[timer][rank] = max(milliseconds * MILLI, LEAST_S)
    if current:
        yield current, timers


def _iteration(source: str, line: Line, step: str, elapsed: str) -> Iteration:
    where = f"{source}: line {line.number}"
    milliseconds = positive(elapsed, "elapsed time per iteration (ms)", where, MOST_SECONDS / MILLI)
    size = BATCH.search(line.text)
    return Iteration(
        step=whole(step, "iteration", where, MOST_STEP),
        seconds=max(milliseconds * MILLI, LEAST_S),
        batch=whole(size[1], "global batch size", where, MOST_STEP) if size else None,
    )
