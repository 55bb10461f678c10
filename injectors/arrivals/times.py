"""Times of day as traces write them, as seconds since 1970 (pure)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from injectors.arrivals.cells import bad_cell

NOTHING = (None, "", "None", "NA", "NULL")
"""What traces write where they know no time."""
PACIFIC = "America/Los_Angeles"
ELAPSED = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d(?:\.\d+)?)")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
OFFSETS = {" PDT": "-07:00", " PST": "-08:00", " UTC": "+00:00", "Z": "+00:00"}


def elapsed_s(cell: object) -> float | None:
    """Seconds of a duration as schedulers write it, ``10:00:30`` or with days ``1-10:00:30``; None for all else."""
    if isinstance(cell, timedelta):
        return cell.total_seconds()
    found = ELAPSED.fullmatch(cell.strip()) if isinstance(cell, str) else None
    if found is None:
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

    ``zone`` is that of times that say none, and None refuses those. Of an hour that exists twice, since the clocks went
    back in it, the first is meant. Raises ``ValueError`` naming the place.
    """
    found = cell
    if isinstance(cell, str):
        text = cell.strip()
        for suffix, offset in OFFSETS.items():
            if text.endswith(suffix):
                text = text.removesuffix(suffix) + offset
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            found = None
    if not isinstance(found, datetime):
        raise bad_cell(place, column, cell, "must be a time such as 2017-10-09 07:01:55")
    if found.tzinfo is None:
        if zone is None:
            raise bad_cell(
                place, column, cell, "is a time without a zone; say which with zone=, as in America/Los_Angeles"
            )
        found = found.replace(tzinfo=zone)
    return found.timestamp()
