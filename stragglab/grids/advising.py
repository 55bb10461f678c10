"""From the log of a job to what would help it: what it costs, and how long it takes under other strategies."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.files import write_file
from analysis.reports.remedies import ASYNCHRONOUS, LEFT_OUT, REMEDIES
from runtime.config.checking import nearest
from runtime.errors import FAILED, ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from analysis.fitting.step_times import StepModel
    from analysis.logs.step_log import StepLog
    from analysis.measures.straggling import Straggling
    from analysis.reports.advice import Advice
    from stragglab.grids.advice import Replay


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
GIVEN_UP = 4.0
"""A job is given up when it has taken so many times the logged time."""
CHECKING = "repeating the job as it was"
NO_RANKS = "without times of single ranks nothing can be ranked"
NEEDS_PS = "choose topology=ps, or another strategy (docs/topologies.md lists them)"
"""The cure for a strategy that does not work on all-reduce, as a job's settings have it."""
PS = "--topology ps, if the job has parameter servers, tries them"
"""The same as an argument of ``advise``."""
WORDS = frozenset({"rank", "host", "strategy", "straggler", "part", "verdict", "cure", "from"})


class Job(NamedTuple):
    """A logged job, understood: its steps, the cost of its stragglers, and how to repeat it."""

    log: StepLog
    present: str
    found: Straggling
    model: StepModel
    replay: Replay


def diagnose(log: StepLog, others: Sequence[StepLog], asked: argparse.Namespace) -> Job:
    """Diagnose the log of a job, and fit a job that repeats it."""
    from analysis.fitting.step_times import fit_steps
    from analysis.measures.straggling import straggling

    present = asked.strategy or log.job.get("strategy") or "bsp"
    refuse_unknown("strategy", present)
    barrier = present not in ASYNCHRONOUS
    found = straggling(log, barrier=barrier, slow_frac=asked.slow_frac, ranks_per_host=asked.ranks_per_host)
    model = fit_steps(log, found.found, barrier=barrier, others=others, round_s=asked.round_s, late=found.late)
    return Job(log, present, found, model, replay_of(log, model, asked))


def prepare(job: Job, names: Sequence[str], out: Path) -> tuple[dict[str, Any], dict[str, str]]:
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
    from analysis.measures.ranking import by_time, rank_strategies
    from analysis.measures.slow_units import hosts_of
    from analysis.reports.advice import (
        Advice,
        best_lines,
        check_sentence,
        in_numbers,
        price_lines,
        sentences,
        worst_ranks,
    )
    from analysis.reports.cures import cures, price_sheet
    from stragglab.grids.advice import configure, repeat_all
    from stragglab.terminal.sheets import print_sheet

    log, present, found, model, replay = job
    made = cures(log, found, replay.restart_s)
    advice = Advice(log=log, present=present, found=found, model=model, baseline_error=nan, cures=made)
    advice = replace(advice, restart_s=replay.restart_s, restart_from=_restart_from(log, asked))
    for line in sentences(advice):
        console.print(line, markup=False, soft_wrap=True)
    print_sheet(console, worst_ranks(advice), "Ranks that cost most", WORDS)
    if made:
        print_sheet(
            console, price_sheet(made), "Prices of cures that are not strategies, while their causes last", WORDS
        )
    for line in price_lines(advice):
        console.print(line, markup=False, soft_wrap=True)
    names = asked.strategies.split(",") if asked.strategies else list(REMEDIES)
    configs, refused = prepare(job, names, asked.out)
    short, remark = shorten(job, len(configs))
    configs = {name: configure(short, name, config, asked.out / "costs.yaml") for name, config in configs.items()}
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
    strategies = rank_strategies(jobs, present, found.actual_s, float(found.late.pause_s.sum()))
    advice = replace(advice, ranking=by_time([*(one.row for one in made), *strategies]))
    title = "Predicted job completion times (JCT) of the logged steps; intervals of 95 %"
    print_sheet(console, in_numbers(advice), title, WORDS)
    for line in best_lines(advice):
        console.print(line, markup=False, soft_wrap=True)
    return advice


def shorten(job: Job, strategies: int) -> tuple[Replay, list[str]]:
    """(the job that lasts as long as the logged history, or a representative part of it; remarks about this)."""
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
        plural = why.replace(f"strategy={name} does", "these strategies do")
        by_reason.setdefault(plural.replace(f"strategy={name}", "strategy=..."), []).append(name)
    said = {refused[names[0]] if len(names) == 1 else why: names for why, names in by_reason.items()}
    lines = (f"not possible: {', '.join(names)}: {why}" for why, names in said.items())
    return [line.replace(NEEDS_PS, PS) for line in lines]


def replay_of(log: StepLog, model: StepModel, asked: argparse.Namespace) -> Replay:
    """The job to repeat: the record's own, or as many steps as the log has."""
    from analysis.logs.step_log import RESTARTED
    from stragglab.grids.advice import USUAL_S, Replay

    job = log.job
    topology = asked.topology or job.get("topology") or "allreduce"
    batch = asked.batch or max(1, round(job.get("global_batch_samples", BATCH * log.num_ranks) / log.num_ranks))
    own = "num_samples" in job and not asked.batch
    epochs = int(job["epochs"]) if own else asked.epochs
    num_samples = int(job["num_samples"]) if own else max(1, model.steps // epochs) * batch * log.num_ranks
    known = job.get("own_clock", False)
    restart_s = asked.restart_s
    if restart_s is None:
        restart_s = float(job.get(RESTARTED, LIVE_RESTART_S if known else RESTART_S))
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


def _restart_from(log: StepLog, asked: argparse.Namespace) -> str:
    """How the seconds of a restart are known."""
    from analysis.logs.step_log import RESTARTED

    if asked.restart_s is not None:
        return "--restart-s"
    return "as in the log" if RESTARTED in log.job else "assumed; --restart-s says what is right"


def not_ranked(console: Console, lines: Sequence[str]) -> int:
    """Say why; returns the exit code."""
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


def refuse_unknown(flag: str, name: str) -> None:
    """Raise :class:`ConfigError` for a strategy that is not there."""
    if name in REMEDIES:
        return
    near = None if name in LEFT_OUT else nearest(name, REMEDIES)
    cure = f"did you mean {near}?" if near else f"choose from {', '.join(REMEDIES)}"
    raise ConfigError(f"--{flag} {name}: {LEFT_OUT.get(name, 'no such strategy')}; {cure}")
