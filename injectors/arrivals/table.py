"""Jobs of any published scheduler trace that is a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from injectors.arrivals.base import Arrivals, Submission
from injectors.arrivals.drawing import Draws, Servers, check_models, check_servers
from injectors.arrivals.files import refuse_pointer
from injectors.arrivals.moments import EPOCH, FORMS, NUMBER, TIME
from injectors.arrivals.slurm import JOB_IDS
from injectors.arrivals.table_rows import jobs_of
from injectors.arrivals.times import zone_of
from injectors.patterns.fields import check_number, one_line
from injectors.patterns.tables import NoSuchColumn, check_path, find_file, read_table

NEEDED = ("submit_column", "gpus_column")
"""Settings that must name a column."""
UNITS = ("submit_unit_s", "duration_unit_s", "seconds_per_iteration_unit_s")
LENGTHS = "name duration_column, end_column (and start_column), or iterations_column and seconds_per_iteration_column"


@final
@dataclass(frozen=True, kw_only=True)
class JobTable(Arrivals):
    """Every row of a table is a job; settings name its columns and units. Others are ignored.

    Settings that name a column are None where the table has none. A job's length is a duration, or what is between its
    start and its end, or a number of iterations, or both from iterations and seconds per iteration. Where jobs have
    names, a row that is the same as an earlier one, in all columns that are read, counts once. Steps of jobs, as
    Slurm's ``sacct`` prints them next to the jobs, are no jobs.

    Attributes:
        path: of the file, relative to the working directory or the repository: a text (``.csv``, ``.tsv``, ``.txt``),
            compressed or not, with columns apart by commas, semicolons, tabs or ``|``; or Parquet.
        submit_column: time of submission.
        submit_as: ``number`` (in units of ``submit_unit_s``), ``epoch`` (a number since 1970, or any other moment) or
            ``time`` (2017-10-09 07:01:55, with or without a zone); with the last two the first of
            the jobs that are taken is at 0.
        submit_unit_s: seconds per unit of that column, of start and of end; 0.001 for milliseconds. None: as the
            column's name says (``submit_ms``), else seconds, and what is no likely time then is refused.
        zone: of times that say none, as in ``UTC``; None: such times are refused.
        gpus_column: number of workers, or Slurm's AllocTRES.
        duration_column: how long the job runs.
        duration_unit_s: seconds per unit of that column, where it has numbers; 1-10:00:30 says it itself. None: as with
            ``submit_unit_s``.
        start_column: when the job started, written as its submission is.
        end_column: when it ended, likewise; its length is counted from its start, or from its submission if no column
            has the start.
        iterations_column: number of iterations of every worker.
        seconds_per_iteration_column: seconds per iteration; with the number of iterations this is the duration.
        seconds_per_iteration_unit_s: seconds per unit of that column; None: as with ``submit_unit_s``.
        job_column: name of the job; None: the number of its row.
        user_column: the user who submitted it.
        model_column: the model that it trains.
        servers_column: number of parameter servers.
        worker_cpu_cores_column: cores that a worker uses on average.
        server_cpu_cores_column: cores that a server uses on average.
        worker_bytes_per_s_column: bandwidth that a worker uses on average.
        server_bytes_per_s_column: bandwidth that a server uses on average.
        skip_incomplete: leave rows out that lack a time, a size or a length, and those with 0 GPUs or a length of 0,
            which never started; False: refuse them.
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
    submit_unit_s: float | None = None
    zone: str | None = None
    duration_column: str | None = None
    duration_unit_s: float | None = None
    start_column: str | None = None
    end_column: str | None = None
    iterations_column: str | None = None
    seconds_per_iteration_column: str | None = None
    seconds_per_iteration_unit_s: float | None = None
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
        for name in (*UNITS, "time_scale"):
            if name == "time_scale" or getattr(self, name) is not None:
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
        if self.submit_as not in FORMS:
            raise ValueError(f"submit_as={one_line(self.submit_as)}: must be {NUMBER}, {EPOCH} or {TIME}")
        each = self.seconds_per_iteration_column
        if each is not None and self.iterations_column is None:
            raise ValueError(f"seconds_per_iteration_column={each}: needs iterations_column, too")
        if self.start_column is not None and self.end_column is None:
            raise ValueError(f"start_column={self.start_column}: needs end_column, too")
        lengths = {"duration_column": self.duration_column, "end_column": self.end_column}
        lengths |= {"seconds_per_iteration_column": each}
        said = [name for name, column in lengths.items() if column is not None]
        if len(said) > 1:
            raise ValueError(f"{said[0]}={lengths[said[0]]}: {said[1]} says it already; make one of them null")
        if self.max_duration_s is not None and not said:
            raise ValueError(
                f"max_duration_s={self.max_duration_s:g}: no column says how long jobs last; {LENGTHS}, or make it null"
            )

    def submissions(self, seed: int) -> list[Submission]:
        refuse_pointer(self.path, find_file(self.path))
        named = {getattr(self, one): one for one in self.__dataclass_fields__ if one.endswith("_column")}
        named.pop(None, None)
        try:
            table = read_table(self.path, tuple(named), others=True, settings=named, optional=JOB_IDS)
        except NoSuchColumn as error:
            setting = str(error).partition("=")[0]
            cure = "" if setting in NEEDED else f"; {setting}=null: the table has none"
            if setting == "duration_column":
                cure += " (end_column and start_column name moments)"
            raise NoSuchColumn(f"{error}{cure}") from None
        try:
            return jobs_of(self, table, Draws(seed, "table"))
        except ValueError as error:
            raise ValueError(f"path={self.path}: {error}") from None
