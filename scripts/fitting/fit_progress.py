r"""Fit a progress model to runs with gradients, for runs without gradients (backend=none).

It needs undisturbed BSP runs of one job with two or more global batch sizes and the same learning rate, trained long
enough to reach the target and evaluated often:

python run.py -m straggler=none cluster.device=null eval_every_s=0.01 draw=false \
    workload.epochs=64 workload.global_batch_samples=32,64,128,256 hydra.sweep.dir=runs/progress
python -m scripts.fitting.fit_progress runs/progress                           # only the table
python -m scripts.fitting.fit_progress runs/progress -o runtime/fitted/progress/digits_mlp.yaml   # also the file
python -m scripts.fitting.fit_progress runs/one_batch --phi 13                 # given phi, fit only the curve
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import pandas as pd
import yaml
from rich import box
from rich.console import Console
from rich.table import Table

from analysis.files import write_file
from analysis.fitting.progress import Fit, TrainingTrace, errors, fit, held_out, read_trace
from analysis.records.load import RecordError, find_runs, load_run
from runtime.config.parse import refuse_impossible_target
from runtime.errors import ConfigError, print_error, refuse
from runtime.run.probing import refuse_unwritable_file
from runtime.run.streams import run_program
from runtime.training.progress import SCHEMA, parse_progress

MAX_PHI_SAMPLES = 1e12
"""More than any data set has; beyond it, sums of progress lose all precision."""
DIGITS = 6
"""Significant digits in the file; the fit itself is accurate to two or three."""


def main(argv: list[str] | None = None) -> int:
    """Return the exit code: 0, or 2 for invalid input."""
    try:
        arguments = _parser().parse_args(argv)
        _check(arguments)
        traces = _read(arguments.folders)
        refuse_impossible_target(traces[0].kind["metric"], arguments.target, "--target")
        target = arguments.target if arguments.target is not None else traces[0].target
        model = fit(traces, arguments.phi)
        tested = held_out(traces, model, math.nan if target is None else target, arguments.phi)
        _show(model, tested, traces[0], target, given=arguments.phi is not None)
        if arguments.output is not None:
            text = file_text(traces, model, tested)
            parse_progress(text.encode(), arguments.output.name)
            print(write_file(arguments.output, text))
    except (RecordError, ConfigError, OSError) as error:
        return print_error("fit_progress.py", error)
    return 0


def file_text(traces: list[TrainingTrace], model: Fit, tested: pd.DataFrame) -> str:
    """The model in the format that ``runtime/training/progress.py`` reads."""
    batches, lrs = [trace.batch_samples for trace in traces], [trace.lr for trace in traces]
    kind = traces[0].kind
    content = {
        "schema": SCHEMA,
        "workload": kind["workload"],
        "metric": kind["metric"],
        "lr": model.lr,
        "phi_samples": _round(model.phi_samples),
        "errors": {name: _round(value) for name, value in errors(tested).items()},
        "covered": {"batch_samples": [min(batches), max(batches)], "lr": [min(lrs), max(lrs)]},
        "points": [[_round(progress), _round(value)] for progress, value in model.points.tolist()],
        "runs": [trace.name for trace in traces],
    }
    head = (
        f"# Fitted by scripts/fitting/fit_progress.py to {len(traces)} runs; "
        "runtime/training/progress.py says what it means.\n"
        f"# task: {kind['task']}\n# optimizer: {kind['optimizer']}\n"
    )
    body: str = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=120)
    return head + body


def _read(folders: list[Path]) -> list[TrainingTrace]:
    paths = list(dict.fromkeys(path for folder in folders for path in find_runs(folder)))
    if not paths:
        names = ", ".join(str(folder) for folder in folders)
        raise RecordError(f"{names}: no run here (a directory with meta.json and events.jsonl)")
    return [read_trace(load_run(path)) for path in paths]


def _check(arguments: argparse.Namespace) -> None:
    """Check the arguments before the work, not after it."""
    output, phi, target = arguments.output, arguments.phi, arguments.target
    if phi is not None and not 0 <= phi <= MAX_PHI_SAMPLES:
        raise ConfigError(f"--phi={phi:g}: must be a number of samples between 0 and {MAX_PHI_SAMPLES:g}")
    if target is not None and not math.isfinite(target):
        raise ConfigError(f"--target={target:g}: must be a finite number")
    refuse_unwritable_file("--output", output)
    if output is not None and output.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"--output={output}: must end in .yaml")
    if output is not None and output.exists() and not arguments.force:
        raise ConfigError(f"--output={output}: exists; give another name, or --force to replace it")


def _show(model: Fit, tested: pd.DataFrame, trace: TrainingTrace, target: float | None, *, given: bool) -> None:
    console = Console(highlight=False)
    found = errors(tested)
    doubt = f" +- {found['phi_samples']:.2g}" if "phi_samples" in found else ""
    how = "given" if given else "fitted"
    print(f"phi = {model.phi_samples:.3g}{doubt} samples at lr={model.lr:g} ({how})")
    if not math.isnan(model.spread_frac):
        print(f"progress to the same {trace.kind['metric']} differs by {model.spread_frac:.0%} between runs")
    if target is None:
        print("the runs have no target to test it at; give --target")
        return
    title = f"updates to {trace.kind['metric']} = {target:g}"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", title_style="")
    for name in ("batch", "lr", "runs", "updates", "fitted", "predicted *", "error", "phi *"):
        table.add_column(name, justify="right")
    for row in tested.itertuples():
        error = row.predicted / row.updates - 1
        counts = (_text(value, ".0f") for value in (row.updates, row.fitted, row.predicted))
        table.add_row(
            f"{row.batch_samples}",
            f"{row.lr:g}",
            f"{row.runs}",
            *counts,
            _text(error, "+.0%"),
            _text(row.phi_samples, ".3g"),
        )
    console.print(table)
    print("* by a fit to the other rows only")


def _text(value: float, spec: str) -> str:
    return "\N{EN DASH}" if math.isnan(value) else format(value, spec)


def _round(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", metavar="DIR", nargs="+", type=Path, help="a run, or a directory that contains runs")
    parser.add_argument("--phi", type=float, metavar="SAMPLES", help="noise scale, at the runs' lr; default: fitted")
    parser.add_argument("--target", type=float, help="value of the metric to test the fit at (default: the runs' own)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the model there, as YAML")
    parser.add_argument("--force", action="store_true", help="replace the file")
    parser.error = refuse  # type: ignore[method-assign]
    return parser


if __name__ == "__main__":
    run_program("fit_progress.py", main)
