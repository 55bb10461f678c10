"""When and how long, as the columns of a table say it: forms, units, and what is likely (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from injectors.arrivals.cells import bad_cell, number
from injectors.arrivals.times import elapsed_s, is_a_date, seconds_of, zone_of
from reading.units import unit_in

NUMBER, EPOCH, TIME = "number", "epoch", "time"
FORMS = (NUMBER, EPOCH, TIME)
YEAR_S = 365.25 * 86400.0
FURTHEST_S = 3000 * YEAR_S
"""No clock that counts seconds since 1970 shows more."""
CENTURIES_S = 200 * YEAR_S
LONG_TRACE_S = 10 * YEAR_S
"""No trace of a cluster spans so many seconds; in milliseconds four days do."""
LONG_JOB_S = 2 * 86400.0
"""The usual job takes less; in milliseconds three minutes are as many."""
LONG_ITERATION_S = 60.0
SMALLER = {1e-3: "milliseconds", 1e-6: "microseconds", 1e-9: "nanoseconds"}


@dataclass(frozen=True)
class Unit:
    """Seconds per unit of a column: as the setting says, or the column's name, or one."""

    setting: str
    given_s: float | None

    def seconds(self, column: str) -> float:
        """Seconds per unit: as the setting says, else as the name of the column does."""
        named = unit_in(column) if self.given_s is None else self.given_s
        return 1.0 if named is None else named

    def refuse_long(self, column: str, seconds: float, most_s: float, what: str) -> None:
        """Raise ``ValueError`` for a time that would be too long, unless the unit was given."""
        if seconds > most_s and self.given_s is None and unit_in(column) is None:
            raise ValueError(
                f"column {column}: {what} {seconds / 86400.0:.3g} days if it has seconds; {self.setting}=0.001 if it "
                f"has milliseconds, {self.setting}=1 if that is so"
            )


@dataclass(frozen=True)
class Moments:
    """Columns of moments: of submission, start and end.

    Attributes:
        form: :data:`NUMBER`, :data:`EPOCH` or :data:`TIME`.
        unit: of numbers.
        zone: of times that say none; None: they are refused.
    """

    form: str
    unit: Unit
    zone: str | None

    def seconds(self, place: str, column: str, cell: object, *, decimal_comma: bool) -> float:
        """The moment that a cell says; raises ``ValueError`` naming its place."""
        if self.form == TIME:
            return seconds_of(place, column, cell, None if self.zone is None else zone_of(self.zone))
        if is_a_date(cell):
            raise bad_cell(place, column, cell, f"must be a number; submit_as={TIME} reads times")
        value = number(place, column, cell, decimal_comma=decimal_comma)
        seconds = value * self.unit.seconds(column)
        if abs(seconds) < FURTHEST_S:
            return seconds
        smaller = next((one for one in SMALLER if abs(value * one) < CENTURIES_S), None)
        cure = "; correct it, or leave the row out"
        if smaller is not None:
            cure = f"; {self.unit.setting}={smaller:g} if it counts {SMALLER[smaller]}"
            cure += f", and submit_as={EPOCH} if since 1970" if self.form == NUMBER else ""
        raise bad_cell(place, column, cell, f"is {seconds / YEAR_S:.3g} years if it has seconds{cure}")

    def refuse_long(self, column: str, submitted_s: Sequence[float]) -> None:
        """Raise ``ValueError`` unless a trace can last from the first of these moments to the last."""
        if self.form != TIME:
            self.unit.refuse_long(column, max(submitted_s) - min(submitted_s), LONG_TRACE_S, "its times span")


def lasts_s(place: str, column: str, cell: object, unit: Unit, *, decimal_comma: bool) -> float:
    """A duration, as a number or as schedulers write it; raises ``ValueError`` naming its place."""
    if (seconds := elapsed_s(cell)) is not None:
        return seconds
    return number(place, column, cell, least=0, decimal_comma=decimal_comma) * unit.seconds(column)


def refuse_unlikely(column: str, cells: Sequence[object], seconds: Sequence[float], unit: Unit, most_s: float) -> None:
    """Raise ``ValueError`` if the usual number of a column makes no likely seconds."""
    numbers = [each for cell, each in zip(cells, seconds, strict=True) if elapsed_s(cell) is None]
    if numbers:
        unit.refuse_long(column, median(numbers), most_s, "the usual one would be")
