"""Rows of a table as jobs: which of them are, how long each is, and what it needs (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from injectors.arrivals.base import Submission
from injectors.arrivals.cells import bad_cell, in_order, number, whole
from injectors.arrivals.drawing import Draws
from injectors.arrivals.moments import (
    EPOCH,
    LONG_ITERATION_S,
    LONG_JOB_S,
    NUMBER,
    Moments,
    Unit,
    lasts_s,
    refuse_unlikely,
)
from injectors.arrivals.slurm import JOB_IDS, gpus_in, steps
from injectors.patterns.tables import Table
from reading.numerals import is_nothing

if TYPE_CHECKING:
    from injectors.arrivals.table import JobTable

YEARS_S = 1e8
"""Three years: numbers of seconds beyond are since 1970, not since a trace began."""
LEFT_OUT = "skip_incomplete=true leaves such rows out"


def jobs_of(asked: JobTable, table: Table, draws: Draws) -> list[Submission]:
    """The jobs in the order of submission; raises ``ValueError`` naming the row and the column."""
    read = _Rows(asked, table)
    rows = _rows_of_jobs(asked, table, read)
    if not rows:
        raise ValueError("has no jobs")
    submit_s = [read.moment_s(row, asked.submit_column) for row in rows]
    read.refuse_unlikely(rows, submit_s)
    if asked.submit_as == NUMBER and (first_s := min(submit_s)) > YEARS_S:
        raise bad_cell(
            table.places[rows[submit_s.index(first_s)]],
            asked.submit_column,
            f"{first_s:g} s",
            f"is years after the start; submit_as={EPOCH} puts the first job at 0",
        )
    chosen: Sequence[int] = range(len(rows))
    if asked.num_jobs is not None:
        if asked.num_jobs > len(rows):
            raise ValueError(f"num_jobs={asked.num_jobs}: it has only {len(rows)} jobs")
        chosen = draws.sample(asked.num_jobs, len(rows))
    if asked.submit_as != NUMBER:
        first_s = min(submit_s[n] for n in chosen)
        submit_s = [t - first_s for t in submit_s]
    jobs = [(table.places[rows[n]], read.job(rows[n], submit_s[n], draws)) for n in chosen]
    return in_order(jobs, "; job_column=null numbers the rows instead")


def _rows_of_jobs(asked: JobTable, table: Table, read: _Rows) -> list[int]:
    """Rows that are neither steps of a job, nor incomplete (if those are left out), nor there before."""
    parts = set[int]().union(*(steps(table.columns[name]) for name in _names_of_jobs(asked, table)))
    rows = [row for row in range(len(table.places)) if row not in parts]
    if asked.skip_incomplete:
        rows = [row for row in rows if read.lack(row) is None]
    elif lacking := next((lack for row in rows if (lack := read.lack(row))), None):
        raise lacking
    if asked.job_column is None:
        return rows
    firsts = dict[tuple[str, ...], int]()  # as text: not-a-number differs from itself, and lists have no hash
    for row in rows:
        firsts.setdefault(tuple([repr(column[row]) for column in table.columns.values()]), row)
    return list(firsts.values())


def _names_of_jobs(asked: JobTable, table: Table) -> set[str]:
    return {name for name in (asked.job_column, *JOB_IDS) if name is not None and name in table.columns}


class _Rows:
    """The values in the cells of a row, as settings have them."""

    def __init__(self, asked: JobTable, table: Table) -> None:
        self._asked, self._table = asked, table
        self._moments = Moments(asked.submit_as, Unit("submit_unit_s", asked.submit_unit_s), asked.zone)
        self._duration = Unit("duration_unit_s", asked.duration_unit_s)
        self._each = Unit("seconds_per_iteration_unit_s", asked.seconds_per_iteration_unit_s)
        named = (
            *(asked.submit_column, asked.gpus_column, asked.duration_column),
            *(asked.start_column, asked.end_column, asked.iterations_column),
        )
        self._needed = [name for name in named if name is not None]

    def cell(self, row: int, name: str | None) -> object:
        """Return a row's cell in a column; None if there is no such column."""
        return None if name is None else self._table.columns[name][row]

    def number(self, row: int, name: str | None) -> float | None:
        """The same as a number, 0 or more."""
        if name is None:
            return None
        comma = self._table.decimal_comma
        return number(self._table.places[row], name, self.cell(row, name), least=0, decimal_comma=comma)

    def moment_s(self, row: int, name: str) -> float:
        """The same as a moment."""
        comma = self._table.decimal_comma
        return self._moments.seconds(self._table.places[row], name, self.cell(row, name), decimal_comma=comma)

    def lack(self, row: int) -> ValueError | None:
        """Why a row is no job that ran, to be raised; None: it is one."""
        place, asked = self._table.places[row], self._asked
        for name in self._needed:
            if is_nothing(self.cell(row, name)):
                return bad_cell(place, name, self.cell(row, name), f"must be there; {LEFT_OUT}")
        if _is_zero(gpus_in(self.cell(row, asked.gpus_column))):
            cell = self.cell(row, asked.gpus_column)
            return bad_cell(place, asked.gpus_column, cell, f"must be a finite number, 1 or more; {LEFT_OUT}")
        for length in (asked.duration_column, asked.end_column, asked.iterations_column):
            if length is not None and (_is_zero(self.cell(row, length)) or self.length_s(row) == 0.0):
                return bad_cell(place, length, self.cell(row, length), f"a job of no time never started; {LEFT_OUT}")
        return None

    def length_s(self, row: int) -> float | None:
        """Seconds that the job runs; None: no column says it."""
        place, asked = self._table.places[row], self._asked
        if (name := asked.duration_column) is not None:
            comma = self._table.decimal_comma
            return lasts_s(place, name, self.cell(row, name), self._duration, decimal_comma=comma)
        if (name := asked.end_column) is not None:
            begin_s = self.moment_s(row, asked.start_column or asked.submit_column)
            if (seconds := self.moment_s(row, name) - begin_s) < 0:
                raise bad_cell(place, name, self.cell(row, name), "is before the job's start")
            return seconds
        each = self.number(row, asked.seconds_per_iteration_column)
        if each is None or asked.seconds_per_iteration_column is None:
            return None
        return each * self._each.seconds(asked.seconds_per_iteration_column) * self._iterations(row)

    def refuse_unlikely(self, rows: Sequence[int], submit_s: Sequence[float]) -> None:
        """Raise ``ValueError`` for columns whose numbers make no likely seconds; ``submit_s``: by row."""
        asked = self._asked
        self._moments.refuse_long(asked.submit_column, submit_s)
        for name, unit, most_s in (
            (asked.duration_column, self._duration, LONG_JOB_S),
            (asked.seconds_per_iteration_column, self._each, LONG_ITERATION_S),
        ):
            if name is not None:
                cells, comma = [self.cell(row, name) for row in rows], self._table.decimal_comma
                found = [
                    lasts_s(self._table.places[row], name, self.cell(row, name), unit, decimal_comma=comma)
                    for row in rows
                ]
                refuse_unlikely(name, cells, found, unit, most_s)

    def job(self, row: int, submit_s: float, draws: Draws) -> Submission:
        """The job of a row that was submitted then."""
        place, asked = self._table.places[row], self._asked
        gpus = whole(place, asked.gpus_column, gpus_in(self.cell(row, asked.gpus_column)), least=1)
        if submit_s < 0:
            raise bad_cell(place, asked.submit_column, self.cell(row, asked.submit_column), "must be 0 or more")
        iterations = None if asked.iterations_column is None else self._iterations(row)
        length_s, iterations = _scale(asked, self.length_s(row), iterations)
        given = self.cell(row, asked.servers_column)
        servers = (
            draws.servers(asked.servers, gpus)
            if asked.servers_column is None
            else whole(place, asked.servers_column, given, least=0)
        )
        model = self.cell(row, asked.model_column)
        return Submission(
            job=f"row{row + 1}" if asked.job_column is None else _text(self.cell(row, asked.job_column)),
            submit_s=submit_s * asked.time_scale,
            gpus=gpus,
            duration_s=length_s,
            iterations=iterations,
            servers=servers,
            user=_text(self.cell(row, asked.user_column)),
            model=draws.model(asked.models) if asked.model_column is None else _text(model),
            worker_cpu_cores=self.number(row, asked.worker_cpu_cores_column),
            server_cpu_cores=self.number(row, asked.server_cpu_cores_column),
            worker_bytes_per_s=self.number(row, asked.worker_bytes_per_s_column),
            server_bytes_per_s=self.number(row, asked.server_bytes_per_s_column),
        )

    def _iterations(self, row: int) -> int:
        name = self._asked.iterations_column
        assert name is not None
        return whole(self._table.places[row], name, self.cell(row, name), least=1)


def _scale(asked: JobTable, given_s: float | None, iterations: int | None) -> tuple[float | None, int | None]:
    """Duration and iterations, scaled and cut alike; iterations of unknown seconds stay as they are."""
    if given_s is None:
        return None, iterations
    length_s = given_s * asked.time_scale
    if asked.max_duration_s is not None:
        length_s = min(length_s, asked.max_duration_s)
    if iterations is not None and given_s > 0:
        iterations = max(1, round(iterations * (length_s / given_s)))
    return length_s, iterations


def _is_zero(cell: object) -> bool:
    """Say whether a job needs no GPUs."""
    try:
        return not isinstance(cell, bool) and float(cell) == 0.0  # type: ignore[arg-type]  # TypeError says so
    except (TypeError, ValueError):
        return False


def _text(cell: object) -> str:
    return "" if cell is None else str(cell)
