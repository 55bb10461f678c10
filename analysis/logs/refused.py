"""Files of other tools that have no times of steps: which file it is, and what is missing in it."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from analysis.logs.lines import Lines

MOST_LINES = 5_000
"""So many are looked at."""
MARKS = (
    (
        re.compile(
            r":root:(?:Build [DPT]P clique|No peaks in ACF|Linked to the shm)|\[(?:Global|Local) ?[Cc]ontroller\]"
        ),
        "is the log of a controller of Greyhound: it has periods and plans, and the time of no single step; give the "
        "times of iterations of every rank as a table (columns rank, step, seconds)",
    ),
    (
        re.compile(r"^\[ncclCommInitRankConfig\]|^\[Before buffer init\]"),
        "is the log of a probe in NCCL: it has groups and the time of no step; give the times of iterations of every "
        "rank as a table (columns rank, step, seconds)",
    ),
    (
        re.compile(r"^Iteration, ?IterationTime\(ms\)$"),
        "has the head of a table of iterations (Iteration, IterationTime(ms)) and no row; give the log of a job that "
        "went on, with a column of ranks",
    ),
    (
        re.compile(r"^s:\d{1,9} t[re]l:"),
        "is the main.log of llm.c: it has losses by step and no times; give what the program printed (ms of steps)",
    ),
    (
        re.compile(r"^Rank \d{1,9}, fault_type: "),
        "has the faults that were injected, and no times; name the folder with the dumps of the flight recorder",
    ),
)


def why_refused(path: Path) -> str | None:
    """Name the form of a file that has no times of steps, and the missing times; None: its form is not known."""
    for line in islice(Lines(path), MOST_LINES):
        for mark, why in MARKS:
            if mark.search(line.text):
                return why
    return None
