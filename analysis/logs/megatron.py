"""Lines that Megatron-LM prints: the time of every iteration and timers, of all ranks if asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from analysis.logs.limits import LEAST_PRINTED_S, MILLI, MOST_SECONDS, MOST_STEP
from analysis.logs.lines import Line, positive, whole
from analysis.logs.megatron_timers import Timers, is_report, read_report
from analysis.logs.rows import Rows
from analysis.logs.step_log import LogError

ITERATION = re.compile(r"\biteration:?\s++(\d++)\s*+(?:/\s*+\w++\s*+)?\|")
"""The total may be missing, or endless (``/infinity``), in other programs that print such lines."""
ELAPSED = re.compile(r"elapsed time per iteration \(ms\):\s*+([^\s|/]++)(?:/[\d.]++)?\s*+\|")
"""AMD's Primus prints the mean of recent iterations behind it (``6119.6/6125.5``)."""
BATCH = re.compile(r"global batch size:\s*+(\d++)")
WORK = "forward-backward"
"""The timer of a rank's own work, as far as Megatron times it: without the sums of gradients and the optimizer."""
NO_RANKS = "Megatron-LM printed no times of single ranks; --timing-log-level 1 --timing-log-option all makes it do so"
NO_ITERATIONS = "there are no lines of iterations: a line of --log-straggler counts as a step of its slowest rank"
EACH = "--log-interval 1"


class Iteration(NamedTuple):
    """A line of an iteration."""

    step: int
    seconds: float
    batch: int | None


def is_megatron(line: Line) -> bool:
    """Whether a line is one of an iteration, or of ``--log-straggler``."""
    return (ITERATION.search(line.text) is not None and ELAPSED.search(line.text) is not None) or is_report(line)


def read_megatron(source: str, lines: Iterable[Line], timer: str | None = None) -> Rows:
    """Iterations, and of every rank the timer ``timer`` (None: ``forward-backward``) if all ranks were printed.

    ``--timing-log-option all`` makes Megatron-LM print timers of all ranks (with ``--timing-log-level 1`` or more).
    By default it prints timers of the quickest and the slowest rank, and older versions print the timers of one rank:
    these are ``extremes`` and parts of whole iterations. Times are means since the last line, which counts as a step.

    Raises:
        LogError: no such timer is in it, or a number is none.
    """
    wanted, names = timer or WORK, set[str]()
    ranks, whole_steps = Rows(source, EACH), Rows(source, EACH, remarks=[NO_RANKS])
    for (step, seconds, batch), timers in _iterations(source, lines):
        whole_steps.add("all", step, seconds, parts_s=timers.of_one)
        names |= timers.names
        if some := timers.extremes(wanted):
            whole_steps.extremes[step] = some
        for rank, own_s in timers.of_ranks.get(wanted, {}).items():
            ranks.add(str(rank), step, own_s, seconds)
        if batch:
            ranks.job["global_batch_samples"] = whole_steps.job["global_batch_samples"] = batch
    if timer and names and timer not in names:
        raise LogError(f"{source}: no timer {timer} of all ranks in it; it has {', '.join(sorted(names))}")
    if not len(whole_steps):
        return _reports(source, lines)
    return ranks if len(ranks) else whole_steps


def _reports(source: str, lines: Iterable[Line]) -> Rows:
    """Lines of ``--log-straggler`` without lines of iterations."""
    rows, found = Rows(source, remarks=[NO_ITERATIONS, NO_RANKS]), (line for line in lines if is_report(line))
    for step, some in enumerate(filter(None, (read_report(line, f"{source}: line {line.number}") for line in found))):
        rows.add("all", step, some[0].slowest_s)
        rows.extremes[step] = tuple(some)
    return rows


def _iterations(source: str, lines: Iterable[Line]) -> Iterator[tuple[Iteration, Timers]]:
    """Timers are printed after their iteration."""
    current, timers = None, Timers()
    for line in lines:
        if (found := ITERATION.search(line.text)) and (elapsed := ELAPSED.search(line.text)):
            if current:
                yield current, timers
            current, timers = _iteration(source, line, found[1], elapsed[1]), Timers()
        else:
            timers.take(source, line)
    if current:
        yield current, timers


def _iteration(source: str, line: Line, step: str, elapsed: str) -> Iteration:
    where = f"{source}: line {line.number}"
    milliseconds = positive(elapsed, "elapsed time per iteration (ms)", where, MOST_SECONDS / MILLI)
    size = BATCH.search(line.text)
    return Iteration(
        step=whole(step, "iteration", where, MOST_STEP),
        seconds=max(milliseconds * MILLI, LEAST_PRINTED_S),
        batch=whole(size[1], "global batch size", where, MOST_STEP) if size else None,
    )
