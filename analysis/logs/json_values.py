"""JSON that others wrote: its content within limits, and its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.logs.limits import LEAST_SECONDS, MEBI, MOST_SECONDS, MOST_STEP
from analysis.logs.lines import positive, whole
from analysis.logs.opening import content
from analysis.logs.step_log import LogError
from reading import Unreadable
from reading.plain import parse_json

MOST_JSON_BYTES = 128 * MEBI


def decode_file(path: Path, *, lines: bool = False) -> Any:
    """The content of a file; ``lines``: it has one value per line, and the content is their list.

    Raises:
        LogError: it is no JSON, or too large.
    """
    data = content(path)
    if len(data) > MOST_JSON_BYTES:
        raise LogError(
            f"{path}: is larger than the {MOST_JSON_BYTES // MEBI} MiB of JSON that are read; give fewer steps"
        )
    if lines:
        data = b"[" + b",".join(filter(None, map(bytes.strip, data.splitlines()))) + b"]"
    try:
        return parse_json(data)
    except Unreadable as error:
        raise LogError(f"{path}: is no JSON ({error}); copy or write it again") from None


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
