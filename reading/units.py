"""Units of times, by the names of their columns and by what is usual."""

from __future__ import annotations

import re

UNITS = {
    1.0: ("s", "sec", "secs", "second", "seconds"),
    1e-3: ("ms", "msec", "msecs", "millis", "millisec", "millisecond", "milliseconds"),
    1e-6: ("us", "usec", "usecs", "micros", "microsec", "microsecond", "microseconds", "µs", "μs"),
    1e-9: ("ns", "nsec", "nsecs", "nanos", "nanosec", "nanosecond", "nanoseconds"),
    60.0: ("minute", "minutes", "mins"),
    3600.0: ("hour", "hours", "hrs"),
    86400.0: ("days",),
}
"""Words by the seconds that they say."""
BY_WORD = {word: unit_s for unit_s, words in UNITS.items() for word in words}
IN_BRACKETS = {"min": 60.0, "h": 3600.0, "hr": 3600.0, "d": 86400.0}
"""Elsewhere in a name these letters mean other things."""
LONG_S = 60.0
"""A usual step that takes longer is more likely one in another unit."""


def unit_in(name: str) -> float | None:
    """Seconds per unit of a column of times: the last word that names a unit, as in ``step_ms`` and ``time (us) mean``.

    None if there is none. ``stepTimeMs`` has three words.
    """
    words = re.split(r"[\W\d_]+|(?<=[a-z])(?=[A-Z][a-z])", name)
    found = next((BY_WORD[word.lower()] for word in reversed(words) if word.lower() in BY_WORD), None)
    bracket = re.search(r"[(\[] ?(\w+) ?[)\]]", name)
    return found if found is not None or bracket is None else IN_BRACKETS.get(bracket[1].lower())


def unit_said(text: str) -> float:
    """Seconds per unit of a word (``ms``) or a number (``0.001``); raises ``ValueError`` for any other text."""
    word = text.strip().lower()
    return (BY_WORD | IN_BRACKETS)[word] if word in BY_WORD | IN_BRACKETS else float(word)


def unit_of(name: str) -> float:
    """The same; seconds if the name does not say."""
    unit_s = unit_in(name)
    return 1.0 if unit_s is None else unit_s


def unit_remark(name: str, usual: float) -> str | None:
    """Return a remark on the unit of a column whose usual value is ``usual``; None if none is due."""
    unit_s = unit_in(name)
    if unit_s is not None and unit_s != 1.0:
        return f"{name}: in units of {unit_s:g} s by its name; --unit says otherwise"
    if usual <= LONG_S:
        return None
    why = "its name says no unit, so it counts as seconds" if unit_s is None else "it counts as seconds, by its name"
    return (
        f"{name}: {why}, and the usual one would be {usual:.4g} s: if it is in milliseconds, say --unit 0.001, if in "
        "microseconds, --unit 1e-6"
    )
