r"""The needs of finished jobs, so that the next one of their kind begins with them (``strategy=dlrover``, hot start).

python -m scripts.fitting.job_history runs -o my_conf
python run.py --config-dir my_conf strategy=dlrover_hot workload=...

Reads every finished record below the given directories in which the use of nodes was sampled (events ``Observed``), and
writes ``my_conf/strategy/dlrover_hot.yaml``: the settings of ``dlrover`` with these jobs as its ``history``, the oldest
first. A job counts for the workload and data set of the newest record. Of each job it takes the peak of the cores that
all servers used together, the cores that a worker used at the end, the number of workers at the end, and the peaks of
memory; where memory was not sampled, 8 GB. The exit code is 0, or 2 for invalid input.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec
import yaml

from analysis.files import write_file
from analysis.records.load import RecordError, Run, find_runs, load_run
from runtime.core.cluster.brain.administrator import JobUse
from runtime.errors import ConfigError, print_error, refuse
from runtime.run.probing import refuse_unwritable_folder
from runtime.run.streams import run_program
from strategies.protocol import FinishedJob, Observed

NAME = "strategy/dlrover_hot.yaml"
HEAD = "# The settings of dlrover, begun from finished jobs. Written by scripts/fitting/job_history.py.\n"


def finished_job(run: Run) -> FinishedJob | None:
    """Return a job's needs; None if it did not end by itself, or nothing was sampled."""
    use = JobUse(float(run.job["strategy_fields"].get("unit_cores", 1.0)))
    for line in run.notable_lines:
        if isinstance(line.event, Observed):
            use.observe(line.event.nodes)
    return use.finished(str(run.job["workload"]), dataset_of(run)) if run.status == "done" else None


def dataset_of(run: Run) -> str:
    """The name of the data: the class that makes them."""
    return str(run.job.get("task_fields", {}).get("_target_", "")).rpartition(".")[2]


def read_jobs(folders: Sequence[Path]) -> list[FinishedJob]:
    """All jobs below the folders, the oldest first; raises :class:`ConfigError` if there is none."""
    runs = []
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"{folder}: no such directory")
        try:
            runs += [load_run(path) for path in find_runs(folder)]
        except RecordError as error:
            raise ConfigError(str(error)) from None
    runs.sort(key=lambda run: str(run.meta.get("started_at")))
    jobs = [job for run in runs if (job := finished_job(run)) is not None]
    if not jobs:
        names = ", ".join(map(str, folders))
        raise ConfigError(
            f"{names}: no finished record in which the use of nodes was sampled; run with runtime.telemetry_every_s=1"
        )
    return jobs


def settings(jobs: Sequence[FinishedJob]) -> str:
    """The configuration of a strategy that begins from these jobs."""
    newest = jobs[-1]
    body = {
        "defaults": ["dlrover", "_self_"],
        "history": [msgspec.to_builtins(job) for job in jobs],
        "history_of": [newest.workload, newest.dataset],
    }
    return HEAD + str(yaml.safe_dump(body, sort_keys=False))


def main(arguments: Sequence[str] | None = None) -> int:
    """Read, write, and say what was found; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", metavar="DIR", nargs="+", type=Path, help="a run, or a directory that contains runs")
    parser.add_argument("-o", "--out", metavar="DIR", type=Path, required=True, help="for --config-dir of run.py")
    parser.error = refuse  # type: ignore[method-assign]
    try:
        options = parser.parse_args(arguments)
        refuse_unwritable_folder("--out", options.out, (Path(NAME).parts[0],))
        refuse_unwritable_folder("--out", (options.out / NAME).parent, (Path(NAME).name,))
        jobs = read_jobs(options.folders)
    except ConfigError as error:
        return print_error("job_history.py", error)
    write_file(options.out / NAME, settings(jobs))
    for job in jobs:
        print(
            f"{job.workload}: {job.workers} workers of {job.worker_cores_used:.1f} cores, "
            f"servers {job.server_cores_used:.1f} cores in all"
        )
    print(f"{options.out / NAME}: python run.py --config-dir {options.out} strategy=dlrover_hot")
    return 0


if __name__ == "__main__":
    run_program("job_history.py", main)
