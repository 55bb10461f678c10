"""Lines that torchtitan prints: tokens per second of every step, from which relative times follow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import median

from analysis.logs.limits import MOST_STEP
from analysis.logs.lines import Line, positive, ranks_of, whole
from analysis.logs.rows import Rows
from analysis.logs.step_log import RELATIVE

STEP = re.compile(r"\bstep:\s*+(\d++)\b")
RATE = re.compile(r"\b(?:tps|wps):\s*+(\S++)")
"""Tokens per second; older versions say words."""
VALIDATION = "validate step:"
MOST_RATE = 1e15
NO_UNIT = (
    "torchtitan logs tokens per second, not seconds: times are in units of the median step; --tokens gives seconds"
)
WAITS = "torchtitan times whole steps, waiting included"
EACH = "log_freq 1"


def is_torchtitan(line: Line) -> bool:
    """Whether a line is one of a step."""
    step = STEP.search(line.text) if "ps:" in line.text and VALIDATION not in line.text else None
    return step is not None and RATE.search(line.text, step.end()) is not None


def read_torchtitan(source: str, lines: Iterable[Line], tokens: float | None = None) -> Rows:
    """Steps of every rank that was printed (torchrun prefixes lines with the rank; by default only rank 0 has any).

    Args:
        source: the file.
        lines: its lines.
        tokens: tokens of a rank's step; None: seconds are not known, and the median step counts as one.

    Raises:
        LogError: a number is none.
    """
    processes, steps, rates = list[tuple[str, ...]](), list[int](), list[float]()
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    for line in lines:
        if not is_torchtitan(line) or not (step := STEP.search(line.text)):
            continue
        if not (rate := RATE.search(line.text, step.end())):
            continue
        where = f"{source}: line {line.number}"
        per_s = positive(rate[1], "tps", where, MOST_RATE)
        if per_s > 0:
            processes.append(known.setdefault(line.process, line.process))
            steps.append(whole(step[1], "step", where, MOST_STEP))
            rates.append(per_s)
    rows = Rows(source, EACH, remarks=[WAITS] if tokens else [NO_UNIT, WAITS])
    rows.job[RELATIVE] = tokens is None
    usual = tokens or (median(rates) if rates else 1.0)
    for rank, step_number, per_s in zip(ranks_of(processes), steps, rates, strict=True):
        rows.add(rank, step_number, usual / per_s)
    return rows
