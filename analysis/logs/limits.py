"""How much of a log is read: whatever a file holds or claims, reading it ends soon and fits into memory."""

from __future__ import annotations

MEBI = 1 << 20
MOST_BYTES = 512 * MEBI
"""Size of a file, unpacked."""
MOST_TABLE_BYTES = 256 * MEBI
"""Size of a table as text, unpacked: a single piece of it may have so many bytes."""
MOST_LINE = 1 << 16
"""Characters of a line that are looked at."""
MOST_LINES = 4_000_000
MOST_ROWS = 4_000_000
"""A row is a step of a rank."""
MOST_CELLS = 8_000_000
"""Steps times ranks."""
MOST_RANKS = 30_000
MOST_NAME = 200
"""Characters of a rank's name."""
MOST_COLUMNS = 20_000
MOST_OBJECTS = 2_500_000
"""JSON objects in a trace: each takes 440 bytes, besides the text."""
MOST_FILES = 10_000
"""Files in a folder."""
MOST_STEP = 1 << 53
"""Larger whole numbers are not exact in every form that a log may have."""
MILLI = 1e-3
LEAST_SECONDS, MOST_SECONDS = 1e-9, 1e9
"""Seconds of a step; own work of less than the least counts as that much, so that ratios of times are finite."""
LEAST_PRINTED_S = 1e-6
"""A printed time of 0 took less than that shows."""
MOST_DIGITS = 40
"""Characters of a number."""
