"""One record that has been read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.records.log import Log
from analysis.records.schema import ROWS, Finished, Line

if TYPE_CHECKING:
    import pandas as pd

    from analysis.records.tables import Tables

LOG, FOLDER = "events.jsonl", "columns"
"""The log, and the folder of what is derived from it for later loads."""


@dataclass(frozen=True)
class Integrity:
    """``problems`` found, and what could not be checked on this record (``unchecked``), each with the reason."""

    problems: tuple[str, ...]
    unchecked: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


@dataclass(frozen=True)
class Contents:
    """The known contents of a log without its lines: after one pass over it, or as an earlier one stored them.

    ``end_s`` is the time of the last line (0 without any), ``torn``: a last one was cut off. ``places`` of the
    notable lines: where they begin (bytes). ``held`` says of every arrival whether its Compute waited for data;
    ``given_up`` is (t, samples) of gradients dropped permanently, or not computed. Both are empty for a run by rows.
    ``discarded``: gradients that were dropped while their workers held them.
    """

    end_s: float
    torn: bool
    finished: Finished | None
    places: Sequence[int]
    held: Sequence[int]
    given_up: Sequence[tuple[float, int]]
    discarded: int
    make_tables: Callable[[], Tables]
    """The same frames whenever it is called: columns become them, and two runs may share contents."""
    problems: Sequence[str] | None = None
    """The laws that its lines break; None: not checked."""
    integrity: Integrity | None = None
    """As stored by an earlier analysis."""
    modified_ns: int = 0
    """When the log was last modified before it was read."""


@dataclass(frozen=True, eq=False)
class Run:
    """One record.

    ``plan`` has a row per disturbance (``start_s``, ``end_s``, ``target``, ``kind``, ``magnitude``; the index is its
    position in the plan); its ``attrs`` have the ``pattern`` that made it.
    """

    path: Path
    meta: dict[str, Any]
    plan: pd.DataFrame
    contents: Contents
    audit: Callable[[Run], Integrity]
    """Finds out whether it obeys the laws."""

    @property
    def job(self) -> dict[str, Any]:
        """The job's description: ``meta["job"]``."""
        return dict(self.meta["job"])

    @property
    def finished(self) -> Finished | None:
        """The note that ends the record, or None for a run that was killed."""
        return self.contents.finished

    @property
    def end_s(self) -> float:
        """Time of the last line; 0 without any."""
        return self.contents.end_s

    @property
    def torn(self) -> bool:
        """Whether the last line was cut off."""
        return self.contents.torn

    @property
    def status(self) -> str:
        """``done``, ``failed``, ``stuck``, ``disk_full``, ``interrupted``, or ``killed`` without a last line."""
        return self.finished.status if self.finished else "killed"

    @property
    def by_rows(self) -> bool:
        """Whether iterations were recorded as rows and not as events (:mod:`analysis.records.rows`)."""
        return (self.path / ROWS).exists()

    @cached_property
    def tables(self) -> Tables:
        """The tidy frames of this run (:mod:`analysis.records.tables`)."""
        return self.contents.make_tables()

    @cached_property
    def integrity(self) -> Integrity:
        """Whether it obeys the laws of the protocol (:mod:`analysis.records.integrity`)."""
        return self.audit(self)

    @cached_property
    def notable_lines(self) -> list[Line]:
        """The lines that say more than an arrival, and what became of which gradient, or how busy a server was.

        These are all other notes and events, and those with state or with commands that are no ``Compute``, ``Apply``
        or ``Drop``: few of a long record. They are read when they are asked for.
        """
        return list(Log(self.path / LOG).at(self.contents.places))

    @cached_property
    def lines(self) -> list[Line]:
        """All lines, as objects: a kilobyte and a half each, so measures use tables and notable lines instead."""
        return [line for lines, _ in Log(self.path / LOG).blocks() for line in lines]
