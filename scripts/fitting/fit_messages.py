"""The messages and the polling of STAR's ten models, fitted to the share of communication that it reports (figure 2).

python -m scripts.fitting.fit_messages                          # some minutes: runtime/fitted/models/star_messages.yaml
python -m scripts.fitting.fit_messages --jobs 20 -o table.yaml  # rougher

The table ``star`` counts all that a worker's processor does in a step (``wrk_active - gpu_active``) as pre-processing.
Some of it handles messages. One share p of it for all models is pre-processing; the rest is work per byte, at either
end, so a model's total remains as measured. Tasks poll on so many cores while they wait. For each of ``POLLING`` a
bisection finds the p at which communication takes half or more of 75 % of (worker, iteration) pairs. Of these, the one
counts whose ends are nearest to 2 and 93 %; ends are the 0.5 % and 99.5 % quantiles. No other result of a run is read.

The runs are STAR's measurement study (``star_study``) with links of 10 Gbit/s, fewer jobs and iterations. The exit code
is 0, or 2 for invalid input.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import numpy as np
import yaml
from numpy.typing import NDArray

from analysis.experiments.spec import Also, Cell, load_spec, settings_of
from analysis.files import write_file
from analysis.measures.cluster.deviations import compare_workers
from analysis.records.cluster import load_cluster
from analysis.records.job_rows import read_job_rows
from runtime.core.vectors import PARAMETER_BYTES
from runtime.errors import ConfigError, print_error, refuse
from runtime.fitted import ROOT
from runtime.run.jobs.models import Model, Models
from runtime.run.streams import run_program
from runtime.virtual.costs import load_costs
from stragglab.grids.experiments import known_specs
from stragglab.grids.grid import QUIET, run_child

HALF_FRAC, ENDS_FRAC = 0.75, (0.02, 0.93)
"""Figure 2: the share of pairs of which communication takes half or more, and the least and largest share."""
POLLING = (0.0, 1.0, 4.0, 12.0)
"""Cores on which a task polls: none, one thread (ZeroMQ, gRPC), some, all on which a worker computes (OpenMP)."""
STEPS = 6
"""Steps of a bisection: p to 0.02."""
QUANTILES = (0.005, 0.995)
JOBS, ITERATIONS = 60, 60
STUDY, LINK = "star_study", {"link": "prevention"}
"""The experiment whose runs these are, but for their sizes, and its links of 10 Gbit/s."""
TABLE = ROOT / "models" / "star_messages.yaml"
HEAD = """\
# The ten models of STAR's evaluation (star.yaml says where their numbers are from), with messages that are work and
# tasks that poll. FITTED to the shares of communication in STAR's figure 2, and to nothing else, by
# python -m scripts.fitting.fit_messages: {share:.3f} of what a worker's processor does in a step is pre-processing, the
# rest work per byte at either end of its messages. Tasks poll on {cores:g} cores while they wait (of {tried}). So
# communication takes half or more of {half:.0%} of the pairs of a worker and an iteration (figure 2: 75 %), and
# {low:.0%} to {high:.0%} of an iteration (2 to 93 %).
"""


class Shares(NamedTuple):
    """Communication's share of an iteration, as figure 2 has it; plain fractions."""

    half_frac: float
    low_frac: float
    high_frac: float

    @property
    def distance(self) -> float:
        """Distance of its ends from the paper's, the sum of two fractions."""
        return abs(self.low_frac - ENDS_FRAC[0]) + abs(self.high_frac - ENDS_FRAC[1])


class Fit(NamedTuple):
    """One point: tasks poll on ``cores``, and ``share`` of a worker's work is pre-processing."""

    cores: float
    share: float
    found: Shares


def divide_work(model: Model, share: float, cores: float) -> dict[str, float]:
    """Return a model's ``cost_changes`` if this share of its processor's work is pre-processing.

    Pulling and pushing all parameters is the rest: 2 * carry_per_byte_s * bytes.
    """
    per_sample_s = load_costs(model.costs).values.data_per_sample_s
    per_byte_s = per_sample_s * model.batch_samples / (2 * PARAMETER_BYTES * model.num_parameters)
    changes = {"data_per_sample_s": share * per_sample_s, "carry_per_byte_s": (1.0 - share) * per_byte_s}
    return {name: float(f"{value:.5g}") for name, value in changes.items()} | (
        {"wait_cores": cores, "server_wait_cores": cores} if cores else {}
    )


def make_table(share: float, cores: float) -> dict[str, Any]:
    """Return the content of a table of models."""
    raw = yaml.safe_load((ROOT / "models" / "star.yaml").read_text())
    models = Models("star", Path())
    for name, entry in raw["models"].items():
        model = models.find(name)
        assert model is not None
        entry["cost_changes"] = divide_work(model, share, cores)
    return dict(raw)


def communication_shares(folder: Path) -> NDArray[np.float64]:
    """Return communication's share of the time of every (worker, iteration) pair of a set of jobs, float64 [pairs]."""
    rows = [compare_workers(read_job_rows(one)) for one in load_cluster(folder).folders.values()]
    return np.concatenate([((one["pull_s"] + one["send_s"]) / one["time_s"]).to_numpy() for one in rows if len(one)])


def study_words(jobs: int, table: Path) -> list[str]:
    """Return the settings of a study of so many jobs, which arrive as densely as the experiment's."""
    study = load_spec(known_specs()[STUDY])
    given = dict(word.split("=", 1) for word in settings_of(study, Cell(LINK, 0)))
    scale = float(given["jobs.time_scale"]) * jobs / int(given["jobs.num_jobs"])
    sizes = (f"jobs.num_jobs={jobs}", f"jobs.time_scale={scale:.6g}", f"replay.max_iterations={ITERATIONS}")
    smaller = Also(at={}, settings=(*sizes, f"replay.models={table}"))
    return settings_of(msgspec.structs.replace(study, also=(*study.also, smaller)), Cell(LINK, 0))


def measure_shares(share: float, cores: float, jobs: int) -> Shares:
    """Run the study; raises :class:`ConfigError` if that fails."""
    with TemporaryDirectory() as folder:
        table, record, log = (Path(folder) / name for name in ("models.yaml", "record", "log"))
        table.write_text(yaml.safe_dump(make_table(share, cores)))
        words = (*study_words(jobs, table), *QUIET, f"hydra.run.dir={record}")
        if run_child(words, log):
            raise ConfigError(f"a run failed: {log.read_text(errors='replace').strip()[-300:]}")
        shares = communication_shares(record)
    low, high = np.quantile(shares, QUANTILES)
    return Shares(float((shares >= 0.5).mean()), float(low), float(high))


def fit_share(cores: float, jobs: int) -> Fit:
    """Return the share of pre-processing at which figure 2's 75 % come out; the more of it, the fewer they are."""
    low, high, best = 0.0, 1.0, None
    for _ in range(STEPS):
        share = (low + high) / 2
        fit = Fit(cores, share, measure_shares(share, cores, jobs))
        print(f"polling on {cores:4g} cores, pre-processing {share:.3f}: {fit.found}", flush=True)
        if best is None or abs(fit.found.half_frac - HALF_FRAC) < abs(best.found.half_frac - HALF_FRAC):
            best = fit
        low, high = (share, high) if fit.found.half_frac > HALF_FRAC else (low, share)
    assert best is not None
    return best


def table_text(fit: Fit) -> str:
    """Return the file of a fit."""
    head = HEAD.format(
        share=fit.share,
        cores=fit.cores,
        tried=", ".join(f"{cores:g}" for cores in POLLING),
        half=fit.found.half_frac,
        low=fit.found.low_frac,
        high=fit.found.high_frac,
    )
    return head + str(
        yaml.safe_dump(make_table(fit.share, fit.cores), sort_keys=False, default_flow_style=None, width=1000)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, write, and say what was found; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", metavar="N", type=int, default=JOBS, help=f"jobs of a run (default {JOBS})")
    parser.add_argument("-o", "--out", metavar="FILE", type=Path, default=TABLE, help="the table")
    parser.error = refuse  # type: ignore[method-assign]
    try:
        options = parser.parse_args(arguments)
        fit = min((fit_share(cores, options.jobs) for cores in POLLING), key=lambda one: one.found.distance)
    except ConfigError as error:
        return print_error("fit_messages.py", error)
    write_file(options.out, table_text(fit))
    print(f"{options.out}: {fit}")
    return 0


if __name__ == "__main__":
    run_program("fit_messages.py", main)
