"""Numbers of JSON that others wrote."""

from __future__ import annotations

from typing import Any

from analysis.logs.limits import LEAST_SECONDS, MOST_SECONDS, MOST_STEP
from analysis.logs.lines import positive, whole


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; JSON writes others as texts, or not at all."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) != float("inf")


def seconds(what: Any, value: Any, where: str) -> float:
    """A time in the unit of its name, more than 0.

    Raises:
        LogError: with ``where``, the file and the place in it.
    """
    return max(positive(str(value), str(what), where, MOST_SECONDS), LEAST_SECONDS)


def count(value: Any, what: str, where: str) -> int:
    """A whole number.

    Raises:
        LogError: with ``where``, the file and the place in it.
    """
    return whole(str(value), what, where, MOST_STEP)
