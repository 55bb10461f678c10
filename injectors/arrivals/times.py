"""Times of day as traces write them, as seconds since 1970 (pure)."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from injectors.arrivals.cells import bad_cell

MOST_TEXT = 60
"""Characters of a duration."""
PACIFIC = "America/Los_Angeles"
ELAPSED = re.compile(r"(?:(\d+)(?:-| days? |d |d| days?, ))?(\d+):([0-5]\d):([0-5]\d(?:\.\d+)?)")
"""10:00:30, 1-10:00:30 (Slurm), 1 days 10:00:30 (pandas), 1 day, 10:00:30 (Python)."""
LETTERS = re.compile(r"P?(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?", re.IGNORECASE)
"""2h5m3s (Kubernetes), PT2H5M3S (ISO 8601)."""
DATE = re.compile(r"\d{4}([-/])\d\d\1\d\d|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d ")
FORMS = ("%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%a %b %d %H:%M:%S %Y")
"""Formats besides ISO 8601. Numeric days and months need the year first, or their order would be ambiguous."""
OFFSETS = {" PDT": "-07:00", " PST": "-08:00", " UTC": "+00:00", "Z": "+00:00"}


def elapsed_s(cell: object) -> float | None:
    """Seconds of a duration as schedulers write it, ``10:00:30``, ``1-10:00:30`` or ``2h5m3s``; None for all else."""
    if isinstance(cell, timedelta):
        return cell.total_seconds()
    if not isinstance(cell, str) or not (text := cell.strip()) or text.isdecimal() or len(text) > MOST_TEXT:
        return None
    found = ELAPSED.fullmatch(text) or LETTERS.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds = found.groups(default="0")
    return (int(days) * 24 + int(hours)) * 3600.0 + int(minutes) * 60.0 + float(seconds)


def is_a_date(cell: object) -> bool:
    """Whether it begins as a time of some day does, whatever follows."""
    return isinstance(cell, datetime) or (isinstance(cell, str) and DATE.match(cell.strip()) is not None)


def zone_of(name: str) -> ZoneInfo:
    """The time zone of this name; raises ``ValueError`` if this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"zone={name}: no such time zone here; use one as in America/Los_Angeles or UTC") from None


def seconds_of(place: str, column: str, cell: object, zone: ZoneInfo | None) -> float:
    """Seconds since 1970 of a time such as ``2017-10-09 07:01:55``, a ``datetime``, or a time with its own zone.

    ``zone`` applies to times without a zone; None refuses these. An hour that exists twice, because the clocks went
    back, means the first. Raises ``ValueError`` naming the place.
    """
    found = cell
    if isinstance(cell, str):
        text = cell.strip()
        for suffix, offset in OFFSETS.items():
            if text.endswith(suffix):
                text = text.removesuffix(suffix) + offset
        found = _parse(text)
    if not isinstance(found, datetime):
        is_number = str(cell).strip().replace(".", "", 1).isdecimal()
        cure = "; submit_as=epoch reads numbers since 1970" if is_number else ""
        raise bad_cell(place, column, cell, f"must be a time such as 2017-10-09 07:01:55{cure}")
    if found.tzinfo is None:
        if zone is None:
            raise bad_cell(
                place, column, cell, "is a time without a zone; say which with zone=, as in America/Los_Angeles"
            )
        found = found.replace(tzinfo=zone)
    return found.timestamp()


def _parse(text: str) -> datetime | None:
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    for form in FORMS:
        with suppress(ValueError):
            return datetime.strptime(text, form)
    return None
