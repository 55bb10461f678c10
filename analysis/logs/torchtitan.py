"""Lines that torchtitan prints: tokens per second of every step, from which relative times follow."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pandas as pd

from analysis.logs.step_log import StepLog, gather

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
STEP = re.compile(r"(?:\[rank(\d+)\]:)?.*?\bstep:\s*(\d+)\b.*?\btps:\s*([0-9,]+)")
NO_UNIT = (
    "torchtitan logs tokens per second, not seconds: times are in units of the median step; --tokens gives seconds"
)
WAITS = "torchtitan times whole steps, waiting included"


def is_torchtitan(lines: Iterable[str]) -> bool:
    """Whether any line is one of a step."""
    return any("tps:" in line and STEP.search(COLOUR.sub("", line)) for line in lines)


def read_torchtitan(source: str, lines: Iterable[str], tokens: float | None = None) -> StepLog:
    """Steps of every rank that was printed (torchrun prefixes lines with the rank; by default only rank 0 has any).

    Args:
        source: the file.
        lines: its lines.
        tokens: tokens of a rank's step; None: seconds are not known, and the median step counts as one.

    Raises:
        LogError: no step is in it, or one is there twice.
    """
    found = [match for line in lines if (match := STEP.search(COLOUR.sub("", line)))]
    rows = pd.DataFrame(
        {
            "rank": [match[1] or "0" for match in found],
            "step": [int(match[2]) for match in found],
            "tps": [float(match[3].replace(",", "")) for match in found],
        }
    )
    rows = rows[rows["tps"] > 0]
    rows["own_s"] = (tokens or float(rows["tps"].median())) / rows["tps"]
    remarks = [WAITS] if tokens else [NO_UNIT, WAITS]
    return gather(source, rows[["rank", "step", "own_s"]], remarks=remarks)
