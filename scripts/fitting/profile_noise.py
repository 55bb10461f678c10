r"""Profile the gradient noise scale of a workload: a table by batch and step, for predictors/noise_table.py.

python -m scripts.fitting.profile_noise --out out/noise.csv    # digits, a few seconds
python -m scripts.fitting.profile_noise workload=digits_cnn --batches 32,64 --steps 400 --every 50 --out noise.csv

The words before the options compose a job as run.py does; its workload is trained here, in one process, by plain SGD
with the job's learning rate and global batch. Every ``--every`` steps, ``--gradients`` gradients of each batch are
computed on the parameters of that step, and |E g|^2 and the trace of the covariance are estimated from the norms of
these and of their mean (AdaptDL's estimator); nothing is averaged over steps. Exit code 0, or 2 for invalid input.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.files import write_file
from predictors.noise_scale import NoiseTerms, noise_terms
from predictors.noise_table import COLUMNS, NoiseRow
from runtime.backends.base import micro_batches
from runtime.config.anchoring import anchored
from runtime.config.command_line import parse_arguments
from runtime.config.compose import composing
from runtime.config.parse import Config, parse
from runtime.config.rules import check_combinations
from runtime.core.vectors import aligned_vector
from runtime.errors import ConfigError, print_error, refuse
from runtime.run.checks.backends import BACKENDS
from runtime.run.checks.devices import DEVICES, check_devices
from runtime.run.checks.facts import facts_of
from runtime.run.checks.job import check_backend
from runtime.run.job import prepare_data
from runtime.run.streams import run_program


def main(argv: Sequence[str] | None = None) -> int:
    """Profile and write the table; returns the exit code (see the module)."""
    try:
        arguments = _parser().parse_args(argv)
        _check(arguments)
        with composing(parse_arguments([])) as composer:
            config = anchored(parse(composer.raw(list(arguments.words))), Path.cwd())
        rows = list(profile(config, arguments))
        write_file(arguments.out, table_of(rows))
    except (ConfigError, OSError) as error:
        return print_error("profile_noise.py", error)
    last = max(row.step for row in rows)
    for row in rows:
        if row.step == last:
            phi = NoiseTerms(row.sqr, row.var).phi
            print(f"{row.model}, step {row.step}, batch {row.batch_samples}: phi {phi:.0f} samples")
    print(arguments.out)
    return 0


def table_of(rows: Sequence[NoiseRow]) -> str:
    """The rows as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    return text.getvalue()


def profile(config: Config, arguments: argparse.Namespace) -> Iterator[NoiseRow]:
    """Train, and estimate at step 0 and every so many steps."""
    job = facts_of(config)
    task, backend = job.task, job.backend
    check_combinations((*BACKENDS, *DEVICES), job)
    check_backend(job)
    if not backend.computes:
        raise ConfigError(f"backend={config.names.backend}: computes no gradients; choose one that does")
    check_devices(job)
    num_samples = prepare_data(task, config)
    largest = max([config.workload.global_batch_samples, *arguments.batches])
    if largest > num_samples:
        raise ConfigError(f"--batches: {largest} samples, more than the {num_samples} that there are")
    model = backend.prepare(task, config.seed)
    chance, batch = np.random.default_rng(config.seed), config.workload.global_batch_samples
    params, grad, mean = (aligned_vector(model.num_parameters) for _ in range(3))
    params[:] = model.initial_parameters()

    def compute(samples: int) -> None:
        model.attach(params, grad)
        indices = np.sort(chance.choice(num_samples, samples, replace=False))
        model.gradient(model.batch(indices, np.zeros(samples, dtype=np.int64)), micro_batches(samples, 1))

    for step in range(arguments.steps + 1):
        if step % arguments.every == 0:
            for samples in arguments.batches:
                norms = []
                mean.fill(0.0)
                for _ in range(arguments.gradients):
                    compute(samples)
                    norms.append(_sqr_norm(grad))
                    mean += grad / np.float32(samples * arguments.gradients)
                terms = noise_terms([samples] * arguments.gradients, norms, _sqr_norm(mean))
                yield NoiseRow(config.workload.name, samples, step, terms.sqr, terms.var)
        compute(batch)
        params -= np.float32(config.workload.optimizer["lr"] / batch) * grad


def _sqr_norm(vector: Any) -> float:
    return float(np.add.reduce(np.square(vector, dtype=float)))


def _check(arguments: argparse.Namespace) -> None:
    for name, least in (("steps", 0), ("every", 1), ("gradients", 2)):
        if getattr(arguments, name) < least:
            raise ConfigError(f"--{name}={getattr(arguments, name)}: must be {least} or more")


def _batches(text: str) -> list[int]:
    found = [int(word) for word in text.split(",")]
    if min(found) < 1:
        raise ValueError
    return sorted(set(found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", metavar="SETTING=VALUE", nargs="*", help="as for run.py")
    parser.add_argument("--batches", type=_batches, default=[16, 32, 64], metavar="N,...", help="default: 16,32,64")
    parser.add_argument("--steps", type=int, default=200, help="updates to train for (default: %(default)s)")
    parser.add_argument("--every", type=int, default=20, help="updates between two profiles (default: %(default)s)")
    parser.add_argument("--gradients", type=int, default=16, help="of every batch and step (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.csv")
    parser.error = refuse  # type: ignore[method-assign]
    return parser


if __name__ == "__main__":
    run_program("profile_noise.py", main)
