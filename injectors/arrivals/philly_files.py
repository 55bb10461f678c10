"""The two published forms of the Philly trace: ``cluster_job_log`` and the table that was derived from it.

Times in both are local Pacific times without a zone, and the clocks went back on 5 November 2017.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from injectors.arrivals.cells import bad_cell, number, whole
from injectors.arrivals.files import read_bytes
from injectors.arrivals.times import PACIFIC, seconds_of, zone_of
from reading import Unreadable
from reading.errors import shown
from reading.files import MAX_TABLE_BYTES, decoded
from reading.numerals import is_nothing
from reading.plain import parse_json
from reading.tables import check_cells, csv_rows

COLUMNS = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")


class TracedJob(NamedTuple):
    """One job as the trace describes it, times in seconds since 1970, before any is left out."""

    place: str
    """Where it stands in the file, for messages."""
    job: str
    submit_s: float
    """Since 1970."""
    gpus: int
    """GPUs of its first attempt."""
    duration_s: float
    """Sum over its attempts."""
    user: str
    """In the table, which has no users: the virtual cluster."""


class _Detail(msgspec.Struct):
    ip: str | None = None
    gpus: list[str] | None = None


class _Attempt(msgspec.Struct):
    start_time: str | None = None
    end_time: str | None = None
    detail: list[_Detail] | None = None


class _Logged(msgspec.Struct):
    jobid: str
    submitted_time: str | None = None
    attempts: list[_Attempt] | None = None
    status: str | None = None
    user: str | None = None


def read_trace(path: str) -> list[TracedJob]:
    """The usable jobs of a file in either form, in its order.

    Left out are jobs without a time of submission or without any attempt of which start, end and GPUs are known, and
    repeated lines of the table. Raises ``ValueError`` naming the row and the column of what cannot be.
    """
    data, zone = read_bytes(path, MAX_TABLE_BYTES), zone_of(PACIFIC)
    try:
        text = decoded(data)
        return list(_of_log(text, zone) if text.lstrip().startswith("[") else _of_table(text, zone))
    except ValueError as error:
        raise ValueError(f"path={path}: {error}") from None


# ---- cluster_job_log -------------------------------------------------------------------------------------------------


def _of_log(text: str, zone: ZoneInfo) -> Iterator[TracedJob]:
    try:
        logged = parse_json(text, list[_Logged])
    except Unreadable as error:
        raise ValueError(f"is not a cluster_job_log ({error})") from None
    for n, one in enumerate(logged):
        place = f"job {n + 1} ({shown(one.jobid)})"
        if is_nothing(one.submitted_time):
            continue
        submit_s = seconds_of(place, "submitted_time", one.submitted_time, zone)
        first = next((gpus for attempt in one.attempts or () if (gpus := _gpus_of(attempt))), 0)
        attempts = enumerate(one.attempts or ())
        lengths = [length for m, attempt in attempts if (length := _length_s(place, m, attempt, zone)) is not None]
        if first and lengths:
            yield TracedJob(place, one.jobid, submit_s, first, sum(lengths), one.user or "")


def _gpus_of(attempt: _Attempt) -> int:
    return sum(len(detail.gpus or ()) for detail in attempt.detail or ())


def _length_s(place: str, number_: int, attempt: _Attempt, zone: ZoneInfo) -> float | None:
    """Seconds of an attempt; None: an end of it is unknown."""
    if is_nothing(attempt.start_time) or is_nothing(attempt.end_time):
        return None
    column = f"attempts[{number_}].end_time"
    begin_s = seconds_of(place, f"attempts[{number_}].start_time", attempt.start_time, zone)
    length_s = seconds_of(place, column, attempt.end_time, zone) - begin_s
    if length_s < 0:
        raise bad_cell(place, column, attempt.end_time, f"is before its start, {attempt.start_time}")
    return length_s


# ---- philly.csv ------------------------------------------------------------------------------------------------------


def _of_table(text: str, zone: ZoneInfo) -> Iterator[TracedJob]:
    rows = csv_rows(text)
    header = [cell.strip() for cell in next(rows, (0, []))[1]]
    needed = ("timestamp", "duration", "num_gpus")
    if missing := [name for name in needed if name not in header]:
        raise ValueError(f"has no column {missing[0]}; philly.csv has {', '.join(COLUMNS)}")
    if unknown := [name for name in header if name not in COLUMNS]:
        raise ValueError(f"column {shown(unknown[0])} has no meaning; philly.csv has {', '.join(COLUMNS)}")
    seen: set[tuple[str, ...]] = set()
    for line, cells in rows:
        place = f"line {line}"
        if len(cells) != len(header):
            raise ValueError(f"{place} has {len(cells)} cells, the header {len(header)}")
        key = tuple(cells)
        if key in seen:
            continue
        seen.add(key)
        check_cells(len(seen), len(header))
        row = dict(zip(header, cells, strict=True))
        yield TracedJob(
            place,
            f"line{line}",
            seconds_of(place, "timestamp", row["timestamp"], zone),
            whole(place, "num_gpus", row["num_gpus"], least=1),
            number(place, "duration", row["duration"], least=0),
            row.get("cluster", ""),
        )
