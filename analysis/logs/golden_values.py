"""Golden values of Megatron-LM's tests (JSON): the time of iterations, as often as it was written."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.logs.gathering import gather
from analysis.logs.json_values import count, is_number, seconds
from analysis.logs.step_log import LogError, StepLog

TIME = "iteration-time"
ONE_CLOCK = (
    "golden values have the time of whole iterations by one clock: the tail is known, ranks are not; the output of the "
    "job would tell them (--timing-log-level 1 --timing-log-option all)"
)


def is_golden(content: Any) -> bool:
    """Whether the content of a JSON file has times of iterations in this form."""
    found = content.get(TIME) if isinstance(content, dict) else None
    return isinstance(found, dict) and isinstance(found.get("values"), dict | list)


def read_golden(source: str, content: Any) -> StepLog:
    """The iterations that have a time; each counts once, whatever number of iterations it is the mean of.

    Raises:
        LogError: no iteration has a time, or a number is none.
    """
    found = content[TIME]
    values = found["values"]
    if isinstance(values, list):  # as older versions write them
        start, every = (count(found.get(name, 1), name, source) for name in ("start_step", "step_interval"))
        values = {str(start + place * every): value for place, value in enumerate(values)}
    known = {count(step, "step", source): value for step, value in values.items() if is_number(value)}
    if not known:
        raise LogError(f"{source}: has no {TIME} that is a number; give values of a longer job")
    rows = pd.DataFrame({"rank": "all", "step": list(known), "own_s": [seconds(*one, source) for one in known.items()]})
    skipped = len(values) - len(known)
    remarks = [ONE_CLOCK, *([f"{skipped:,} of {len(values):,} iterations have no time"] if skipped else [])]
    return gather(source, rows, remarks=remarks)
