"""Hyper-parameters that are refused, always in the same words (pure)."""

from __future__ import annotations

from math import inf, isfinite


def check_whole(name: str, value: object, least: int = 0) -> None:
    """Raise ``ValueError`` unless ``value`` is an integer of at least ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value}: must be a whole number, {least} or more")


def check_number(name: str, value: object, least: float = -inf, above: float = -inf) -> None:
    """Raise ``ValueError`` unless ``value`` is a finite number, at least ``least`` and more than ``above``."""
    wanted = f"above {above:g}" if above > -inf else f"{least:g} or more"
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        raise ValueError(f"{name}={value}: must be a number, {wanted}")
    if value < least or value <= above:
        raise ValueError(f"{name}={value}: must be {wanted}")


def check_choice(name: str, value: object, *choices: str) -> None:
    """Raise ``ValueError`` unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name}={value}: must be {', '.join(choices[:-1])} or {choices[-1]}")
