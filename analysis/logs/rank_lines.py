"""Lines with the rank, the step and times of its parts, as StragglAR's measurements print them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from analysis.logs.limits import LEAST_PRINTED_S, MILLI, MOST_SECONDS, MOST_STEP
from analysis.logs.lines import Line, positive, whole
from analysis.logs.rows import Rows

PLACE = re.compile(r"\bRank (\d++) \| Step (\d++) \|")
TIME = re.compile(r"\| ([A-Z][A-Za-z]{0,20}) Time: ([^\s|]++) ms\b")
WHOLE_TIME = re.compile(r"\| Iteration Time: [^\s|]++ ms\b")
WHOLE, SENDING = "Iteration", ("AR", "Allreduce", "AllReduce")


def is_rank_line(line: Line) -> bool:
    """Whether a line has the times of a rank's step."""
    return PLACE.search(line.text) is not None and WHOLE_TIME.search(line.text) is not None


def read_rank_lines(source: str, lines: Iterable[Line]) -> Rows:
    """Steps of all ranks: own work is the step without its all-reduce, in which a rank also waits for others.

    Raises:
        LogError: a number is none.
    """
    rows = Rows(source)
    for line in lines:
        if not is_rank_line(line) or not (place := PLACE.search(line.text)):
            continue
        where = f"{source}: line {line.number}"
        times_s = {
            name: MILLI * positive(found, f"{name} Time", where, MOST_SECONDS / MILLI)
            for name, found in TIME.findall(line.text)
        }
        step_s = max(times_s[WHOLE], LEAST_PRINTED_S)
        sent_s = sum(seconds for name, seconds in times_s.items() if name in SENDING)
        rank, step = whole(place[1], "rank", where, MOST_STEP), whole(place[2], "step", where, MOST_STEP)
        rows.add(str(rank), step, max(step_s - sent_s, LEAST_PRINTED_S), step_s)
    return rows
