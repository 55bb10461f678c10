"""Lines that DeepSpeed prints: timers of a step (``wall_clock_breakdown``), or samples per second."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import nan
from statistics import median

from analysis.logs.limits import LEAST_PRINTED_S, MILLI, MOST_SECONDS, MOST_STEP
from analysis.logs.lines import Line, positive, whole
from analysis.logs.rows import Rows
from analysis.logs.step_log import RELATIVE

RANK = re.compile(r"\[Rank (\d++)\]|\brank=(\d++) time")
STEP = re.compile(r"\] step=(\d++), skipped=|/global_step=(\d++),")
RATE = re.compile(r"CurrSamplesPerSec=([^\s,]++)")
PIPELINE = re.compile(r"\bsteps: (\d++) loss: \S++ iter time \(s\): (\S++) samples/sec: ")
"""A line of DeepSpeed's engine for stages, which prints the mean of the steps since the last line."""
BATCH = re.compile(r"\btrain_batch_size \.++ (\d++)$")
TIMES = re.compile(r"\btime \(ms\)((?: \| [a-z_]++: [^\s|]++)++)")
TIMER = re.compile(r"\| ([a-z_]++): ([^\s|]++)")
PARTS = ({"fwd", "forward"}, {"bwd", "backward"}, {"step"})
"""A step has one timer of each; newer versions use the short names."""
SUMS = frozenset({"bwd_allreduce", "backward_allreduce"})
"""The timer of sums of gradients, a part of the backward pass."""
MOST_RATE = 1e15
EACH = "steps_per_print 1"
NO_TIMERS = "DeepSpeed printed no timers; wall_clock_breakdown makes it do so"
NO_UNIT = "of samples per second and an unknown batch only relative times follow: they are in units of the median step"


def is_deepspeed(line: Line) -> bool:
    """Whether a line is one of a step."""
    return _timers(line) is not None or any(one.search(line.text) is not None for one in (RATE, PIPELINE))


def read_deepspeed(source: str, lines: Iterable[Line]) -> Rows:
    """Steps of every rank that was printed, which is only rank 0 by default.

    A step is its forward pass, backward pass and update; own work is the same without sums of gradients. The step's
    number is printed before its timers, and lines of timers between two numbers are of the steps between them. Without
    timers, the engine for stages has printed seconds, or they follow from samples per second and the batch, if that was
    printed.

    Raises:
        LogError: a number is none.
    """
    timed, staged = Rows(source, EACH, sampled=True), Rows(source, EACH, remarks=[NO_TIMERS])
    rated = Rows(source, EACH, sampled=True, remarks=[NO_TIMERS])
    following, batch = dict[str, int](), nan
    rates = list[tuple[str, int, float]]()
    for line in lines:
        where = f"{source}: line {line.number}"
        if size := BATCH.search(line.text):
            batch = whole(size[1], "train_batch_size", where, MOST_STEP) or nan
        ranked = RANK.search(line.text)
        rank = str(whole(ranked[1] or ranked[2], "rank", where, MOST_STEP)) if ranked else "0"
        if said := STEP.search(line.text):
            following[rank] = whole(said[1] or said[2], "step", where, MOST_STEP)
        if (rate := RATE.search(line.text)) and (per_s := positive(rate[1], "CurrSamplesPerSec", where, MOST_RATE)):
            rates.append((rank, following.get(rank, 1), per_s))
        elif stage := PIPELINE.search(line.text):
            step_s = max(positive(stage[2], "iter time (s)", where, MOST_SECONDS), LEAST_PRINTED_S)
            staged.add(rank, whole(stage[1], "step", where, MOST_STEP), step_s)
        elif (timers := _timers(line)) is not None:
            times_s = {name: MILLI * positive(found, name, where, MOST_SECONDS) for name, found in timers.items()}
            step_s = sum(seconds for name, seconds in times_s.items() if any(name in part for part in PARTS))
            sums_s = sum(seconds for name, seconds in times_s.items() if name in SUMS)
            step = following.get(rank, 1)
            timed.add(rank, step, max(step_s - sums_s, LEAST_PRINTED_S), max(step_s, LEAST_PRINTED_S))
            following[rank] = step + 1
    if len(timed) or len(staged):
        return timed if len(timed) else staged
    if batch != batch and rates:
        rated.remarks.append(NO_UNIT)
        rated.job[RELATIVE] = True
        batch = median(per_s for _, _, per_s in rates)
    for rank, step, per_s in rates:
        rated.add(rank, step, batch / per_s)
    return rated


def _timers(line: Line) -> dict[str, str] | None:
    """Timers of a whole step by name, as they are printed; timers of micro-steps are excluded."""
    if (found := TIMES.search(line.text)) is None:
        return None
    timers = dict(TIMER.findall(found[1]))
    return timers if all(part & timers.keys() for part in PARTS) else None
