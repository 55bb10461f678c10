"""Range checks of the predictors' hyper-parameters, with errors that name the field."""

from __future__ import annotations

from math import inf, isfinite


def check_number(name: str, value: object, *, least: float = -inf, above: float = -inf, most: float = inf) -> None:
    """Raise ``ValueError`` unless ``value`` is a finite number from ``least`` to ``most`` and more than ``above``."""
    low = f"above {above:g}" if above > -inf else f"{least:g} or more"
    wanted = low if most == inf else f"{low} and at most {most:g}"
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        raise ValueError(f"{name}={value}: must be a number, {wanted}")
    if value < least or value <= above or value > most:
        raise ValueError(f"{name}={value}: must be {wanted}")


def check_whole(name: str, value: object, least: int) -> None:
    """Raise ``ValueError`` unless ``value`` is a whole number of at least ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value}: must be a whole number, {least} or more")
