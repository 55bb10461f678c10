"""Settings of tasks and models that are refused by name, in the same words (pure)."""

from __future__ import annotations

from math import inf


def check_whole(name: str, value: object, least: int, most: float = inf) -> None:
    """Raise ``ValueError`` unless ``value`` is a whole number from ``least`` to ``most``."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        limit = "" if most == inf else f" and at most {most:g}"
        raise ValueError(f"{name}={value}: must be a whole number, at least {least}{limit}")


def check_dropout(value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is a probability of dropping, at least 0 and below 1."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
        raise ValueError(f"dropout={value}: must be at least 0 and below 1")
