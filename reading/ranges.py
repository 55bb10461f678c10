"""The ranges of settings: declared at the field, and refused by its name in one wording (pure).

``min_records: PositiveInt = 5`` of a :class:`Checked` dataclass, or of one whose ``__post_init__`` calls
:func:`check_settings`, accepts whole numbers from 1. Ranges that depend on other settings are checked there by the
functions below.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from functools import cache
from math import inf, isfinite
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union


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


def check_choice(name: str, value: object, *choices: str) -> None:
    """Raise ``ValueError`` unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name}={value}: must be {', '.join(choices[:-1])} or {choices[-1]}")


class Number(NamedTuple):
    """A finite number from ``least`` to ``most`` and more than ``above``."""

    least: float = -inf
    above: float = -inf
    most: float = inf

    def check(self, name: str, value: object) -> None:
        check_number(name, value, *self)


class Whole(NamedTuple):
    """A whole number from ``least`` to ``most``."""

    least: int = 0
    most: float = inf

    def check(self, name: str, value: object) -> None:
        check_whole(name, value, *self)


class OneOf:
    """One of these texts."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def check(self, name: str, value: object) -> None:
        check_choice(name, value, *self.choices)


class TrueOrFalse:
    """A boolean, and no number or text that Python would take for one."""

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, bool):
            raise ValueError(f"{name}={value}: must be true or false")


PositiveInt = Annotated[int, Whole(1)]
NonNegativeInt = Annotated[int, Whole()]
PositiveFloat = Annotated[float, Number(above=0.0)]
NonNegativeFloat = Annotated[float, Number(0.0)]
Bool = Annotated[bool, TrueOrFalse()]
PositiveFrac = Annotated[float, Number(above=0.0, most=1.0)]
"""A part of a whole, but not nothing of it."""


def check_settings(settings: object) -> None:
    """Raise ``ValueError`` for the first field whose value is outside of its annotated range.

    A range within ``X | None`` leaves None alone, one within ``Sequence[X]`` or ``tuple[X, ...]`` holds for every item.
    Annotations that exist for the type checker only have none.
    """
    kind: Any = type(settings)
    for name, hint in _find_ranged(kind):
        _check(hint, name, getattr(settings, name))


class Checked:
    """Base of dataclasses whose settings are checked when one is made."""

    def __post_init__(self) -> None:
        check_settings(self)


@cache
def _find_ranged(kind: Any) -> list[tuple[str, Any]]:
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except NameError:
        return []
    return [(name, hint) for name, hint in hints.items() if _has_range(hint)]


def _has_range(hint: Any) -> bool:
    return bool(_ranges(hint)) or any(map(_has_range, typing.get_args(hint)))


def _ranges(hint: Any) -> list[Number | Whole | OneOf | TrueOrFalse]:
    return [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Number | Whole | OneOf | TrueOrFalse)]


def _check(hint: Any, name: str, value: Any) -> None:
    for one in _ranges(hint):
        one.check(name, value)
    inner = typing.get_args(hint)
    if value is None and type(None) in inner:
        return
    if typing.get_origin(hint) in (Union, UnionType):
        for kind in filter(_has_range, inner):
            _check(kind, name, value)
    elif isinstance(value, Sequence) and not isinstance(value, str) and _has_range(inner[0]):
        for item in value:
            _check(inner[0], name, item)
