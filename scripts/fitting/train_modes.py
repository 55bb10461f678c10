r"""Fit the model with which STAR-ML costs modes to drawn decisions and to recorded runs' decisions.

python -m scripts.fitting.train_modes --out modes.npz                             # drawn decisions, some minutes
python -m scripts.fitting.train_modes runs/star --draw 0 --epochs 200 --out modes.npz  # only recorded runs of star_h
python -m scripts.fitting.train_modes runs/rings --topology allreduce --draw 1000 --out ring_modes.npz

The commands that made the files that come along are in predictors/fitted/README.md.

A decision is the workers' predicted times, the batch and the noise scale; the model learns the costs of all modes by
STAR-H (strategies/star/learned.py). Drawn are 4 to 16 workers with lognormal times (0.1 to 0.7), at least one of them a
straggler, noise scales from 30 to 10,000 and batches from 16 to 256 samples, log-uniform. Each of them is learnt with
two noise scales and prices of staleness: half of these are 1.3, the price for the digits at a rate of 0.03 (with
``--mode-cost priced`` STAR's figure 16), the others are drawn around it. Of recorded decisions the times, the noise
scale and the batch are taken, at ``--kappa``. A file knows one ``mode_cost``, and ``literal``, whose price is 1.

Then ``--test`` more decisions are drawn with another seed, of which nothing was learnt, and of recorded ones every
fifth is left out: printed is how often the model chooses as STAR-H does, and by how much its choices are worse. Use
the file with ``strategy.learning.use_ml_from_start=true strategy.learning.weights=FILE``. Exit code 0, or 2 for invalid
input.

With ``--topology allreduce`` the modes are a ring's, where equation 3 is cheap to compute: the model learns the modes'
measured times. Recorded runs are then of star_ml (record=events, learning.use_ml_from_start=false), and every mode that
they measured is learnt with several noise scales, batches and prices; drawn decisions teach it equation 3 for unused
modes. Every fifth run is left out; the errors of equation 3 and of the model there are printed.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import msgspec
import numpy as np

from analysis.files import write_file
from analysis.records.load import RecordError, Run, find_runs, load_run
from predictors.network import Network
from predictors.network_file import network_bytes
from predictors.stragglers import deviations, exceeding
from runtime.errors import ConfigError, print_error, refuse
from runtime.house import module_name
from runtime.run.streams import run_program
from scripts.fitting.ring_lessons import (
    PHI,
    STRAGGLER_FRAC,
    Lesson,
    drawn_rings,
    errors_of,
    log_uniform,
    measured_rows,
    recorded_rings,
    varied_rings,
)
from strategies.parts.monitoring.base import cluster_by_ratio
from strategies.star.choice import Choice
from strategies.star.learned import INPUTS
from strategies.star.modal import SSGD
from strategies.star.samples import Costed, Model, learning_rows, regret_of
from strategies.star.server_question import Question, ServerQuestion
from strategies.star.times import ModeTimes

MAX_WORKERS, CLUSTER_FRAC = 16, 0.2
SERVERS_BATCH = (16.0, 256.0)
"""Samples of each worker, of drawn decisions about parameter servers."""
KAPPAS = {"pooled": (1.3, 0.1, 30.0), "priced": (0.14, 0.01, 1.0)}
"""For each mode cost: half of the prices of staleness; least and largest of the others."""
TESTED = {"pooled": (1.3, 16.0), "priced": (0.14,)}
"""Prices to test with; with 16 every kind of mode is the best one now and then."""
PRICES = 2
"""Noise scales, batches and prices of staleness with which every draw of times is learnt."""
VARIANTS = 4
"""Noise scales, batches and prices with which every measured mode of a ring is learnt."""
RATE, BATCH_ROWS = 5e-3, 256
HELD_OUT = 5
RECORDED = re.compile(r"; T ([-+.e\d ]+) s; d .*; phi ([-+.e\d]+) samples, ")


class Agreement(NamedTuple):
    """Part of decisions in which a model chooses as STAR-H; its regret, mean and 99th percentile, as fractions."""

    same_frac: float
    regret_frac: float
    regret_p99_frac: float

    def __str__(self) -> str:
        """One line of the output."""
        return (
            f"as STAR-H {self.same_frac:.1%}, regret {self.regret_frac:.2%}, 99th percentile {self.regret_p99_frac:.1%}"
        )


def draw_questions(seed: int, count: int) -> Iterator[Question]:
    """So many decisions with one straggler or more (see the module)."""
    chance = np.random.default_rng(seed)
    while count:
        workers, spread = int(chance.integers(4, MAX_WORKERS + 1)), chance.uniform(0.1, 0.7)
        times_s = tuple(np.exp(spread * chance.standard_normal(workers)).tolist())
        phi, batch = log_uniform(chance, PHI), log_uniform(chance, SERVERS_BATCH)
        if exceeding(deviations(dict(enumerate(times_s))), STRAGGLER_FRAC):
            yield question(times_s, batch, phi)
            count -= 1


def question(times_s: Sequence[float], batch_samples: float, phi_samples: float) -> Question:
    """A decision in SSGD, with the clusters that these times make."""
    groups = tuple(tuple(group) for group in cluster_by_ratio(times_s, 1 + CLUSTER_FRAC))
    return Question(tuple(range(len(times_s))), tuple(times_s), groups, batch_samples, phi_samples, SSGD)


def vary_questions(seed: int, questions: Sequence[Question], mode_cost: str) -> Iterator[tuple[Question, ModeTimes]]:
    """Every decision with its own numbers, and with other noise scales, batches and prices."""
    usual, least, most = KAPPAS[mode_cost]
    chance = np.random.default_rng((seed, 1))
    for one in questions:
        for number in range(PRICES):
            phi, batch = log_uniform(chance, PHI), log_uniform(chance, SERVERS_BATCH)
            kappa = usual if chance.uniform() < 0.5 else log_uniform(chance, (least, most))
            costs = ModeTimes(mode_cost=mode_cost, kappa=kappa)
            yield (one._replace(phi_samples=phi, batch_samples=batch) if number else one), costs


def by_heuristic(one: Question, costs: ModeTimes) -> Costed:
    """Return STAR-H's rows for a decision."""
    asked = ServerQuestion(Choice(costs=costs), one)
    return asked.cost_sample(asked.by_rule(), MAX_WORKERS, measured=False)


def recorded_questions(run: Run) -> Iterator[Question]:
    """The decisions of a run; raises :class:`ConfigError` for a run whose strategy makes none."""
    batch = int(run.job["global_batch_samples"]) / int(run.job["num_workers"])
    said, found = "", 0
    for line in run.notable_lines:
        if b'"decision"' not in line.state:
            continue
        text = str(msgspec.json.decode(line.state)["decision"])
        if text != said and (hit := RECORDED.search(text)):
            found += 1
            times_s = [float(word) for word in hit[1].split()]
            if len(times_s) <= MAX_WORKERS:
                yield question(times_s, batch, float(hit[2]))
        said = text
    if not found:
        raise ConfigError(f"{run.path}: holds no decision about modes; record runs of strategy=star_h with stragglers")


def agreement(model: Model | None, decisions: Sequence[Costed]) -> Agreement:
    """How a model chooses; None: by the estimates that it would correct."""
    regrets = []
    same = 0
    for one in decisions:
        corrections = np.zeros(len(one.targets)) if model is None else model.predict(one.features)
        regrets.append(regret_of(one, corrections))
        same += bool(np.argmin(one.log_s + corrections) == np.argmin(one.log_s + one.targets))
    return Agreement(same / len(decisions), fmean(regrets), float(np.quantile(regrets, 0.99)))


class Taught(NamedTuple):
    """The data to which a model is fitted, and for its test: decisions by their features, and measured modes."""

    learnt: list[Costed]
    tested: dict[str, list[Costed]]
    measured: list[Costed]


def for_servers(asked: argparse.Namespace, runs: Sequence[Run]) -> Taught:
    """Decisions about modes of parameter servers: recorded ones, of which every fifth is left out, and drawn ones."""
    usual = KAPPAS[asked.mode_cost][0]
    costs = ModeTimes(mode_cost=asked.mode_cost, kappa=usual if asked.kappa is None else asked.kappa)
    found = [by_heuristic(one, costs) for run in runs for one in recorded_questions(run)]
    learnt = [one for number, one in enumerate(found) if number % HELD_OUT != HELD_OUT - 1]
    tested = {"recorded decisions": found[HELD_OUT - 1 :: HELD_OUT]}
    questions = list(draw_questions(asked.seed, asked.draw))
    learnt += [by_heuristic(*one) for one in vary_questions(asked.seed, questions, asked.mode_cost)]
    for kappa in TESTED[asked.mode_cost]:
        own = ModeTimes(mode_cost=asked.mode_cost, kappa=kappa)
        decisions = [by_heuristic(one, own) for one in draw_questions(asked.seed + 1, asked.test)]
        tested[f"drawn decisions with kappa {kappa:g}"] = decisions
    return Taught(learnt, tested, [])


def for_rings(asked: argparse.Namespace, runs: Sequence[Run]) -> Taught:
    """Decisions about rings, drawn ones, and what modes took in runs, of which every fifth is left out."""
    usual, *span = KAPPAS[asked.mode_cost]
    kappas = (usual if asked.kappa is None else asked.kappa, span[0], span[1])
    costs = ModeTimes(mode_cost=asked.mode_cost, kappa=kappas[0])
    learnt_from, left_out = list[Lesson](), list[Lesson]()
    for number, run in enumerate(runs):
        lessons = [one for one in recorded_rings(run) if len(one.took.workers) <= MAX_WORKERS]
        (left_out if number % HELD_OUT == HELD_OUT - 1 else learnt_from).extend(lessons)
    if runs and not learnt_from:
        raise ConfigError(
            f"{runs[0].path}: no run that is learnt from (every fifth is left out) measured a mode of up to "
            f"{MAX_WORKERS} workers; record runs of strategy=star_ml "
            "strategy.topology=allreduce topology=allreduce record=events with stragglers"
        )

    def draw_lessons(seed: int, count: int) -> list[Costed]:
        drawn_ones = drawn_rings(seed, count, costs, MAX_WORKERS)
        return [one.cost_sample(one.by_rule(), MAX_WORKERS, measured=False) for one in drawn_ones]

    def took(seed: int, lessons: Sequence[Lesson]) -> list[Costed]:
        found = varied_rings(seed, lessons, kappas, asked.mode_cost, VARIANTS)
        return [measured_rows(lesson, question, MAX_WORKERS) for lesson, question in found]

    learnt = draw_lessons(asked.seed, asked.draw) + took(asked.seed, learnt_from)
    return Taught(learnt, {"drawn decisions": draw_lessons(asked.seed + 1, asked.test)}, took(asked.seed + 1, left_out))


def main(argv: Sequence[str] | None = None) -> int:
    """Fit and write; returns the exit code (see the module)."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        asked = _parser().parse_args(words)
        _check(asked)
        runs = [load_run(path) for folder in asked.folders for path in find_runs(folder)]
        taught = for_servers(asked, runs) if asked.topology == "ps" else for_rings(asked, runs)
        names = INPUTS[asked.topology][1](MAX_WORKERS)
        network = Network(len(names), asked.hidden, rate=RATE, batch_rows=BATCH_ROWS)
        rows = learning_rows(taught.learnt)
        network.fit(*rows, epochs=asked.epochs)
        command = shlex.join(["python", "-m", module_name("scripts.fitting.train_modes"), *words])
        write_file(asked.out, network_bytes(network, names, f"{asked.mode_cost} literal", command))
    except (RecordError, ConfigError, OSError) as error:
        return print_error("train_modes.py", error)
    print(f"{len(runs)} runs, {len(taught.learnt)} decisions learnt, {len(rows.targets)} rows")
    for name, decisions in taught.tested.items():
        if decisions:
            print(f"  {len(decisions)} {name} that were not learnt: {agreement(network, decisions)}")
            print(f"    the estimates alone: {agreement(None, decisions)}")
    if taught.measured:
        by_model = errors_of(taught.measured, [network.predict(one.features) for one in taught.measured])
        by_rule = errors_of(taught.measured, [np.zeros(1)] * len(taught.measured))
        print(
            f"  {len(taught.measured)} measured modes that were not learnt: the model is off by "
            f"{median(by_model):.1%} (mean {fmean(by_model):.1%}), equation 3 by {median(by_rule):.1%} "
            f"(mean {fmean(by_rule):.1%})"
        )
    print(asked.out)
    return 0


def _check(asked: argparse.Namespace) -> None:
    for name, least in (("draw", 0), ("test", 0), ("epochs", 1), ("seed", 0)):
        if getattr(asked, name) < least:
            raise ConfigError(f"--{name}={getattr(asked, name)}: must be {least} or more")
    if asked.out.suffix != ".npz":
        raise ConfigError(f"--out={asked.out}: must end in .npz")
    if asked.kappa is not None and not 0 <= asked.kappa < float("inf"):
        raise ConfigError(f"--kappa={asked.kappa}: must be a number, 0 or more")
    if not asked.folders and not asked.draw:
        raise ConfigError("--draw=0: leaves nothing to learn; give directories of runs, or a larger number")
    for folder in asked.folders:
        if not find_runs(folder):
            raise ConfigError(f"{folder}: no run here (a directory with meta.json and events.jsonl)")


def _layers(text: str) -> list[int]:
    found = [int(word) for word in text.split(",")]
    if min(found) < 1:
        raise ValueError
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folders", metavar="RUN_DIR", nargs="*", type=Path, help="a run of star_h or star_ml, or a directory of runs"
    )
    parser.add_argument(
        "--topology", choices=list(INPUTS), default="ps", help="whose modes are learnt (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.npz")
    parser.add_argument("--draw", type=int, default=20_000, help="decisions that are drawn (default: %(default)s)")
    parser.add_argument("--test", type=int, default=1500, help="drawn decisions to test with (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=50, help="passes over the rows (default: %(default)s)")
    parser.add_argument(
        "--hidden", type=_layers, default=[64, 32], metavar="N,...", help="units of its layers (default: 64,32)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: %(default)s)")
    parser.add_argument(
        "--mode-cost", choices=list(KAPPAS), default="pooled", help="what is learnt (default: %(default)s)"
    )
    parser.add_argument(
        "--kappa", type=float, help="price of staleness in recorded runs (default: 1.3 if pooled, 0.14 if priced)"
    )
    parser.error = refuse  # type: ignore[method-assign]
    return parser


if __name__ == "__main__":
    run_program("train_modes.py", main)
