"""Send records to other tools: TensorBoard, MLflow, log lines in the format of MLPerf, or a table of steps.

python run.py export runs/a_sweep --to tensorboard                       # tensorboard --logdir runs/tensorboard
python run.py export runs/a --to mlflow --where http://127.0.0.1:5000    # or sqlite:///runs/mlflow.db, the default
python run.py export runs/a --to mllog --where out
python run.py export runs/a --as steps --where out                       # Parquet and YAML, which `advise` reads

New runs are sent when they end: python run.py hydra/callbacks=tensorboard. The exit code is 0, or 2 for invalid input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.records.load import RecordError, find_runs
from analysis.sinks.errors import SinkError
from analysis.sinks.exporting import SINKS, export
from runtime.errors import ConfigError, print_error, refuse
from runtime.house import NAME
from runtime.record.progress import counted
from runtime.run.probing import refuse_unwritable_folder
from stragglab.terminal.finding import records_below

TENSORBOARD = "tensorboard"
KEPT = "the records are as they were; the same command starts again"
"""Printed after a signal."""


def main(argv: Sequence[str] | None = None) -> int:
    """Send what is named; returns the exit code (see the module)."""
    try:
        arguments = _parser().parse_args(argv)
        paths = records_below(arguments.dirs, lambda folder: find_runs(folder, of_clusters=False))
        if arguments.to == TENSORBOARD:
            for path in paths:
                folder = Path(arguments.where or SINKS[TENSORBOARD]) / path.name
                refuse_unwritable_folder("--where", folder, ("events.out.tfevents.*",))
        for path in counted(paths, len(paths), "sending runs"):
            try:
                print(export(path, arguments.to, arguments.where))
            except RecordError as error:
                if len(paths) == 1:
                    raise
                print(f"left out: {error}", file=sys.stderr)
    except (ConfigError, RecordError, SinkError, OSError) as error:
        return print_error("export", error)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{NAME} export", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dirs", metavar="DIR", type=Path, nargs="+", help="a run's directory, or one that holds runs")
    parser.add_argument("--to", "--as", choices=list(SINKS), required=True, help="the tool")
    parser.add_argument("--where", metavar="PLACE", help="a directory, or the URI of an MLflow server or store")
    parser.error = refuse  # type: ignore[method-assign]
    return parser
