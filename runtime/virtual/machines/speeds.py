"""The speed of the processors that emulated hosts share, second by second (pure).

``+runtime.speeds=[1.0,0.9]``: of the cost model's speed, for each second of the job; the last speed lasts.
``python run.py fidelity --grid hosts`` gives the speeds that follow from the memory's speed in a live run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta

from runtime.config.checking import convert, refuse_nonfinite
from runtime.errors import ConfigError

SETTING = "runtime.speeds"
Speed = Annotated[float, Meta(gt=0, le=1000)]


def parse_speeds(given: Any) -> tuple[float, ...]:
    """The setting as fractions of the cost model's speed, one for each second; none for null.

    Raises :class:`ConfigError` for anything else.
    """
    if given is None:
        return ()
    refuse_nonfinite(given, SETTING)
    found: list[float] = convert(given, list[Speed], SETTING)
    if not found:
        raise ConfigError(f"{SETTING}=[]: names no second; give a speed for each, or null")
    return tuple(found)


def changes_of(speeds: Sequence[float]) -> list[tuple[float, float]]:
    """When the speed changes, and to what; it begins at 1, and the last speed lasts."""
    before = [1.0, *speeds]
    return [(float(second), speed) for second, speed in enumerate(speeds) if speed != before[second]]
