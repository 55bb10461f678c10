"""Sends a run to a sink by its name; the script and Hydra's callback both do."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from analysis.records.load import load_run
from analysis.records.log import of_record
from analysis.sinks.errors import SinkError

SINKS = {
    "tensorboard": "runs/tensorboard",
    "mlflow": "sqlite:///runs/mlflow.db",
    "mllog": "runs/mllog",
    "steps": "runs/steps",
}
"""Name (a module here) -> where it goes by default."""


def missing(sink: str) -> str:
    """The package that the sink needs and that is not installed; empty if it has what it needs."""
    needs: str = import_module(f"{__package__}.{sink}").NEEDS
    return needs if needs and find_spec(needs) is None else ""


def export(run_dir: Path, sink: str, where: str | None = None) -> str:
    """Send the record of one job; returns where it is now.

    Raises:
        SinkError: the sink's library is not installed, or refuses.
        RecordError: the record cannot be read.
    """
    from analysis.measures.metrics import summarise

    module = import_module(f"{__package__}.{sink}")
    try:
        run = load_run(run_dir)
        with of_record(run.path):
            summarise(run)  # later problems of a sink would leave a partial export
        placed: str = module.export(run, where or SINKS[sink])
    except ModuleNotFoundError as error:
        raise SinkError(f"{sink}: {error.name} is not installed (pip install {module.NEEDS})") from None
    return placed
