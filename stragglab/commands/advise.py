"""From the step times that a job logs to a ranked list of what could be done about its stragglers.

python run.py advise steps.csv                         # columns rank, step, seconds
python run.py advise steps.parquet --rank dp_rank --seconds step_ms --comm wait_ms
python run.py advise traces/                           # traces of the PyTorch profiler, one per rank
python run.py advise train.log --topology ps           # lines of Megatron-LM, torchtitan, NVIDIA's resiliency extension
python run.py advise runs/my_bsp_run runs/my_asp_run   # our own record; others of the same job: what barriers cost

It says how much time stragglers cost, which hosts or ranks they are and since when, fits a cost model and a plan of
disturbances, repeats the job on the virtual clock under every strategy that fits its topology, each in the history of
the whole log, and ranks these and what cures stragglers without a strategy: docs/advise.md. If the repeated present
strategy is not as long as the logged one (--limit), nothing is ranked. The exit code is 0, 1 if nothing could be
ranked, or 2 for invalid input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, inf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.files import write_file
from analysis.markup import to_csv, to_markdown
from analysis.reports.remedies import ASYNCHRONOUS, LEFT_OUT, REMEDIES
from runtime.errors import FAILED, ConfigError, print_error, refuse
from runtime.house import NAME
from runtime.run.probing import refuse_unwritable_folder
from stragglab.grids.forks import processors

if TYPE_CHECKING:
    from rich.console import Console

    from analysis.fitting.step_times import StepModel
    from analysis.logs.step_log import StepLog
    from analysis.measures.straggling import Straggling
    from analysis.reports.advice import Advice
    from stragglab.grids.advice import Replay

KEPT = "the log is as it was; the same command starts again"
"""What a signal leaves."""

BATCH = 32
"""Samples per rank and step where the log does not say: how finely batches can be divided."""
RESTART_S = 120.0
"""Seconds until a restarted node computes, where nothing is known (AntDT: two minutes)."""
LIVE_RESTART_S = 0.05
"""The same of the processes of a live run of ours (runtime/fitted/costs/local_tcp.yaml)."""
RANK_STEPS = 2_000_000
"""All repeated jobs together have about so many iterations of ranks, so that two processors need a minute."""
FEWEST_REPEATED = 100
"""No repeated job has fewer steps, however many ranks, unless the log has."""
SAID_BYTES = 1 << 22
"""Reading a larger file takes so long that it is said."""
FEWEST_STEPS = 20
GIVEN_UP = 4.0
"""A job is given up when it has taken so many times the logged time."""
CHECKING = "repeating the job as it was"
NO_RANKS = "without times of single ranks nothing can be ranked"
OURS = ("advice.html", "costs.yaml", "plan.csv", "steps.*", "ranks.*", "ranking.*")
"""All that it writes."""
WORDS = frozenset({"rank", "host", "strategy", "straggler", "part", "verdict"})


class Job(NamedTuple):
    """A logged job, understood: what it did, what that cost, and how to repeat it."""

    log: StepLog
    present: str
    found: Straggling
    model: StepModel
    replay: Replay


def main(argv: Sequence[str] | None = None) -> int:
    """Advise on what is named; returns the exit code (see the module)."""
    try:
        asked = parse(argv)
    except ConfigError as error:
        return print_error("advise", error)
    return answer(asked)


def answer(asked: argparse.Namespace) -> int:
    """Advise on what is asked; returns the exit code."""
    from rich.console import Console

    from analysis.logs.step_log import LogError
    from analysis.reports.advice import whole_steps
    from analysis.reports.few_steps import compared_ranks

    for path in asked.logs:
        if path.is_file() and path.stat().st_size > SAID_BYTES:
            print(f"reading {path} ...", file=sys.stderr, flush=True)
    try:
        log, *others = [read(path, asked) for path in asked.logs]
        console = Console(highlight=False)
        if not log.per_rank:
            return _not_ranked(console, [*log.remarks, *_left_out(log, asked), *whole_steps(log), NO_RANKS])
        if len(log.steps) < FEWEST_STEPS:
            return _not_ranked(console, [*log.remarks, *compared_ranks(log, asked.slow_frac, _needed(asked))])
        advice = advise(understood(log, others, asked), asked, console)
        _write(advice, asked.out, asked.limit)
    except (ConfigError, LogError) as error:
        return print_error("advise", error)
    for remark in (*log.remarks, *advice.remarks):
        print(remark, file=sys.stderr)
    print(asked.out / "advice.html", file=sys.stderr)
    return 0 if advice.ranking else FAILED


def understood(log: StepLog, others: Sequence[StepLog], asked: argparse.Namespace) -> Job:
    """Diagnose the log of a job, and fit to it what repeats it."""
    from analysis.fitting.step_times import fit_steps
    from analysis.measures.straggling import straggling

    present = asked.strategy or log.job.get("strategy") or "bsp"
    _known("strategy", present)
    barrier = present not in ASYNCHRONOUS
    found = straggling(log, barrier=barrier, slow_frac=asked.slow_frac, ranks_per_host=asked.ranks_per_host)
    model = fit_steps(log, found.found, barrier=barrier, others=others, round_s=asked.round_s, late=found.late)
    return Job(log, present, found, model, replay_of(log, model, asked))


def prepared(job: Job, names: Sequence[str], out: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """(configurations of the present strategy and others, why some are not possible); writes cost model and plan."""
    from stragglab.grids.advice import configurations, cost_file

    costs = write_file(out / "costs.yaml", cost_file(job.replay, f"Fitted to {job.log.source} by run.py advise."))
    write_file(out / "plan.csv", _plan_table(job.replay))
    configs, refused = configurations(job.replay, list(dict.fromkeys([job.present, *names])), costs)
    if job.present not in configs:
        raise ConfigError(f"--strategy {job.present}: {refused[job.present]}")
    return configs, refused


def advise(job: Job, asked: argparse.Namespace, console: Console) -> Advice:
    """Repeat the job under every strategy and rank; prints what it finds."""
    from analysis.measures.ranking import by_time, ranked
    from analysis.measures.slow_units import hosts_of
    from analysis.reports.advice import Advice, best_lines, check_sentence, in_numbers, sentences, worst_ranks
    from analysis.reports.cures import cures
    from stragglab.grids.advice import configured, repeat_all
    from stragglab.terminal.sheets import print_sheet

    log, present, found, model, replay = job
    made = cures(found, replay.restart_s)
    advice = Advice(log=log, present=present, found=found, model=model, baseline_error=nan, cures=made)
    advice = replace(advice, restart_s=replay.restart_s)
    for line in sentences(advice):
        console.print(line, markup=False, soft_wrap=True)
    print_sheet(console, worst_ranks(advice), "Ranks that cost most", WORDS)
    names = asked.strategies.split(",") if asked.strategies else list(REMEDIES)
    configs, refused = prepared(job, names, asked.out)
    short, remark = shortened(job, len(configs))
    configs = {name: configured(short, name, config, asked.out / "costs.yaml") for name, config in configs.items()}
    jobs = repeat_all(short, {present: configs.pop(present)}, asked.seed, 1, CHECKING)
    logged = float(short.model.rank_steps.sum()) * short.batch
    error = logged / max(float(jobs[present].applied), 1.0) - 1.0
    if asked.ranks_per_host and hosts_of(log.ranks, log.hosts, None):
        remark.append(f"--ranks-per-host {asked.ranks_per_host}: is not used, since the log names its hosts")
    advice = replace(advice, baseline_error=error, remarks=[*remark, *not_possible(refused)])
    console.print(check_sentence(advice, asked.limit), markup=False, soft_wrap=True)
    if abs(error) > asked.limit:
        return advice
    jobs |= repeat_all(short, configs, asked.seed, asked.jobs)
    strategies = ranked(jobs, present, found.actual_s, float(found.late.pause_s.sum()))
    advice = replace(advice, ranking=by_time([*(one.row for one in made), *strategies]))
    title = "Predicted job completion times (JCT) of the logged steps; intervals of 95 %"
    print_sheet(console, in_numbers(advice), title, WORDS)
    for line in best_lines(advice):
        console.print(line, markup=False, soft_wrap=True)
    return advice


def shortened(job: Job, strategies: int) -> tuple[Replay, list[str]]:
    """(the job that lasts as long as the logged history, or a part of it that stands for all; what is said of that)."""
    import numpy as np

    from analysis.fitting.step_times import part_of
    from analysis.fitting.thinning import thinned
    from analysis.measures.straggling import block_of
    from stragglab.grids.advice import lasting

    model, ranks = job.model, job.replay.workers
    steps = max(FEWEST_REPEATED, RANK_STEPS // (max(1, strategies) * ranks))
    one_in = -(-model.steps // steps)
    found, late = job.found.found, job.found.late
    excess_s = np.where(found.slow, found.excess * found.base_s, 0.0)
    cost_s = np.column_stack([late.length_s - late.pause_s, excess_s])
    pieces = thinned(cost_s, one_in, block_of(found.slow))
    part = lasting(replace(job.replay, model=part_of(model, pieces)))
    if one_in == 1:
        return part, []
    remark = (
        f"repeated are {part.model.steps} of the {model.steps} steps: of every {one_in} one, in blocks all over the "
        "log, chosen so that each rank's excess and the time of all steps keep their proportion"
    )
    return part, [remark]


def not_possible(refused: Mapping[str, str]) -> list[str]:
    """A line for each reason, with all strategies that it is one for (``refused``: the reason by strategy)."""
    by_reason: dict[str, list[str]] = {}
    for name, why in refused.items():
        by_reason.setdefault(why.replace(f"strategy={name}", "strategy=..."), []).append(name)
    said = {refused[names[0]] if len(names) == 1 else why: names for why, names in by_reason.items()}
    return [f"not possible: {', '.join(names)}: {why}" for why, names in said.items()]


def replay_of(log: StepLog, model: StepModel, asked: argparse.Namespace) -> Replay:
    """The job to repeat: the record's own, or as many steps as the log has."""
    from stragglab.grids.advice import USUAL_S, Replay

    job = log.job
    topology = asked.topology or job.get("topology") or "allreduce"
    batch = asked.batch or max(1, round(job.get("global_batch_samples", BATCH * log.num_ranks) / log.num_ranks))
    own = "num_samples" in job and not asked.batch
    epochs = int(job["epochs"]) if own else asked.epochs
    num_samples = int(job["num_samples"]) if own else max(1, model.steps // epochs) * batch * log.num_ranks
    known = job.get("own_clock", False)
    restart_s = asked.restart_s if asked.restart_s is not None else LIVE_RESTART_S if known else RESTART_S
    length_s = job.get("jct_s", model.length_s) if own else model.length_s
    return Replay(
        model=model,
        topology=topology,
        num_servers=asked.servers or job.get("num_servers") or 1,
        batch=batch,
        num_samples=num_samples,
        epochs=epochs,
        epoch_overlap=bool(job.get("epoch_overlap", True)),
        base_frac=asked.base_frac if asked.base_frac is not None else float(job.get("base_frac", 0.0)),
        restart_s=restart_s,
        kind=asked.kind,
        scale=1.0 if known else USUAL_S / model.usual_s,
        horizon_s=GIVEN_UP * length_s,
    )


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
    log = read_log(path, Reading(columns, asked.unit, asked.timer, asked.tokens))
    left, few = len(log.steps) - asked.skip, not log.per_rank or len(log.steps) <= FEWEST_STEPS
    if left < 1 or (left < FEWEST_STEPS and not few):
        cure = f"; --skip {max(0, len(log.steps) - (1 if few else FEWEST_STEPS))} leaves enough"
        raise LogError(f"{path}: has {len(log.steps)} steps; {_needed(asked)}{cure}")
    return without_first(log, asked.skip)


def _needed(asked: argparse.Namespace) -> str:
    return f"{FEWEST_STEPS} and the first {asked.skip} (--skip) are needed"


def _left_out(log: StepLog, asked: argparse.Namespace) -> list[str]:
    return [f"{len(log.steps) + asked.skip} steps without the first {asked.skip} (--skip):"] if asked.skip else []


def _known(flag: str, name: str) -> None:
    if name not in REMEDIES:
        raise ConfigError(
            f"--{flag} {name}: {LEFT_OUT.get(name, 'no such strategy')}; choose from {', '.join(REMEDIES)}"
        )


def _not_ranked(console: Console, lines: Sequence[str]) -> int:
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    return FAILED


def _plan_table(replay: Replay) -> str:
    """The logged history as a trace file (docs/stragglers.md), in the virtual job's seconds."""
    import pandas as pd

    from stragglab.grids.advice import plan_of

    rows = [
        {
            "time": one.start_s,
            "duration": one.end_s - one.start_s,
            "target": one.target,
            "kind": one.kind,
            "magnitude": one.magnitude,
        }
        for one in plan_of(replay).disturbances
    ]
    frame = pd.DataFrame(rows, columns=["time", "duration", "target", "kind", "magnitude"])
    return str(frame.round(6).to_csv(index=False))


def _write(advice: Advice, out: Path, limit: float) -> None:
    from analysis.figures.step_times import draw_step_times
    from analysis.records.provenance import version_text
    from analysis.reports.advice import page, ranking_sheet, ranks_sheet
    from runtime.record.meta import describe_versions

    figure = draw_step_times(out / "steps.png", advice.log, advice.found.found)
    for name, sheet in (("ranks", ranks_sheet(advice)), ("ranking", ranking_sheet(advice))):
        if sheet.rows:
            write_file(out / f"{name}.csv", to_csv(*sheet))
            write_file(out / f"{name}.md", to_markdown(*sheet))
    write_file(out / "advice.html", page(advice, limit, figure, version_text(describe_versions())))


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse and fill in defaults; raises a one-line :class:`ConfigError` for invalid input."""
    asked = _parser().parse_args(words)
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
        "skip": (asked.skip, -1, inf),
        "seed": (asked.seed, -1, inf),
        "base-frac": (asked.base_frac, -1e-12, 1.0),
        "round-s": (asked.round_s, -1e-12, inf),
        "restart-s": (asked.restart_s, -1e-12, inf),
    }
    for name, (value, above, below) in bounds.items():
        if value is not None and not above < value < below:
            limit = f"more than {ceil(above):g}" if below == inf else f"from {max(0.0, above):g} to less than {below:g}"
            raise ConfigError(f"--{name} {value:g}: must be {limit}")
    for name in asked.strategies.split(",") if asked.strategies else []:
        _known("strategies", name)
    asked.out = asked.out or Path("out") / "advice" / asked.logs[0].resolve().name.split(".")[0]
    refuse_unwritable_folder("-o", asked.out, OURS, ("advice.html", "costs.yaml"))
    return asked


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
    add("--strategy", metavar="NAME", help="what the job does now (default: the record's, or bsp)")
    add(
        "--topology", choices=["ps", "allreduce"], help="where its parameters are (default: the record's, or allreduce)"
    )
    add("--strategies", metavar="A,B", help="strategies to try (default: all that can be)")
    add("--servers", metavar="N", type=int, help="parameter servers (default: the record's, or 1)")
    add("--batch", metavar="N", type=int, help=f"samples per rank and step (default: the log's, or {BATCH})")
    add("--epochs", metavar="N", type=int, default=1, help="passes over the data within the log (default: 1)")
    add(
        "--base-frac",
        metavar="F",
        type=float,
        help="part of a step that no smaller batch saves (default: the record's, or 0)",
    )
    add(
        "--kind",
        choices=["slowdown", "delay"],
        default="slowdown",
        help="a slow step's additional time grows with its batch (slowdown, the default), or does not (delay)",
    )
    add("--round-s", metavar="S", type=float, help="seconds of a round after its slowest rank (default: the log's)")
    add(
        "--restart-s", metavar="S", type=float, help=f"seconds until a restarted node computes (default: {RESTART_S:g})"
    )
    add(
        "--slow-frac",
        metavar="F",
        type=float,
        default=0.1,
        help="a slow step takes so much longer, at least (default: 0.1)",
    )
    add("--skip", metavar="N", type=int, default=1, help="first steps to leave out (default: 1)")
    add(
        "--limit",
        metavar="F",
        type=float,
        default=0.1,
        help="error of the repeated present strategy that is allowed (0.1)",
    )
    add("--seed", metavar="N", type=int, default=0, help="of the jitter of repeated jobs (default: 0)")
    add("--ranks-per-host", metavar="N", type=int, help="ranks of every host, of a log that does not name hosts")
    add(
        "--jobs",
        metavar="N",
        type=int,
        default=processors(),
        help="virtual jobs at a time (default: one per processor)",
    )
    table = parser.add_argument_group("tables: names of columns")
    for name, default, words in (
        ("rank", "rank", "the rank, a number or a name"),
        ("step", "step", "the step's number"),
        ("seconds", "seconds", "the time of that step at that rank"),
        ("compute", None, "the part of it that the rank worked itself"),
        ("comm", None, "the part that it communicated or waited"),
        ("data", None, "the part in which it loaded data"),
        ("start", None, "when the step began"),
        ("host", None, "the rank's machine"),
        ("samples", None, "samples of that step at that rank"),
    ):
        table.add_argument(f"--{name}", metavar="COLUMN", default=default, help=words)
    table.add_argument(
        "--unit", metavar="S", type=float, help="seconds per unit of times (default: by the names of columns, time_ms)"
    )
    lines = parser.add_argument_group("printed logs")
    lines.add_argument(
        "--timer", metavar="NAME", help="Megatron-LM: timer of a rank's own work (default: forward-backward)"
    )
    lines.add_argument("--tokens", metavar="N", type=float, help="torchtitan: tokens of a rank's step")
    parser.error = refuse  # type: ignore[method-assign]
    return parser
