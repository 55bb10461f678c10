r"""Score straggler predictors on recorded runs: which ones predicted, before each iteration, the slow workers?

python run.py predictors runs/2024-11-21_08-00-00_bsp_transient_seed0
python run.py predictors runs/a_sweep --labels plan --predictors ema,narx,nvrx,oracle
python run.py predictors runs/a_sweep --predictors nvrx,nvrx:threshold=0.8,nvrx:scores=relative:window_iters=5
python run.py predictors runs/a_sweep --predictors ema,my_lab.predictor.Mine:factor=2 project=my_lab
python run.py predictors --hidden 3 strategy=bsp straggler=transient --labels plan   # three new live jobs

Every predictor receives the record's events in order and is asked, whenever a worker begins an iteration, whether that
iteration will straggle; it knows only iterations that had ended by then. Its tags are compared with the truth:

  realised   the iteration took over --tolerance-frac longer than the fastest one of the other workers at that time
  plan       a disturbance of the run's plan covered it, whether or not that made it long
  faults     as plan, but disturbances that all workers have by turns are no fault of a worker

FP is the share of non-straggling iterations that were tagged, FN the share of straggling ones that were not, by
(worker, iteration), pooled over the workers of a job; with several jobs, medians over jobs. "Any" asks only whether any
worker straggled in an iteration: a different question, not to be mixed with the first. Lead time is the start of an
episode of straggling minus the first tag of the alarm that covers it: negative is late.

With --hidden N, settings of a job take the place of records: N jobs are run, each with a seed that is drawn then. Their
records, which name the seeds, appear in OUT/records when all predictors have answered, so nobody can have fitted
anything to them.

The command writes predictors.png with the numbers of its rates as CSV next to it, predictors_all.csv (every job, worker
and level), and lead_times.csv (every episode). docs/predictors.md describes the predictors. The exit code is 0, or 2
for invalid input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from pathlib import Path
from secrets import randbelow
from shutil import copytree
from tempfile import TemporaryDirectory

import pandas as pd
from rich.console import Console

from analysis.figures.prediction import draw_prediction
from analysis.files import write_file
from analysis.measures.prediction import lead_summary, lead_times, scores
from analysis.measures.prediction_labels import LABELS, windows
from analysis.measures.work import STRAGGLER_FRAC
from analysis.records.load import RecordError, Run, find_runs
from analysis.reports.sheets import DASH, Sheet, number
from predictors.registry import STRAGGLER_PREDICTORS
from runtime.config.project import adopt
from runtime.errors import ConfigError, print_error, refuse
from runtime.house import NAME
from runtime.record.progress import counted
from runtime.run.probing import refuse_unwritable_folder
from stragglab.running import RunFailed
from stragglab.running import run as run_job
from stragglab.tables.predictor_scores import (
    ORACLE,
    check_tolerance,
    parse,
    records_receptions,
    tag_rows,
    without_resources,
)
from stragglab.terminal.finding import readable
from stragglab.terminal.lists import number_of
from stragglab.terminal.sheets import print_titled

RECORDS = "records"
"""The folder of records with hidden seeds, within the output's folder."""
OURS = ("predictors*.*", "lead_times.csv", RECORDS)
SEEDS = 2**31
"""Seeds are drawn below this."""
KEPT = "the records are as they were; the same command starts again"
"""Printed after a signal."""

HEADS = (
    *("predictor", "precision (%)", "recall (%)", "FP (%)", "FN (%)", "any: FP (%)", "any: FN (%)"),
    *("episodes", "missed", "late", "lead time (s), median [quartiles]"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Score and report; returns the exit code (see the module)."""
    console = Console(highlight=False, markup=False)
    try:
        arguments = _parser().parse_args(adopt(sys.argv[1:] if argv is None else argv))
        refuse_unwritable_folder("--out", arguments.out, OURS, ("predictors_all.csv",))
        if arguments.hidden is not None:
            arguments.hidden = number_of("hidden", arguments.hidden, least=1)
        tolerance_frac = check_tolerance(arguments.tolerance_frac)
        asked = parse(arguments.predictors, tolerance_frac)
        with TemporaryDirectory(prefix="hidden-") as hidden:
            if arguments.hidden:
                new = (Path(hidden) / f"{place}" for place in range(arguments.hidden))
                paths = [_run_hidden(arguments.folders, path) for path in new]
            else:
                paths = _paths(map(Path, arguments.folders))
            runs = readable(counted(paths, len(paths), "reading records"))
            if arguments.predictors is None and not all(len(windows(run)) for run in runs):
                asked = [each for each in asked if each.name != ORACLE]
            if not all(records_receptions(run) for run in runs):
                asked = without_resources(asked, arguments.predictors)
            rows = pd.concat(list(tag_rows(runs, asked, arguments.labels, tolerance_frac)), ignore_index=True)
            for path, run in zip(paths, runs, strict=True) if arguments.hidden else ():
                copytree(path, _out_of(arguments) / RECORDS / f"seed{run.meta['seed']}")
        for line in report(rows, runs, arguments, tolerance_frac, console):
            console.print(line, soft_wrap=True)
    except (RecordError, ConfigError, OSError) as error:
        return print_error("predictors", error)
    return 0


# ---- what was asked -------------------------------------------------------------------------------------------------


def _run_hidden(settings: Sequence[str], into: Path) -> Path:
    """Run a job with a seed that is drawn now, and return where its record is; raises :class:`ConfigError`."""
    if strange := [word for word in settings if "=" not in word or word.startswith("seed=")]:
        raise ConfigError(f"--hidden: {strange[0]}: must be a setting of a job, and not its seed")
    try:
        return run_job(*settings, f"seed={randbelow(SEEDS)}", "draw=false", into=into).path
    except RunFailed as error:
        raise ConfigError(f"--hidden: {error}") from None


def _paths(folders: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for folder in folders:
        if not (here := find_runs(folder)):
            raise ConfigError(f"{folder}: no run here (a directory with meta.json and events.jsonl)")
        found += here
    return list(dict.fromkeys(found))


# ---- the report -----------------------------------------------------------------------------------------------------


def report(
    rows: pd.DataFrame, runs: Sequence[Run], arguments: argparse.Namespace, tolerance_frac: float, console: Console
) -> list[str]:
    """Print the table of every group; write the figure and the CSV files, and return their paths."""
    keys = ["group", "run", "seed", "predictor"]
    parts = [(dict(zip(keys, key, strict=True)), mine) for key, mine in rows.groupby(keys, sort=False)]
    scored = pd.concat([scores(mine).assign(**key) for key, mine in parts], ignore_index=True)
    leads = pd.concat([lead_times(mine).assign(**key) for key, mine in parts], ignore_index=True)
    scored, leads = (frame[[*keys, *frame.columns.difference(keys, sort=False)]] for frame in (scored, leads))
    for group, mine in rows.groupby("group", sort=False):
        found = _cells(scored[scored["group"] == group], leads[leads["group"] == group])
        print_titled(console, [Sheet(_title(str(group), mine, arguments.labels), HEADS, list(found))])
    if scored[["precision", "recall", "false_positive_rate"]].isna().any(axis=None):
        console.print(f"{DASH}: undefined, as no iteration was tagged (precision) or none straggled (FN)")
    out = _out_of(arguments)
    truth = f"labels: {arguments.labels}" + (
        f" (over {tolerance_frac:.0%} slower)" if arguments.labels == "realised" else ""
    )
    job = scored[scored["level"] == "job"].drop(columns=["level", "worker"])
    return [
        str(draw_prediction(out / "predictors.png", [run.meta for run in runs], truth, job, leads)),
        str(write_file(out / "predictors_all.csv", scored.to_csv(index=False))),
        str(write_file(out / "lead_times.csv", leads.to_csv(index=False))),
    ]


def _title(group: str, rows: pd.DataFrame, labels: str) -> str:
    one = rows[rows["predictor"] == rows["predictor"].iloc[0]]
    runs = one["run"].nunique()
    jobs = "1 job" if runs == 1 else f"{runs} jobs"
    return f"{group}: {jobs}, {len(one)} iterations, {100 * one['label'].mean():.1f} % straggled ({labels})"


def _cells(scored: pd.DataFrame, leads: pd.DataFrame) -> Iterator[list[str]]:
    """One row per predictor: medians over the jobs, lead times over all their episodes."""
    wrong = ["false_positive_rate", "false_negative_rate"]
    for name, mine in scored.groupby("predictor", sort=False):
        job = mine[mine["level"] == "job"][["precision", "recall", *wrong]].median()
        anybody = mine[mine["level"] == "any"][wrong].median()
        lead = lead_summary(leads[leads["predictor"] == name])
        low, middle, high = (lead[f"lead_{key}_s"] for key in ("q1", "median", "q3"))
        counts = [f"{lead[key]:.0f}" for key in ("episodes", "missed", "late")]
        spread = DASH if isnan(middle) else f"{middle:.2f} [{low:.2f}, {high:.2f}]"
        yield [str(name), *(number(100 * value, ".1f") for value in (*job, *anybody)), *counts, spread]


def _out_of(arguments: argparse.Namespace) -> Path:
    folders = [] if arguments.hidden else arguments.folders
    usual = Path(folders[0], "prediction") if len(folders) == 1 else Path("out", "prediction")
    return arguments.out or usual


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{NAME} predictors", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", metavar="RUN_DIR", nargs="+", help="a run, or a directory of runs")
    parser.add_argument(
        "--hidden", metavar="N", help="run N jobs with unknown seeds; give their settings instead of RUN_DIR"
    )
    parser.add_argument("--labels", choices=LABELS, default=LABELS[0], help="the truth (default: %(default)s)")
    parser.add_argument(
        "--predictors",
        metavar="NAME[:SETTING=VALUE...],...",
        help=f"some of {', '.join(STRAGGLER_PREDICTORS)}, or the path of your own class, with settings that differ "
        "from the defaults (default: all of ours; the oracle only if every run's plan disturbs a worker, star only if "
        "every record has processor times)",
    )
    parser.add_argument(
        "--tolerance-frac",
        type=float,
        default=STRAGGLER_FRAC,
        metavar="FRAC",
        help="by how much a straggler exceeds the fastest worker's time, for the truth and for predictors "
        "that have such a bound (default: %(default)s, STAR's)",
    )
    parser.add_argument(
        "--out", type=Path, help="directory of figure and CSV files (default: RUN_DIR/prediction, or out/prediction)"
    )
    parser.error = refuse  # type: ignore[method-assign]
    return parser
