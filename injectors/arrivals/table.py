"""Jobs of any published scheduler trace that is a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from injectors.arrivals.base import Arrivals, Submission
from injectors.arrivals.cells import bad_cell, in_order, number, whole
from injectors.arrivals.drawing import Draws, Servers, check_models, check_servers
from injectors.arrivals.files import refuse_pointer
from injectors.arrivals.times import NOTHING, elapsed_s, is_a_date, seconds_of, zone_of
from injectors.patterns.fields import check_number, one_line
from injectors.patterns.tables import NoSuchColumn, Table, check_path, find_file, read_table

NEEDED = ("submit_column", "gpus_column")
"""Settings that must name a column."""
NUMBER = "number"
EPOCH = "epoch"
TIME = "time"
YEARS_S = 1e8
"""Three years: numbers of seconds beyond are since 1970, not since a trace began."""


@final
@dataclass(frozen=True, kw_only=True)
class JobTable(Arrivals):
    """Every row of a CSV or Parquet file is a job; settings name its columns and units. Others are ignored.

    Settings that name a column are None where the table has none. A job's length is a duration, or a number of
    iterations, or both from iterations and seconds per iteration. Where jobs have names, a row that is the same as an
    earlier one, in all columns that are read, counts once.

    Attributes:
        path: of the file, which ends in ``.csv`` or ``.parquet``; relative to the working directory or the repository.
        submit_column: time of submission.
        submit_as: ``number`` (in units of ``submit_unit_s``), ``epoch`` (a number since 1970, or any other moment) or
            ``time`` (2017-10-09 07:01:55, with or without a zone); with the last two the first of
            the jobs that are taken is at 0.
        submit_unit_s: seconds per unit of that column; 0.001 for milliseconds.
        zone: of times that say none, as in ``UTC``; None: such times are refused.
        gpus_column: number of workers.
        duration_column: how long the job runs.
        duration_unit_s: seconds per unit of that column, where it has numbers; 1-10:00:30 says it itself.
        iterations_column: number of iterations of every worker.
        seconds_per_iteration_column: what one takes; with the number of iterations this is the duration.
        job_column: name of the job; None: the number of its row.
        user_column: who has submitted it.
        model_column: what it trains.
        servers_column: number of parameter servers.
        worker_cpu_cores_column: cores that a worker uses on average.
        server_cpu_cores_column: cores that a server uses on average.
        worker_bytes_per_s_column: bandwidth that a worker uses on average.
        server_bytes_per_s_column: bandwidth that a server uses on average.
        skip_incomplete: leave rows out that lack a time, a size or a length, and those with 0 GPUs; False: refuse them.
        servers: where there is no such column: of every job, or ``uniform``; None: as the run has it.
        models: where there is no such column: every job trains one of them; none: the run's own.
        num_jobs: so many of them, drawn with the seed; None: all.
        time_scale: times of submission and durations are multiplied by it, and iterations whose seconds are known.
        max_duration_s: longer jobs are cut to it, after scaling, with their iterations; None: they are not.
    """

    path: str
    submit_column: str
    gpus_column: str
    submit_as: str = NUMBER
    submit_unit_s: float = 1.0
    zone: str | None = None
    duration_column: str | None = None
    duration_unit_s: float = 1.0
    iterations_column: str | None = None
    seconds_per_iteration_column: str | None = None
    job_column: str | None = None
    user_column: str | None = None
    model_column: str | None = None
    servers_column: str | None = None
    worker_cpu_cores_column: str | None = None
    server_cpu_cores_column: str | None = None
    worker_bytes_per_s_column: str | None = None
    server_bytes_per_s_column: str | None = None
    skip_incomplete: bool = False
    servers: Servers = None
    models: tuple[str, ...] = ()
    num_jobs: int | None = None
    time_scale: float = 1.0
    max_duration_s: float | None = None

    def __post_init__(self) -> None:
        check_path(self.path)
        if self.max_duration_s is not None:
            check_number("max_duration_s", self.max_duration_s, above=0)
        self._check_columns()
        for name in ("submit_unit_s", "duration_unit_s", "time_scale"):
            check_number(name, getattr(self, name), above=0)
        if self.num_jobs is not None:
            check_number("num_jobs", self.num_jobs, least=1)
        if self.zone is not None:
            zone_of(self.zone)
        if type(self.skip_incomplete) is not bool:
            raise ValueError(f"skip_incomplete={self.skip_incomplete}: must be true or false")
        check_servers(self.servers)
        check_models(self.models)

    def _check_columns(self) -> None:
        for name in [one for one in self.__dataclass_fields__ if one.endswith("_column")]:
            value, needed = getattr(self, name), name in NEEDED
            if (value is None and needed) or (value is not None and (not isinstance(value, str) or not value)):
                raise ValueError(f"{name}={one_line(value)}: must name a column of the file")
        if self.submit_as not in (NUMBER, EPOCH, TIME):
            raise ValueError(f"submit_as={one_line(self.submit_as)}: must be {NUMBER}, {EPOCH} or {TIME}")
        each = self.seconds_per_iteration_column
        if each is not None and self.iterations_column is None:
            raise ValueError(f"seconds_per_iteration_column={each}: needs iterations_column, too")
        if each is not None and self.duration_column is not None:
            raise ValueError(
                f"duration_column={self.duration_column}: iterations say it already; make one of them null"
            )
        if self.max_duration_s is not None and self.duration_column is None and each is None:
            raise ValueError(
                f"max_duration_s={self.max_duration_s:g}: no column says how long jobs last; name duration_column, or "
                "iterations_column and seconds_per_iteration_column, or make it null"
            )

    def submissions(self, seed: int) -> list[Submission]:
        refuse_pointer(self.path, find_file(self.path))
        named = {getattr(self, one): one for one in self.__dataclass_fields__ if one.endswith("_column")}
        named.pop(None, None)
        try:
            table = read_table(self.path, tuple(named), others=True, settings=named)
        except NoSuchColumn as error:
            setting = str(error).partition("=")[0]
            cure = "" if setting in NEEDED else f"; {setting}=null: the table has none"
            raise NoSuchColumn(f"{error}{cure}") from None
        try:
            return self._jobs(table, Draws(seed, "table"))
        except ValueError as error:
            raise ValueError(f"path={self.path}: {error}") from None

    def _jobs(self, table: Table, draws: Draws) -> list[Submission]:
        rows = list(range(len(table.places)))
        if self.skip_incomplete:
            rows = [row for row in rows if not self._lacks(table, row)]
        if self.job_column is not None:
            firsts = dict[tuple[str, ...], int]()  # as text: not-a-number differs from itself, and lists have no hash
            for row in rows:
                firsts.setdefault(tuple([repr(column[row]) for column in table.columns.values()]), row)
            rows = list(firsts.values())
        if not rows:
            raise ValueError("has no jobs")
        submit_s = [self._submit_s(table, row) for row in rows]
        if self.submit_as == NUMBER and (first_s := min(submit_s)) > YEARS_S:
            raise bad_cell(
                table.places[rows[submit_s.index(first_s)]],
                self.submit_column,
                f"{first_s:g} s",
                f"is years after the start; submit_as={EPOCH} puts the first job at 0",
            )
        chosen = range(len(rows))
        if self.num_jobs is not None:
            if self.num_jobs > len(rows):
                raise ValueError(f"num_jobs={self.num_jobs}: it has only {len(rows)} jobs")
            chosen = draws.sample(self.num_jobs, len(rows))  # type: ignore[assignment]
        if self.submit_as != NUMBER:
            first_s = min(submit_s[n] for n in chosen)
            submit_s = [t - first_s for t in submit_s]
        jobs = [(table.places[rows[n]], self._job(table, rows[n], submit_s[n], draws)) for n in chosen]
        return in_order(jobs, "; job_column=null numbers the rows instead")

    def _lacks(self, table: Table, row: int) -> bool:
        cells = {name: table.columns[name][row] for name in self._needed}
        return any(cell in NOTHING for cell in cells.values()) or _is_zero(cells[self.gpus_column])

    @property
    def _needed(self) -> list[str]:
        """Columns that must have a value in every row."""
        named = (self.submit_column, self.gpus_column, self.duration_column, self.iterations_column)
        return [name for name in named if name is not None]

    def _submit_s(self, table: Table, row: int) -> float:
        place, name = table.places[row], self.submit_column
        cell = table.columns[name][row]
        if self.submit_as == TIME:
            return seconds_of(place, name, cell, None if self.zone is None else zone_of(self.zone))
        if is_a_date(cell):
            raise bad_cell(place, name, cell, f"must be a number; submit_as={TIME} reads times")
        return number(place, name, cell) * self.submit_unit_s

    def _job(self, table: Table, row: int, submit_s: float, draws: Draws) -> Submission:
        place = table.places[row]
        for name in self._needed:
            if table.columns[name][row] in NOTHING:
                cure = "must be there; skip_incomplete=true leaves such rows out"
                raise bad_cell(place, name, table.columns[name][row], cure)

        def cell(name: str | None) -> object:
            return None if name is None else table.columns[name][row]

        def amount(name: str | None) -> float | None:
            return None if name is None else number(place, name, cell(name), least=0)

        if _is_zero(cell(self.gpus_column)):
            cure = "must be a finite number, 1 or more; skip_incomplete=true leaves such rows out"
            raise bad_cell(place, self.gpus_column, cell(self.gpus_column), cure)
        gpus = whole(place, self.gpus_column, cell(self.gpus_column), least=1)
        iterations = None
        if self.iterations_column is not None:
            iterations = whole(place, self.iterations_column, cell(self.iterations_column), least=1)
        if submit_s < 0:
            raise bad_cell(place, self.submit_column, cell(self.submit_column), "must be 0 or more")
        lasts_s = elapsed_s(cell(self.duration_column))
        if lasts_s is None and (units := amount(self.duration_column)) is not None:
            lasts_s = units * self.duration_unit_s
        lasts_s, iterations = self._length(lasts_s, iterations, amount(self.seconds_per_iteration_column))
        given = cell(self.servers_column)
        servers = (
            draws.servers(self.servers, gpus)
            if self.servers_column is None
            else whole(place, self.servers_column, given, least=0)
        )
        return Submission(
            job=f"row{row + 1}" if self.job_column is None else _text(cell(self.job_column)),
            submit_s=submit_s * self.time_scale,
            gpus=gpus,
            duration_s=lasts_s,
            iterations=iterations,
            servers=servers,
            user=_text(cell(self.user_column)),
            model=draws.model(self.models) if self.model_column is None else _text(cell(self.model_column)),
            worker_cpu_cores=amount(self.worker_cpu_cores_column),
            server_cpu_cores=amount(self.server_cpu_cores_column),
            worker_bytes_per_s=amount(self.worker_bytes_per_s_column),
            server_bytes_per_s=amount(self.server_bytes_per_s_column),
        )

    def _length(
        self, given_s: float | None, iterations: int | None, each_s: float | None
    ) -> tuple[float | None, int | None]:
        """Duration and iterations, scaled and cut alike; iterations of unknown seconds stay as they are."""
        if iterations is not None and each_s is not None:
            given_s = iterations * each_s
        if given_s is None:
            return None, iterations
        lasts_s = given_s * self.time_scale
        if self.max_duration_s is not None:
            lasts_s = min(lasts_s, self.max_duration_s)
        if iterations is not None and given_s > 0:
            iterations = max(1, round(iterations * (lasts_s / given_s)))
        return lasts_s, iterations


def _is_zero(cell: object) -> bool:
    """Of a number of GPUs: a job that needs none."""
    try:
        return not isinstance(cell, bool) and float(cell) == 0.0  # type: ignore[arg-type]  # TypeError says so
    except (TypeError, ValueError):
        return False


def _text(cell: object) -> str:
    return "" if cell is None else str(cell)
