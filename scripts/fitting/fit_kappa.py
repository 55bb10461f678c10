r"""Fit STAR's price of staleness (kappa) and its noise scale (phi) to a workload at a learning rate.

python -m scripts.fitting.fit_kappa digits                                     # at the workload's own learning rate
python -m scripts.fitting.fit_kappa digits digits_cnn --lr 0.03,0.2 --workers 8 --jobs 1
python -m scripts.fitting.fit_kappa digits --lr 0.2 workload.optimizer.momentum=0 --phi 300

Static x-order is run for several x without stragglers on the virtual clock, each until the workload's target. Larger
updates of staler gradients against smaller ones of fresher: both show in how many updates every x needs. The last line
of each fit can be pasted behind strategy=star_h. Both numbers hold for this workload, learning rate, optimizer, number
of workers and global batch. Records go to -o, and existing ones of the same settings are used again. The exit code is
0, 1 if a run failed, or 2 for invalid input.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from rich.console import Console

from analysis.files import write_file
from analysis.fitting.staleness import MOST_PHI, StalenessFit, fit_staleness, predicted, squared
from analysis.measures import targets
from analysis.measures.small_samples import median
from analysis.records.load import RecordError, Run
from runtime.errors import ConfigError, refuse
from runtime.run.probing import refuse_unwritable_folder
from runtime.run.streams import run_program
from stragglab.grids.answering import answer
from stragglab.grids.choices import choices
from stragglab.grids.forks import processors, run_here
from stragglab.grids.grid import GRID, QUIET, Runner, fill, stored_record
from stragglab.terminal.lists import names_of, number_of, numbers_of

OUT = Path("out/kappa")
COSTS = ("pooled", "priced")
"""Values of ``mode_cost`` in which staleness costs."""
DEFAULT = "default"
"""A learning rate: the workload's own."""


class Case(NamedTuple):
    """The inputs of one fit."""

    workload: str
    lr: str

    @property
    def name(self) -> str:
        """Part of the records' names."""
        return f"{self.workload}_lr_{self.lr}"

    @property
    def words(self) -> list[str]:
        """Settings of all its jobs."""
        own = [] if self.lr == DEFAULT else [f"workload.optimizer.lr={self.lr}"]
        return [f"workload={self.workload}", *own]


def main(argv: Sequence[str] | None = None, runner: Runner | None = None) -> int:
    """Run what is missing, fit and print; returns the exit code (see the module). ``runner``: for tests."""
    console = Console(highlight=False, markup=False)

    def work(asked: argparse.Namespace) -> None:
        for case in asked.cases:
            report(case, measure_case(case, asked, console, runner), asked, console)

    return answer("fit_kappa.py", lambda: _parse(argv), work)


def measure_case(case: Case, arguments: argparse.Namespace, console: Console, runner: Runner | None) -> pd.DataFrame:
    """One row per job (:func:`row`), from records that are made if they are missing."""
    wanted = dict(_jobs(case, arguments))
    found = {name: stored_record(name, words, arguments.out, apart="hydra.") for name, words in wanted.items()}
    forks = 0 if runner else arguments.jobs
    runs = fill(wanted, found, arguments.out, console, runner or run_here, live=False, forks=forks)
    return pd.DataFrame([row(run, arguments.mode_cost) for run in runs.values()])


def _jobs(case: Case, arguments: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    for seed in arguments.seeds:
        for x in arguments.x:
            yield (
                f"{case.name}_{arguments.workers}_x{x}_seed{seed}",
                [
                    *("runtime=virtual", "straggler=none", *case.words, f"cluster.num_workers={arguments.workers}"),
                    *(
                        "strategy=static_x",
                        f"strategy.x={x}",
                        "stop_at_target=true",
                        "target_evals=1",
                        "workload.epochs=null",
                    ),
                    *(
                        f"max_time_s={arguments.limit_s}",
                        f"eval_every_s={arguments.every_s}",
                        "checkpoint_every_s=null",
                    ),
                    *(*arguments.settings, f"seed={seed}", *QUIET),
                ],
            )


def row(run: Run, mode_cost: str) -> Mapping[str, float]:
    """Return one job's ``x``, ``seed``, ``reached``, ``tta_s``, ``updates``, ``sqr_staleness``, ``batch_samples``."""
    target = run.job.get("target")
    if target is None:
        raise RecordError(f"{run.path}: the workload has no target; give workload.target=...")
    curve = targets.scores(run.tables.evaluations, str(run.job["metric"]))
    tta_s = targets.tta_s(curve, float(target), bool(run.job["higher_is_better"]))
    updates = run.tables.updates
    updates = updates[~updates["void"] & (updates["t"] <= tta_s)]
    iterations = run.tables.iterations
    staleness = iterations.loc[iterations["fate"] == "applied", "staleness"].astype("float64")
    workers, x = int(run.job["num_workers"]), int(run.meta["job"]["strategy_fields"]["x"])
    return {
        "x": x,
        "seed": int(run.meta["seed"]),
        "reached": tta_s < float("inf"),
        "tta_s": tta_s,
        "updates": len(updates),
        "sqr_staleness": squared(staleness.to_numpy("float64"), x / workers)[mode_cost],
        "batch_samples": float(run.job["global_batch_samples"]) / workers,
    }


def report(case: Case, jobs: pd.DataFrame, arguments: argparse.Namespace, console: Console) -> None:
    """Print a table by x, the fit, and the line of settings; the jobs as a CSV file."""
    batch = float(jobs["batch_samples"].iloc[0])
    try:
        fit = fit_staleness(jobs, batch, arguments.phi)
    except ValueError as error:
        raise ConfigError(f"workload={case.workload}, lr {case.lr}: {error} (--limit-s {arguments.limit_s})") from None
    jobs = jobs.assign(fitted_updates=predicted(jobs, batch, fit.kappa, fit.phi_samples))
    path = arguments.out / f"{case.name}_{arguments.workers}.csv"
    write_file(path, jobs.to_csv(index=False))
    seeds = jobs["seed"].nunique()
    console.print(f"{case.workload}, learning rate {case.lr}, {arguments.workers} workers, {seeds} seeds")
    for x, rows in jobs.groupby("x"):
        console.print(_line(int(str(x)), rows, arguments.limit_s), soft_wrap=True)
    for line in _words(fit, arguments.mode_cost):
        console.print(line, soft_wrap=True)
    console.print(str(path), soft_wrap=True)


def _line(x: int, rows: pd.DataFrame, limit_s: float) -> str:
    """One x: its time to accuracy, and the updates that it took and that the fit expects."""
    reached = int(rows["reached"].sum())
    tta_s = median(rows["tta_s"])
    time = f"TTA {tta_s:.4g} s" if tta_s < float("inf") else f"never within {limit_s:g} s, so it is worth infinity"
    some = "" if reached == len(rows) else f" ({reached} of {len(rows)} reached it)"
    return (
        f"  x = {x}: {time}{some}, {median(rows['updates']):.0f} updates (fit {median(rows['fitted_updates']):.0f}), "
        f"squared staleness {rows['sqr_staleness'].mean():.3g}"
    )


def _words(fit: StalenessFit, mode_cost: str) -> Iterator[str]:
    least = "at least " if fit.bound else ""
    yield f"kappa {least}{fit.kappa:.3g}{_interval(fit.kappa_interval)}"
    many = (
        " (no smaller one explains it: progress is proportional to samples)" if fit.phi_samples > 0.9 * MOST_PHI else ""
    )
    yield f"phi {fit.phi_samples:.3g}{_interval(fit.phi_interval)} samples{many}"
    yield f"strategy.mode_cost={mode_cost} strategy.kappa={fit.kappa:.3g} strategy.phi={fit.phi_samples:.3g}"


def _interval(ends: tuple[float, float]) -> str:
    return "" if isnan(ends[0]) else f" [{ends[0]:.3g}, {ends[1]:.3g}]"


# ---- the command line -----------------------------------------------------------------------------------------------


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse and check; raises a one-line :class:`ConfigError`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "words", metavar="WORKLOAD|SETTING=VALUE", nargs="+", help="workloads, and settings as for run.py"
    )
    parser.add_argument("--lr", metavar="LIST", default=DEFAULT, help="learning rates (default: the workload's own)")
    parser.add_argument("--workers", metavar="N", default="4", help="number of workers (default: %(default)s)")
    parser.add_argument("--x", metavar="LIST", help="values of x (default: 1, 2, 4 ..., N - 1 and N)")
    parser.add_argument("--seeds", metavar="LIST", default="0,1,2,3,4", help="default: %(default)s")
    parser.add_argument("--mode-cost", choices=COSTS, default=COSTS[0], help="what kappa prices (default: %(default)s)")
    parser.add_argument("--phi", type=float, metavar="SAMPLES", help="noise scale, if it is known; default: fitted")
    parser.add_argument("--limit-s", type=float, default=60.0, metavar="S", help="of each job (default: %(default)g)")
    parser.add_argument(
        "--every-s", type=float, default=0.1, metavar="S", help="between evaluations (default: %(default)g)"
    )
    parser.add_argument("--jobs", metavar="N", help="runs at a time (default: one per core)")
    parser.add_argument("-o", "--out", type=Path, default=OUT, metavar="DIR", help="records (default: %(default)s)")
    parser.error = refuse  # type: ignore[method-assign]
    arguments = parser.parse_args(argv)
    arguments.settings = [word for word in arguments.words if "=" in word]
    workloads = names_of("WORKLOAD", ",".join(word for word in arguments.words if "=" not in word), choices("workload"))
    arguments.cases = [Case(workload, lr) for workload in workloads for lr in _rates(arguments.lr)]
    arguments.workers = number_of("workers", arguments.workers, 2)
    arguments.x = numbers_of("x", arguments.x, 1) if arguments.x else _sizes(arguments.workers)
    if len(arguments.x) < 2 or max(arguments.x) > arguments.workers:
        refuse(f"--x {arguments.x}: two or more values, at most the number of workers ({arguments.workers})")
    arguments.seeds = numbers_of("seeds", arguments.seeds)
    arguments.jobs = number_of("jobs", arguments.jobs, 1) if arguments.jobs else processors()
    if arguments.phi is not None and not 0 <= arguments.phi <= MOST_PHI:
        refuse(f"--phi {arguments.phi:g}: must be a number of samples between 0 and {MOST_PHI:g}")
    for flag in ("limit_s", "every_s"):
        if not 0 < getattr(arguments, flag) <= 1e6:
            refuse(
                f"--{flag.replace('_', '-')} {getattr(arguments, flag):g}: must be more than 0 and at most 1e6 seconds"
            )
    arguments.out = arguments.out.absolute()
    refuse_unwritable_folder("-o", arguments.out, (*GRID, "*_lr_*_*.csv"))
    return arguments


def _rates(text: str) -> list[str]:
    rates = [rate.strip() for rate in text.split(",") if rate.strip()]
    for rate in rates:
        try:
            known = rate == DEFAULT or float(rate) > 0
        except ValueError:
            known = False
        if not known:
            refuse(f"--lr {rate}: must be a number above 0")
    return list(dict.fromkeys(rates)) or [DEFAULT]


def _sizes(workers: int) -> list[int]:
    """Powers of two, all workers, and all but one."""
    return sorted({2**power for power in range(workers.bit_length())} | {workers - 1, workers})


if __name__ == "__main__":
    run_program("fit_kappa.py", main)
