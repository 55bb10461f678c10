"""Read the step times that a job logs; say what its stragglers cost, and rank the cures.

python run.py advise steps.csv                         # columns rank, step, seconds
python run.py advise steps.parquet --rank dp_rank --seconds step_ms --comm wait_ms
python run.py advise traces/                           # traces of the PyTorch profiler, one per rank
python run.py advise train.log --topology ps           # lines of Megatron-LM, torchtitan, nanoGPT, MLPerf and others
python run.py advise steps/                            # what your own loop wrote with stragglab.logging
python run.py advise dumps/                            # dumps of PyTorch's flight recorder: the ranks that hang
python run.py advise runs/my_bsp_run runs/my_asp_run   # records of this project; the second one prices barriers
python run.py advise operators.parquet                 # operations of a job with pipeline stages: docs/hybrid.md
python run.py advise train.log --gpus 64,2048          # its stragglers on 2,048 GPUs instead of 64: docs/scale.md

The command says how much time stragglers cost, which hosts or ranks they are and since when. It fits a cost model and a
plan of disturbances, and repeats the job on the virtual clock under every strategy that fits its topology, each over
the whole log. It ranks these strategies, and cures that need no other strategy (docs/advise.md). If the repeated
present strategy takes longer or shorter than the logged job by more than --limit, nothing is ranked. The exit code is
0, 1 if nothing could be ranked, or 2 for invalid input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.files import write_file
from analysis.markup import to_csv, to_markdown
from runtime.errors import FAILED, ConfigError, print_error, refuse
from runtime.house import NAME
from runtime.record.progress import Progress, counted, said_late
from runtime.run.probing import refuse_unwritable_folder
from stragglab.grids.advising import BATCH, NO_RANKS, RESTART_S, advise, diagnose, not_ranked, refuse_unknown
from stragglab.grids.forks import processors

if TYPE_CHECKING:
    from analysis.logs.step_log import StepLog
    from analysis.reports.advice import Advice

KEPT = "the log is as it was; the same command starts again"
"""Printed after a signal."""

FEWEST_STEPS = 20
OF_FILES = ("rank", "step", "seconds", "compute", "comm", "data", "start", "host", "samples", "timer", "tokens")
"""Arguments that readers of folders ignore."""
OURS = (
    *("advice.html", "costs.yaml", "plan.csv", "steps.*", "ranks.*", "prices.*", "ranking.*"),
    *("slow_*.csv", "cures.csv", "timeline.json"),
)
"""All files that it writes."""


def main(argv: Sequence[str] | None = None) -> int:
    """Advise on what is named; returns the exit code (see the module)."""
    try:
        asked = parse(argv)
    except ConfigError as error:
        return print_error("advise", error)
    return _answer_of_scale(asked) if asked.gpus else answer(asked)


def answer(asked: argparse.Namespace) -> int:
    """Advise on what is asked; returns the exit code."""
    from rich.console import Console

    from analysis.logs.operators import is_operators
    from analysis.logs.step_log import LogError, Untimed
    from analysis.reports.few_steps import compared_ranks
    from analysis.reports.whole_steps import whole_steps

    if is_operators(asked.logs[0]):
        return _answer_of_operators(asked)
    console = Console(highlight=False)
    try:
        if found := _hanging(asked):
            return not_ranked(console, found)
        log, *others = [read(path, asked) for path in asked.logs]
        if not log.per_rank:
            return not_ranked(console, [*log.remarks, *_say_left_out(log, asked), *whole_steps(log), NO_RANKS])
        if len(log.steps) < FEWEST_STEPS:
            return not_ranked(console, [*log.remarks, *compared_ranks(log, asked.slow_frac, _say_needs(asked))])
        with said_late("looking for slow ranks ..."):
            job = diagnose(log, others, asked)
        advice = advise(job, asked, console)
        _write(advice, asked.out, asked.limit)
    except Untimed as error:
        return not_ranked(console, [str(error)])
    except (ConfigError, LogError) as error:
        return print_error("advise", error)
    for remark in (*log.remarks, *advice.remarks):
        print(remark, file=sys.stderr)
    print(asked.out / "advice.html", file=sys.stderr)
    return 0 if advice.ranking else FAILED


def _hanging(asked: argparse.Namespace) -> list[str]:
    """The ranks that a hanging job waits for; empty if the log is neither a dump nor a folder of dumps."""
    from analysis.logs.flight_recorder import dumps_of
    from analysis.logs.step_log import LogError
    from analysis.measures.hanging import hanging
    from analysis.reports.hanging import hanging_lines

    dumps = dumps_of(asked.logs[0])
    if dumps and len(asked.logs) > 1:
        raise LogError(f"{asked.logs[0]}: is a dump of the flight recorder; name the folder with all dumps")
    return hanging_lines(dumps, hanging(dumps)) if dumps else []


def _answer_of_operators(asked: argparse.Namespace) -> int:
    """The costs of the stragglers of a job with pipeline stages, and their cures; returns the exit code."""
    from rich.console import Console

    from analysis.logs.step_log import LogError
    from analysis.reports.timeline import trace_of
    from stragglab.tables import hybrid_cures
    from stragglab.tables.what_if import lines, read_job, sheets
    from stragglab.terminal.sheets import print_sheet

    console = Console(highlight=False)
    try:
        if len(asked.logs) > 1:
            raise LogError(f"{asked.logs[1]}: one table of operators is read at a time")
        table, found = read_job(asked.logs[0])
    except LogError as error:
        return print_error("advise", error)
    with said_late("looking for the best cures ..."):
        ranking = hybrid_cures.rank_cures(found)
    restart_s = RESTART_S if asked.restart_s is None else asked.restart_s
    cured = hybrid_cures.lines(ranking, table.steps, restart_s) if ranking else [hybrid_cures.TOO_LARGE]
    for line in (*lines(table, found), *cured):
        console.print(line, markup=False, soft_wrap=True)
    if ranking:
        write_file(asked.out / "timeline.json", trace_of(hybrid_cures.slices(ranking)))
    printed = [("cures", "Cures", hybrid_cures.sheet(ranking))] if ranking else []
    for name, title, sheet in (*printed, *sheets(found)):
        print_sheet(console, sheet, title, ("cure", "needs"))
        write_file(asked.out / f"{name}.csv", to_csv(*sheet))
    return 0


def _answer_of_scale(asked: argparse.Namespace) -> int:
    """The costs of the job's stragglers on more GPUs; returns the exit code."""
    from rich.console import Console

    from analysis.logs.step_log import LogError
    from analysis.reports.at_scale import at_scale

    try:
        if len(asked.logs) > 1:
            raise LogError(f"{asked.logs[1]}: --gpus reads one log at a time")
        log = read(asked.logs[0], asked)
        lines = at_scale(log, asked.gpus, asked.then_s, asked.then_batch)
    except LogError as error:
        return print_error("advise", error)
    for line in lines:
        Console(highlight=False).print(line, markup=False, soft_wrap=True)
    return 0


def read(path: Path, asked: argparse.Namespace) -> StepLog:
    """The log, without the steps that are left out; raises :class:`analysis.logs.step_log.LogError`."""
    from analysis.logs.reading import Reading, read_log
    from analysis.logs.step_log import LogError, without_first
    from analysis.logs.table import Columns

    columns = Columns(
        rank=asked.rank,
        step=asked.step,
        seconds=asked.seconds,
        compute=asked.compute,
        comm=asked.comm,
        data=asked.data,
        start=asked.start,
        host=asked.host,
        samples=asked.samples,
    )
    with said_late(f"reading {path} ..."), _progress_of_files():
        log = read_log(path, Reading(columns, asked.unit, asked.timer, asked.tokens, _count_files))
    if log.job.get("one_span"):  # a profile that does not tell steps apart
        return log
    left, few = len(log.steps) - asked.skip, not log.per_rank or len(log.steps) <= FEWEST_STEPS
    if left < 1 or (left < FEWEST_STEPS and not few):
        cure = f"; --skip {max(0, len(log.steps) - (1 if few else FEWEST_STEPS))} leaves enough"
        raise LogError(f"{path}: has {len(log.steps)} steps; {_say_needs(asked)}{cure}")
    return without_first(log, asked.skip)


def _count_files(paths: Sequence[Path]) -> Iterator[Path]:
    return counted(paths, len(paths), "reading files")


@contextmanager
def _progress_of_files() -> Iterator[None]:
    """Meanwhile a line says how much of a file has been read, if that takes long; each reading of it has its own."""
    from reading.unpacked import READ

    before, line = (Path(), 1.0), Progress(1, "")

    def show_part(path: Path, part: float) -> None:
        nonlocal before, line
        if path != before[0] or part < before[1]:
            line.close()
            line = Progress(1, f"reading {path}")
        before = path, part
        line.reached(part)

    token = READ.set(show_part)
    try:
        yield
    finally:
        line.close()
        READ.reset(token)


def _say_needs(asked: argparse.Namespace) -> str:
    return f"{FEWEST_STEPS} steps are needed besides those that --skip {asked.skip} leaves out"


def _say_left_out(log: StepLog, asked: argparse.Namespace) -> list[str]:
    return (
        [f"{len(log.steps) + asked.skip} steps, the first of them left out (--skip {asked.skip}):"]
        if asked.skip and not log.job.get("one_span")
        else []
    )


def _write(advice: Advice, out: Path, limit: float) -> None:
    from analysis.figures.step_times import draw_step_times
    from analysis.records.provenance import version_text
    from analysis.reports.advice import page, ranking_sheet, ranks_sheet
    from analysis.reports.cures import price_sheet
    from runtime.record.meta import describe_versions

    figure = draw_step_times(out / "steps.png", advice.log, advice.found.found)
    sheets = {"ranks": ranks_sheet(advice), "prices": price_sheet(advice.cures), "ranking": ranking_sheet(advice)}
    for name, sheet in sheets.items():
        if sheet.rows:
            write_file(out / f"{name}.csv", to_csv(*sheet))
            write_file(out / f"{name}.md", to_markdown(*sheet))
    write_file(out / "advice.html", page(advice, limit, figure, version_text(describe_versions())))


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse and fill in defaults; raises a one-line :class:`ConfigError` for invalid input."""
    parser = _parser()
    asked = parser.parse_args(words)
    if all(path.is_dir() for path in asked.logs):
        for name in OF_FILES:
            if getattr(asked, name) != parser.get_default(name):
                raise ConfigError(f"--{name}: is for files, and {asked.logs[0]} is a folder; leave it out")
    bounds = {
        "unit": (asked.unit, 0.0, inf),
        "limit": (asked.limit, 0.0, inf),
        "slow-frac": (asked.slow_frac, 0.0, inf),
        "tokens": (asked.tokens, 0.0, inf),
        "batch": (asked.batch, 0, inf),
        "servers": (asked.servers, 0, inf),
        "epochs": (asked.epochs, 0, inf),
        "ranks-per-host": (asked.ranks_per_host, 0, inf),
        "jobs": (asked.jobs, 0, inf),
        "then-s": (asked.then_s, 0.0, inf),
        "then-batch": (asked.then_batch, 0.0, inf),
        "skip": (asked.skip, -1, inf),
        "seed": (asked.seed, -1, inf),
        "base-frac": (asked.base_frac, -1e-12, 1.0),
        "round-s": (asked.round_s, -1e-12, inf),
        "restart-s": (asked.restart_s, -1e-12, inf),
    }
    for name, (value, above, below) in bounds.items():
        if value is not None and not above < value < below:
            least = f"more than {above:g}" if above >= 0 else "0 or more"
            limit = least if below == inf else f"from {max(0.0, above):g} to less than {below:g}"
            raise ConfigError(f"--{name} {value:g}: must be {limit}")
    for name in ("then_s", "then_batch"):
        if getattr(asked, name) is not None and not asked.gpus:
            raise ConfigError(
                f"--{name.replace('_', '-')}: is of a job on more GPUs; add --gpus, such as --gpus 64,2048"
            )
    if asked.strategy:
        refuse_unknown("strategy", asked.strategy)
    for name in asked.strategies.split(",") if asked.strategies else []:
        refuse_unknown("strategies", name)
    asked.out = asked.out or Path("out") / "advice" / asked.logs[0].resolve().name.split(".")[0]
    refuse_unwritable_folder("-o", asked.out, OURS, ("advice.html", "costs.yaml", "slow_workers.csv"))
    return asked


def _unit(text: str) -> float:
    from reading.units import unit_said

    try:
        return unit_said(text)
    except ValueError:
        words = f"{text}: must be seconds, such as 0.001, or the word of a unit, such as ms"
        raise argparse.ArgumentTypeError(words) from None


def _gpus(text: str) -> tuple[int, int]:
    few, _, many = text.partition(",")
    if not (few.isdecimal() and many.isdecimal() and 0 < int(few) <= int(many)):
        words = f"{text}: must be the GPUs of the log, and as many or more, such as 64,2048"
        raise argparse.ArgumentTypeError(words)
    return int(few), int(many)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{NAME} advise", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "logs",
        metavar="LOG",
        type=Path,
        nargs="+",
        help="the job's log; then logs of the same job under other strategies",
    )
    add("-o", "--out", metavar="DIR", type=Path, help="folder of the page and the tables (default: out/advice/NAME)")
    add("--strategy", metavar="NAME", help="the job's present strategy (default: the record's, or bsp)")
    add(
        "--topology", choices=["ps", "allreduce"], help="where its parameters are (default: the record's, or allreduce)"
    )
    add("--strategies", metavar="A,B", help="strategies to try (default: all that fit)")
    add("--servers", metavar="N", type=int, help="parameter servers (default: the record's, or 1)")
    add("--batch", metavar="N", type=int, help=f"samples per rank and step (default: the log's, or {BATCH})")
    add("--epochs", metavar="N", type=int, default=1, help="passes over the data within the log (default: 1)")
    add(
        "--base-frac",
        metavar="F",
        type=float,
        help="part of a step that a smaller batch does not save (default: the record's, or 0)",
    )
    add(
        "--kind",
        choices=["slowdown", "delay"],
        default="slowdown",
        help="a slow step's additional time grows with its batch (slowdown, the default), or does not (delay)",
    )
    add("--round-s", metavar="S", type=float, help="seconds of a round after its slowest rank (default: the log's)")
    add(
        "--restart-s",
        metavar="S",
        type=float,
        help=f"seconds until a restarted node computes (default: as in the log, else {RESTART_S:g})",
    )
    add(
        "--slow-frac",
        metavar="F",
        type=float,
        default=0.1,
        help="by which part of its time a slow step is longer, at least (default: 0.1)",
    )
    add("--skip", metavar="N", type=int, default=1, help="first steps to leave out (default: 1)")
    add(
        "--limit",
        metavar="F",
        type=float,
        default=0.1,
        help="allowed error of the repeated present strategy (default: 0.1)",
    )
    add("--seed", metavar="N", type=int, default=0, help="seed of the jitter of repeated jobs (default: 0)")
    add("--ranks-per-host", metavar="N", type=int, help="ranks per host, if the log does not name hosts")
    add(
        "--jobs",
        metavar="N",
        type=int,
        default=processors(),
        help="virtual jobs at a time (default: one per processor)",
    )
    larger = parser.add_argument_group("a larger job: the excess of its steps, and nothing else")
    larger.add_argument("--gpus", metavar="N,M", type=_gpus, help="GPUs of the log, and of the larger job")
    larger.add_argument("--then-s", metavar="S", type=float, help="its median step (default: the log's)")
    larger.add_argument(
        "--then-batch", metavar="F", type=float, help="its samples per step, relative to the log's (default: 1)"
    )
    table = parser.add_argument_group("tables: names of columns")
    for name, default, words in (
        ("rank", "rank", "the rank, a number or a name"),
        ("step", "step", "the step's number"),
        ("seconds", "seconds", "the time of that step at that rank"),
        ("compute", None, "the part of that time in which the rank itself worked"),
        ("comm", None, "the part in which it communicated or waited"),
        ("data", None, "the part in which it loaded data"),
        ("start", None, "when the step began"),
        ("host", None, "the rank's machine"),
        ("samples", None, "samples of that step at that rank"),
    ):
        table.add_argument(f"--{name}", metavar="COLUMN", default=default, help=words)
    table.add_argument(
        "--unit", metavar="S", type=_unit, help="seconds per unit of times, or ms (default: by the names of columns)"
    )
    lines = parser.add_argument_group("printed logs")
    lines.add_argument(
        "--timer", metavar="NAME", help="Megatron-LM: timer of a rank's own work (default: forward-backward)"
    )
    lines.add_argument("--tokens", metavar="N", type=float, help="torchtitan: tokens of a rank's step")
    parser.error = refuse  # type: ignore[method-assign]
    return parser
