"""Lines that Megatron-LM prints: the time of every iteration and, if asked for, timers of all ranks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from statistics import median_low
from typing import Any

import pandas as pd

from analysis.logs.step_log import LogError, StepLog, gather

ITERATION = re.compile(r"\biteration\s+(\d+)\s*/\s*\d+\s*\|.*?elapsed time per iteration \(ms\):\s*([0-9.]+)")
BATCH = re.compile(r"global batch size:\s*(\d+)")
ALL_RANKS = re.compile(r"\btimes across ranks \(ms\):\s*$")
TIMER = re.compile(r"^\s*([A-Za-z][\w-]*):\s*$")
RANK = re.compile(r"^\s*rank\s+(\d+):\s*([0-9.]+)\s*$")
MILLI = 1e-3
WORK = "forward-backward"
"""The timer of a rank's own work, as far as Megatron times it: without the sums of gradients and the optimizer."""


def is_megatron(lines: Iterable[str]) -> bool:
    """Whether any line is one of an iteration."""
    return any(ITERATION.search(line) for line in lines)


def read_megatron(source: str, lines: Iterable[str], timer: str | None = None) -> StepLog:
    """Iterations, and of every rank the timer ``timer`` (None: ``forward-backward``) if all ranks were printed.

    ``--timing-log-option all`` makes Megatron-LM print timers of all ranks (with ``--timing-log-level 1`` or more);
    without it only the time of whole iterations is known. Times are means since the last line, which counts as a step.

    Raises:
        LogError: no such timer is in it, or nothing at all.
    """
    wanted, rows, whole, names = timer or WORK, list[dict[str, Any]](), dict[int, float](), set[str]()
    batch: int | None = None
    for step, seconds, size, timers in _iterations(lines):
        whole[step], batch = seconds, size or batch
        names |= timers.keys()
        for rank, own_s in timers.get(wanted, {}).items():
            rows.append({"rank": rank, "step": step, "own_s": own_s, "round_s": seconds})
    job = {"global_batch_samples": batch} if batch else {}
    if rows:
        return gather(source, pd.DataFrame(rows), remarks=_means(whole), job=job)
    if timer and names:
        raise LogError(f"{source}: no timer {timer} of all ranks in it; it has {', '.join(sorted(names))}")
    alone = [{"rank": "all", "step": step, "own_s": seconds} for step, seconds in whole.items()]
    why = "Megatron-LM printed no times of single ranks; --timing-log-level 1 --timing-log-option all makes it do so"
    return gather(
        source, pd.DataFrame(alone, columns=["rank", "step", "own_s"]), remarks=[why, *_means(whole)], job=job
    )


def _means(steps: Collection[int]) -> list[str]:
    """What a reader must know if lines are means of several iterations."""
    apart = [after - before for before, after in pairwise(sorted(steps))]
    if not apart or (every := median_low(apart)) == 1:
        return []
    return [
        f"every line is the mean of {every} iterations and counts as one step: what is slow in some of them hardly "
        "shows; --log-interval 1 prints each"
    ]


def _iterations(lines: Iterable[str]) -> Iterator[tuple[int, float, int | None, dict[str, dict[int, float]]]]:
    """(iteration, seconds, global batch, {timer: {rank: seconds}}); timers are printed after their iteration."""
    current: tuple[int, float, int | None] | None = None
    timers: dict[str, dict[int, float]] = {}
    timer: str | None = None
    for line in lines:
        if found := ITERATION.search(line):
            if current:
                yield *current, timers
            size = BATCH.search(line)
            current = int(found[1]), float(found[2]) * MILLI, int(size[1]) if size else None
            timers, timer = {}, None
        elif ALL_RANKS.search(line):
            timer = ""
        elif timer is not None and (named := TIMER.match(line)):
            timer = named[1]
        elif timer and (ranked := RANK.match(line)):
            timers.setdefault(timer, {})[int(ranked[1])] = float(ranked[2]) * MILLI
    if current:
        yield *current, timers
