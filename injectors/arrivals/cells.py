"""Checks of what a source says about jobs, with errors that name the row and the column (pure)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from operator import attrgetter

from injectors.arrivals.base import Submission
from injectors.patterns.fields import one_line
from reading.numerals import number_in

JOB_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
MAX_JOBS = 1_000_000
MAX_NAME = 200
"""Letters of a user's or a model's name."""


def bad_cell(place: str, column: str, cell: object, text: str) -> ValueError:
    """The error about one cell, to be raised."""
    shown = "nothing" if cell is None or cell == "" else one_line(cell)
    return ValueError(f"{place}, column {column}, {shown}: {text}")


def number(
    place: str,
    column: str,
    cell: object,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    decimal_comma: bool = False,
) -> float:
    """A finite number, which a text may say in the way of any country; raises ``ValueError`` naming its place."""
    try:
        if isinstance(cell, str):
            value = number_in(cell, decimal_comma=decimal_comma)
        else:
            value = math.nan if isinstance(cell, bool) else float(cell)  # type: ignore[arg-type]  # TypeError says so
    except (TypeError, ValueError):
        value = math.nan
    wanted = f", {least:g} or more" if least > -math.inf else f", more than {above:g}" if above > -math.inf else ""
    if not math.isfinite(value) or value < least or value <= above:
        raise bad_cell(place, column, cell, f"must be a finite number{wanted}")
    return value


def whole(place: str, column: str, cell: object, *, least: int) -> int:
    """A whole number, ``4`` or ``4.0``; raises ``ValueError`` naming its place."""
    value = number(place, column, cell, least=least)
    if value != int(value):
        raise bad_cell(place, column, cell, f"must be a whole number, {least} or more")
    return int(value)


def in_order(jobs: Iterable[tuple[str, Submission]], cure: str = "") -> list[Submission]:
    """All (place, job) checked and sorted by time, equal times in the given order.

    Raises ``ValueError`` naming the place of what makes no sense, and of a name that two jobs have, with the ``cure``.
    """
    found: list[Submission] = []
    places: dict[str, str] = {}
    for place, one in jobs:
        check(place, one, cure)
        if one.job in places:
            said = f"{places[one.job]} has the same name; a name stands for one job"
            raise bad_cell(place, "job", one.job, f"{said}{cure}")
        places[one.job] = place
        found.append(one)
        if len(found) > MAX_JOBS:
            raise ValueError(f"{place}: more than {MAX_JOBS} jobs; cut a part out")
    return sorted(found, key=attrgetter("submit_s"))


def check(place: str, one: Submission, cure: str = "") -> None:
    """Raise ``ValueError`` naming the place and column unless such a job can be, with the ``cure`` for its name."""
    if not JOB_NAME.fullmatch(one.job):
        raise bad_cell(place, "job", one.job, f"must be up to 100 letters, digits, '-' and '_'{cure}")
    for column in ("user", "model"):
        if len(text := getattr(one, column)) > MAX_NAME or not text.isprintable():
            raise bad_cell(place, column, text, f"must be up to {MAX_NAME} letters that can be printed")
    number(place, "submit_s", one.submit_s, least=0)
    whole(place, "gpus", one.gpus, least=1)
    for column in ("duration_s", "worker_cpu_cores", "server_cpu_cores", "worker_bytes_per_s", "server_bytes_per_s"):
        value = getattr(one, column)
        if value is not None:
            number(place, column, value, least=0)
    if one.iterations is not None:
        whole(place, "iterations", one.iterations, least=1)
    if one.servers is not None:
        whole(place, "servers", one.servers, least=0)
