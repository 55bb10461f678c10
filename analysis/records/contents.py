"""The contents of a run's log, in one pass over its lines."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from analysis.records.log import Log, of_record
from analysis.records.run import LOG, Contents
from analysis.records.schema import ROWS


def gather_contents(root: Path, check: bool = False) -> Contents:
    """Read the log of a run's directory; raises :class:`RecordError`."""
    from analysis.records.gather import Gathered
    from analysis.records.integrity import Laws
    from analysis.records.tables import make_tables

    log, gathered = Log(root / LOG), Gathered()
    modified_ns = log.modified_ns()
    rows_path = root / ROWS if (root / ROWS).exists() else None
    laws = Laws(rows_path is not None) if check else None
    for lines, places in log.blocks():
        gathered.add(lines, places)
        if laws is not None:
            laws.take(lines)
    waiting = [gathered]  # until its columns are in tables
    return Contents(
        end_s=gathered.end_s,
        torn=log.torn,
        finished=gathered.finished,
        places=gathered.places,
        held=gathered.history.arrivals.held,
        given_up=gathered.history.given_up,
        discarded=gathered.history.discarded,
        make_tables=cache(of_record(root)(lambda: make_tables(waiting.pop(), rows_path))),
        problems=None if laws is None else laws.problems,
        modified_ns=modified_ns,
    )
