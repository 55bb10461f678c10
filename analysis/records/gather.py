"""One pass over the lines of a log, into the columns that tables are made of; lines are released on the way."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.records.history import History
from analysis.records.schema import (
    COMMON,
    DURATIONS,
    KEPT,
    ORDINARY,
    PARTS,
    REPORTS,
    Finished,
    Line,
    Reported,
    is_arrival,
    type_of,
)

NUMBERS = {
    "worker": "grad.worker",
    "incarnation": "grad.incarnation",
    "iteration": "grad.iteration",
    "grad": "grad.id",
    "version_read": "grad.version",
    "samples": "grad.samples",
    "assigned_samples": "grad.assigned_samples",
    "cut_samples": "grad.cut_samples",
}
"""Columns of an arrival that are whole numbers, and where its event has them."""
SECONDS = tuple(name for name in (*DURATIONS, *PARTS) if name != "cpu_s")
BUSY = {"server": np.int64, "version": np.int64, "updates": np.int64, "busy_s": np.float64, "injected_s": np.float64}
LAST_LINES = 50
"""The note that ends a record is among so many last lines."""


class Columns:
    """Columns that grow in place: nothing is copied at the end, and blocks leave no holes in memory."""

    def __init__(self) -> None:
        self._columns: dict[str, array[Any]] = {}

    def add(self, block: Mapping[str, NDArray[Any]]) -> None:
        """Append rows: one array per column, all of the same length and always of the same kind."""
        for name, values in block.items():
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = array(values.dtype.char)
            column.frombytes(values.tobytes())

    def take(self, name: str, kind: type = np.float64) -> NDArray[Any]:
        """A whole column, which is no longer held here; without any rows an empty one of this kind."""
        found = self._columns.pop(name, None)
        return np.empty(0, kind) if found is None else np.frombuffer(found, found.typecode)


class Gathered:
    """The contents of a log. ``kept`` are the lines of which tables are made one by one: most notes, some events."""

    def __init__(self) -> None:
        self.history = History()
        self.arrivals, self.events, self.busy = Columns(), Columns(), Columns()
        self.kinds: dict[str, int] = {}
        """Every type of event, by its number in the column ``kind`` of ``events``."""
        self.kept: list[Line] = []
        self.places = array("q")
        """Offsets (bytes) of lines with more than arrivals of gradients and their fate."""
        self.num_lines, self.end_s = 0, 0.0
        self._finished: tuple[int, Finished] | None = None

    @property
    def finished(self) -> Finished | None:
        """The note that ends the record, or None for a run that was killed."""
        number, note = self._finished or (-LAST_LINES - 1, None)
        return note if number >= self.num_lines - LAST_LINES else None

    def add(self, lines: Sequence[Line], places: Iterable[int]) -> None:
        """Take the next lines, and their places in the file."""
        take, keep, mark = self.history.take, self.kept.append, self.places.append
        for line, place in zip(lines, places, strict=True):
            take(line)
            if is_notable(line):
                mark(place)
                if line.note is not None or type(line.event) in KEPT:
                    keep(line)
                if type(line.note) is Finished:
                    self._finished = (self.num_lines + line.seq - lines[0].seq, line.note)
        self._add_events([line for line in lines if line.event is not None])
        self._add_arrivals([line for line in lines if is_arrival(line)])
        self._add_busy([(line.t, found) for line in lines if type(found := line.note or line.event) in REPORTS])
        self.num_lines += len(lines)
        self.end_s = lines[-1].t if lines else self.end_s

    def _add_events(self, lines: Sequence[Line]) -> None:
        kinds = self.kinds
        self.events.add(
            {
                "seq": np.array([line.seq for line in lines], np.int64),
                "t": np.array([line.t for line in lines]),
                "kind": np.array([kinds.setdefault(type_of(line.event), len(kinds)) for line in lines], np.int16),
                "commands": np.array([len(line.commands) for line in lines], np.int64),
                "version": np.array([line.version for line in lines], np.int64),
                "decide_us": np.array([line.decide_us for line in lines]),
            }
        )

    def _add_arrivals(self, lines: Sequence[Line]) -> None:
        events: list[Any] = [line.event for line in lines]
        timings = [event.timings for event in events]
        self.arrivals.add({"t": np.array([line.t for line in lines])})
        self.arrivals.add(_block(events, NUMBERS, "int64"))
        self.arrivals.add(_block(timings, {name: name for name in SECONDS}, "float64"))
        self.arrivals.add({"cpu_s": np.array([each.cpu_s for each in timings], "float64")})
        self.arrivals.add({"loss": np.array([event.loss for event in events], "float64")})

    def _add_busy(self, found: Sequence[tuple[float, Any]]) -> None:
        self.busy.add({"t": np.array([t for t, _ in found])})
        for name, kind in BUSY.items():
            self.busy.add({name: np.array([getattr(report, name) for _, report in found], kind)})


def is_notable(line: Line) -> bool:
    """Whether a line says more than that a gradient arrived and what became of which, or how busy a server was."""
    if type(line.event) in COMMON:
        return bool(line.state) or not ORDINARY.issuperset(map(type, line.commands))
    return type(line.note) is not Reported


def _block(rows: Sequence[object], paths: Mapping[str, str], kind: str) -> dict[str, NDArray[Any]]:
    """Several fields of every row, by column, none of which is None: one look at each row."""
    values = chain.from_iterable(map(attrgetter(*paths.values()), rows))
    block = np.fromiter(values, kind, len(rows) * len(paths)).reshape(len(rows), len(paths))
    return {name: column.copy() for name, column in zip(paths, block.T, strict=True)}
