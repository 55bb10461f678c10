"""Checks of hyper-parameters, with one wording of their errors (pure)."""

from __future__ import annotations

from predictors.checks import check_number, check_whole

__all__ = ["check_choice", "check_number", "check_whole"]


def check_choice(name: str, value: object, *choices: str) -> None:
    """Raise ``ValueError`` unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name}={value}: must be {', '.join(choices[:-1])} or {choices[-1]}")
