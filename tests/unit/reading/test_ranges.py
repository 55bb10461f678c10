"""Ranges at the fields of settings, and the one function that enforces them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import pytest

from reading.ranges import Bool, NonNegativeFloat, Number, OneOf, PositiveFrac, PositiveInt, Whole, check_settings


@dataclass(kw_only=True)
class Base:
    size: PositiveInt = 1
    flag: Bool = False

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(kw_only=True)
class Derived(Base):
    plain: float = 0.0
    most: PositiveInt | None = None
    waits_s: Sequence[NonNegativeFloat] = (0.0,)
    sizes: tuple[PositiveInt, ...] | None = None
    part: PositiveFrac = 1.0
    kind: Annotated[str, OneOf("a", "b", "c")] = "a"
    ratio: Annotated[float, Number(above=1.0)] = 2.0
    count: Annotated[int, Whole(2, 8)] = 4


class Struct(msgspec.Struct, kw_only=True):
    size: PositiveInt = 1
    most: PositiveInt | None = None

    def __post_init__(self) -> None:
        check_settings(self)


@pytest.mark.parametrize("kind", [Base, Derived, Struct])
def test_a_value_outside_of_its_range_is_refused_by_its_name(kind: Any) -> None:
    for value in (0, -1, 1.0, True, "1", None):
        with pytest.raises(ValueError, match=rf"^size={value}: must be a whole number, 1 or more$"):
            kind(size=value)


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        ("flag", 1, "flag=1: must be true or false"),
        ("most", 0, "most=0: must be a whole number, 1 or more"),
        ("waits_s", (0.0, -1.0), "waits_s=-1.0: must be 0 or more"),
        ("sizes", (4, 0), "sizes=0: must be a whole number, 1 or more"),
        ("part", 0.0, "part=0.0: must be above 0 and at most 1"),
        ("part", float("nan"), "part=nan: must be a number, above 0 and at most 1"),
        ("kind", "d", "kind=d: must be a, b or c"),
        ("ratio", 1, "ratio=1: must be above 1"),
        ("count", 9, "count=9: must be a whole number, 2 or more and at most 8"),
    ],
)
def test_every_kind_of_range_has_its_wording(field: str, value: object, line: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 (the whole line is compared)
        Derived(**{field: value})  # type: ignore[arg-type]
    assert str(refused.value) == line


def test_what_is_within_its_range_passes_and_none_where_the_type_has_it() -> None:
    Derived(size=9, plain=-1.0, most=None, waits_s=[], sizes=(1, 2), part=0.5, kind="c", ratio=1.5, count=8)
    Struct(size=2, most=3)
