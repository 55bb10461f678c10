"""Settings that are refused by name, always in the same words (pure); strategies take them from here.

Patterns of stragglers have words of their own (``injectors.patterns.fields``), since injectors import nobody.
"""

from __future__ import annotations

from math import inf, isfinite


def check_number(name: str, value: object, least: float = -inf, above: float = -inf, most: float = inf) -> None:
    """Raise ``ValueError`` unless ``value`` is a finite number from ``least`` to ``most`` and more than ``above``."""
    low = f"above {above:g}" if above > -inf else f"{least:g} or more"
    wanted = low if most == inf else f"{low} and at most {most:g}"
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        raise ValueError(f"{name}={value}: must be a number, {wanted}")
    if value < least or value <= above or value > most:
        raise ValueError(f"{name}={value}: must be {wanted}")


def check_whole(name: str, value: object, least: int = 0, most: float = inf) -> None:
    """Raise ``ValueError`` unless ``value`` is a whole number from ``least`` to ``most``."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        limit = "" if most == inf else f" and at most {most:g}"
        raise ValueError(f"{name}={value}: must be a whole number, {least} or more{limit}")
