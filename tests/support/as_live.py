"""Virtual runs with samples of what tasks use, as if they had been live ones: their costs are known."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from analysis.records.load import Run, load_run
from tests.support.cli import run_cli

PARAMETERS = 160_000
COSTS = {"compute_per_sample_s": 1e-4, "carry_per_byte_s": 2e-9, "carry_within_per_byte_s": 3e-10, "control_s": 1e-4}
TIMED = ("backend=none", f"backend.num_parameters={PARAMETERS}", "workload.target=null", "eval_every_s=null")


def run_as_live(directory: Path, *words: str, strategy: str = "bsp", more: dict[str, float] | None = None) -> Run:
    """A job on emulated hosts; ``more``: costs."""
    _run(directory, "workload.epochs=40", *words, strategy=strategy, more=more)
    return _taken_as_live(directory)


def set_as_live(directory: Path, *words: str, entries: str, more: dict[str, float] | None = None) -> list[Run]:
    """The jobs of a set on emulated hosts, in the order of their names."""
    jobs = ("jobs=list", f"jobs.entries=[{entries}]", "cluster.hosts.gpus=2", "replay.max_iterations=null")
    _run(directory, *jobs, *words, strategy="bsp", more=more)
    return [_taken_as_live(folder) for folder in sorted((directory / "jobs").iterdir())]


def _run(directory: Path, *words: str, strategy: str, more: dict[str, float] | None) -> None:
    (directory.parent / "costs.yaml").write_text(yaml.safe_dump({"schema": 1, "values": COSTS | (more or {})}))
    job = ("runtime=virtual", "cluster=hosts", "straggler=none", f"strategy={strategy}")
    kept = (f"cluster.costs={directory.parent}/costs.yaml", "runtime.telemetry_every_s=0.5", "checkpoint_every_s=null")
    done = run_cli(*job, "draw=false", *TIMED, *kept, *words, f"hydra.run.dir={directory}", cwd=directory.parent)
    assert done.exit_code == 0, done.err


def _taken_as_live(directory: Path) -> Run:
    meta = json.loads((directory / "meta.json").read_text())
    job = meta["job"] | {"task_fields": {}}  # only a virtual set has a task of its own without gradients
    (directory / "meta.json").write_text(json.dumps(meta | {"runtime": "live", "job": job}))
    return load_run(directory)
