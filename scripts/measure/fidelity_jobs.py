"""Run one set of jobs live and on the virtual clock, for several placements, and compare when each job is done.

python -m scripts.measure.fidelity_jobs   # pack and spread; into out/fidelity_jobs, 7 minutes
python -m scripts.measure.fidelity_jobs --costs my_machine --report docs/cluster_jobs_live.md

Four jobs share four emulated hosts with two GPUs each, as root. Live runs come first, one after another: leave the
machine idle meanwhile. The virtual ones have as many iterations and parameters as those had. Existing records are not
made again. The exit code is 0 for a report (including one with misses), 1 if a run failed, 2 for invalid input.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from analysis.files import write_file
from analysis.measures.cluster.fidelity import AtLiveSpeed, core_seconds, fidelity_of
from analysis.measures.cluster.jobs import job_times
from analysis.records.cluster import Cluster
from analysis.records.load import RecordError
from analysis.records.provenance import caption
from analysis.reports.cluster_fidelity import page
from runtime.errors import ConfigError, refuse
from runtime.house import module_name
from runtime.run.probing import refuse_unwritable_file, refuse_unwritable_folder
from runtime.run.streams import run_program
from runtime.virtual.costs import load_costs
from stragglab.grids.answering import answer
from stragglab.grids.choices import choices
from stragglab.grids.grid import GRID, QUIET, Runner, fill, quote, run_child, stored_record
from stragglab.terminal.lists import names_of

GPUS = {"a": 2, "b": 2, "c": 3, "d": 1}
ITERATIONS = {"a": 1500, "b": 1900, "c": 2300, "d": 1200}
SUBMIT_S = {"a": 0.0, "b": 0.0, "c": 1.0, "d": 2.0}
"""All GPUs are taken at once, and the jobs end far enough from each other that their order means something."""
REAL_CORES = "cluster.hosts.real_cores_per_core"
QUARTER_CORE = 0.0625
"""Real cores per core of a host: four hosts get a quarter each; with 0.4 each, coordinators and network get nothing."""
SHARED = (
    *("jobs=list", "cluster=hosts", "cluster.hosts.gpus=2", "workload=digits_cnn", "strategy=bsp", "straggler=none"),
    *("replay.max_iterations=null", "replay.models=null", "replay.use_every_s=1", "workload.optimizer.lr=0.003"),
    *("workload.target=null", "eval_every_s=null", "checkpoint_every_s=null", *QUIET),
)


def main(argv: Sequence[str] | None = None, runner: Runner = run_child) -> int:
    """Run and report; returns the exit code (see the module). ``runner``: instead of ``run.py``, for tests."""
    words = sys.argv[1:] if argv is None else list(argv)
    console = Console(highlight=False, markup=False)

    def work(asked: argparse.Namespace) -> None:
        load_costs(asked.costs)
        live = make(asked, "live", dict.fromkeys(asked.placements, ITERATIONS), console, runner)
        done = {placement: iterations_of(cluster) for placement, cluster in live.items()}
        parameters = parameters_of(next(iter(live.values())))
        virtual = make(asked, "virtual", done, console, runner, parameters)
        factors = {placement: speed(live[placement], virtual[placement]) for placement in live}
        again = make(asked, "paced", done, console, runner, parameters, factors)
        met = {placement: fidelity_of(job_times(live[placement]), job_times(virtual[placement])) for placement in live}
        paced = {
            placement: AtLiveSpeed(factor, fidelity_of(job_times(live[placement]), job_times(again[placement])))
            for placement, factor in factors.items()
        }
        metas = [cluster.meta for cluster in (*live.values(), *virtual.values())]
        command = shlex.join(["python", "-m", module_name("scripts.measure.fidelity_jobs"), *words])
        text = page(met, paced, f"Made by\n\n```\n{command}\n```", caption(metas))
        console.print(text, soft_wrap=True)
        for path in (asked.out / "fidelity_jobs.md", *([asked.report] if asked.report else [])):
            console.print(str(write_file(path, text)), soft_wrap=True)

    return answer("fidelity_jobs.py", lambda: parse(words), work)


def make(
    asked: argparse.Namespace,
    side: str,
    iterations: Mapping[str, Mapping[str, int]],
    console: Console,
    runner: Runner,
    parameters: int = 0,
    factors: Mapping[str, float] | None = None,
) -> dict[str, Cluster]:
    """The records of one side by placement; existing ones are taken as they are.

    ``parameters``: of the model; ``factors``: of the speed of virtual processors, by placement.
    """
    if side == "live":
        own = ["runtime=live", "backend=torch"]
    else:
        costs = f"cluster.costs={quote(asked.costs)}"
        own = ["runtime=virtual", "backend=none", f"backend.num_parameters={parameters}", costs]
    wanted = {}
    for placement, counts in iterations.items():
        cores = f"{REAL_CORES}={cores_of(asked.overrides) * (factors or {}).get(placement, 1.0):.6g}"
        words = [*SHARED, *own, f"placement={placement}", entries(counts), *asked.overrides, cores]
        wanted[f"{placement}_{side}"] = words
    found = {name: stored_record(name, words, asked.out) for name, words in wanted.items()}
    runs = fill(wanted, found, asked.out, console, runner, live=side == "live")
    return {name.rpartition("_")[0]: run for name, run in runs.items()}


def cores_of(overrides: Sequence[str]) -> float:
    """Return this machine's cores for each emulated core: the last setting's, else :data:`QUARTER_CORE`."""
    said = [word.partition("=")[2] for word in overrides if word.startswith(f"{REAL_CORES}=")]
    try:
        return float(said[-1]) if said else QUARTER_CORE
    except ValueError:
        raise ConfigError(f"{REAL_CORES}={said[-1]}: must be a number") from None


def entries(iterations: Mapping[str, int]) -> str:
    """The jobs as a setting of ``jobs=list``."""
    jobs = [
        f"{{job: {job}, submit_s: {SUBMIT_S[job]}, gpus: {gpus}, servers: 1, iterations: {iterations[job]}}}"
        for job, gpus in GPUS.items()
    ]
    return f"jobs.entries=[{', '.join(jobs)}]"


def iterations_of(cluster: Cluster) -> dict[str, int]:
    """Return each job's iterations: whole epochs, which the list states only roughly."""
    times = job_times(cluster).set_index("job")
    if not times["completed"].all():
        raise RecordError(f"{cluster.path}: not all jobs are done; remove it, and run the same command again")
    return {str(job): int(count) for job, count in times["iterations"].items()}


def speed(live: Cluster, virtual: Cluster) -> float:
    """How fast this machine computed live, of its speed while the costs were fitted: both sets did the same."""
    took = core_seconds(live.hosts), core_seconds(virtual.hosts)
    if not all(took):
        raise RecordError(f"{(virtual if took[0] else live).path}: has no samples of its hosts, so it cannot be paced")
    return took[1] / took[0]


def parameters_of(cluster: Cluster) -> int:
    """The size of the model that the live jobs trained."""
    last = (cluster.folders["a"] / "events.jsonl").read_bytes().splitlines()[-1]
    return int(msgspec.json.decode(last)["note"]["num_parameters"])


def parse(words: Sequence[str]) -> Any:
    """Parse the command line; raises a one-line :class:`ConfigError` for invalid input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--placements", metavar="LIST", default="pack,spread")
    parser.add_argument("--costs", metavar="NAME", default="hosts_sets", help="cost model of the virtual clock")
    parser.add_argument("-o", "--out", metavar="OUTDIR", type=Path, default=Path("out/fidelity_jobs"))
    parser.add_argument("--report", metavar="FILE", type=Path, help="the page, besides OUTDIR/fidelity_jobs.md")
    parser.add_argument("overrides", nargs="*", help="settings of all runs")
    parser.error = refuse  # type: ignore[method-assign]
    asked = parser.parse_intermixed_args(list(words))
    asked.placements = names_of("placements", asked.placements, choices("placement"))
    asked.out = asked.out.absolute()
    refuse_unwritable_folder("-o", asked.out, (*GRID, "fidelity_jobs.md"))
    refuse_unwritable_file("--report", asked.report)
    return asked


if __name__ == "__main__":
    run_program("fidelity_jobs.py", main)
