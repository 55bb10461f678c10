"""The quantities and columns of a comparison, and their names."""

from __future__ import annotations

from typing import Literal

Quantity = Literal["jct", "tta"]
NAMES: dict[Quantity, str] = {"jct": "JCT", "tta": "TTA"}
IN_WORDS: dict[Quantity, str] = {"jct": "job completion time", "tta": "time to the target"}

Name = Literal["seeds", "time", "step", "ratio", "interval", "verdict", "score"]
COLUMNS: tuple[Name, ...] = ("seeds", "time", "step", "ratio", "interval", "verdict", "score")
"""Columns that may follow the names of case and strategy; only the time to the target has a step."""
NUMBERS = tuple(name for name in COLUMNS if name != "verdict")


def relative(quantity: str, baseline: str) -> str:
    """Return the name, equal in all tables, of the ratio of a strategy's time to the baseline's."""
    return f"{quantity} relative to {baseline}"
