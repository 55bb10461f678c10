"""What a hyper-parameter may be, with one wording of errors: see :mod:`reading.ranges` (pure)."""

from __future__ import annotations

from reading.ranges import (
    Bool,
    NonNegativeFloat,
    NonNegativeInt,
    Number,
    OneOf,
    PositiveFloat,
    PositiveFrac,
    PositiveInt,
    Whole,
    check_choice,
    check_number,
    check_settings,
    check_whole,
)

__all__ = [
    "Bool",
    "NonNegativeFloat",
    "NonNegativeInt",
    "Number",
    "OneOf",
    "PositiveFloat",
    "PositiveFrac",
    "PositiveInt",
    "Whole",
    "check_choice",
    "check_number",
    "check_settings",
    "check_whole",
]
