"""Virtual jobs that software slows: pauses, sequences of unequal length, slow loaders; and the same jobs cured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from analysis.logs.step_log import StepLog
from analysis.logs.table import Columns, read_table
from analysis.measures.straggling import Straggling
from injectors.patterns import Pauses, SequenceLengths, SlowLoader
from injectors.plan import ClusterShape, Plan, build_plan
from tests.support.planted_jobs import HORIZON_S, USUAL_S, Planted, calm, run_planted

KINDS = ("pauses", "sequences", "loader", "")
"""The last one: nothing slows the job."""
STEPS = 300


@dataclass(frozen=True)
class Caused:
    """A job, the same job with its cause cured, the kind of the cause, and the ranks with slow loaders."""

    job: Planted
    cured: Planted
    kind: str
    loaders: tuple[int, ...] = ()


def caused(number: int, workers: int | None = None) -> Caused:
    """The job with this number; kinds and sizes take turns."""
    rng, kind = np.random.default_rng([47, number]), KINDS[number % len(KINDS)]
    ranks = workers or (4, 8, 16, 32)[number // len(KINDS) % 4]
    cluster = ClusterShape(num_workers=ranks, num_servers=2, base_iter_s=USUAL_S)
    sigma = float(rng.choice([0.005, 0.02, 0.04]))

    def job(plan: Plan, slow: tuple[int, ...] = ()) -> Planted:
        return Planted(ranks, STEPS, sigma, plan, frozenset(slow))

    def planned(pattern: Pauses | SequenceLengths | SlowLoader) -> Plan:
        return pattern.plan(cluster, HORIZON_S, number)

    if kind == "pauses":
        length = float(rng.uniform(1.0, 4.0))
        period = float(rng.uniform(25.0, 50.0)) + 1.2 * ranks * (length if ranks < 16 else 1.0)
        pauses = Pauses(period_s=None, period_iters=period, duration_s=length * USUAL_S)
        return Caused(job(planned(pauses)), job(planned(replace(pauses, align=True))), kind)
    if kind == "sequences":
        few, sigma_of = int(rng.integers(1, 5)), float(rng.uniform(0.6, 1.2))
        lengths = SequenceLengths(sigma=sigma_of, num_sequences=few, added_frac=float(rng.uniform(0.7, 2.0)))
        return Caused(job(planned(lengths)), job(planned(replace(lengths, balance=True))), kind)
    if kind == "loader":
        loader = SlowLoader(
            batch_iters=float(rng.uniform(1.25, 2.5)),
            queue=int(rng.integers(2, 20)),
            pick=int(rng.integers(1, ranks // 4 + 1)),
        )
        plan = planned(loader)
        slow = tuple(sorted({int(one.target.partition(":")[2]) for one in plan.disturbances}))
        return Caused(job(plan, slow), calm(job(plan)), kind, slow)
    none = job(build_plan("none", number, HORIZON_S, []))
    return Caused(none, none, kind)


def logged(one: Caused, folder: Path) -> tuple[StepLog, float]:
    """What the job logs, loading included, and its JCT in seconds."""
    jct_s, logging = run_planted(one.job, "bsp", folder)
    table = logging.table
    loading = table["injected"] if one.kind == "loader" else 0.0
    table.assign(load=loading + 0.002, work=table["work"] - loading).to_csv(folder / "log.csv", index=False)
    return read_table(folder / "log.csv", Columns(compute="work", data="load")), jct_s


def names(found: Straggling) -> set[str]:
    """The causes that a diagnosis names: kinds, or ``rank`` for any other straggler."""
    named = {"loader" if unit.part == "loading" else "rank" for unit in found.units}
    return named | ({"pauses"} if found.staggered else set()) | ({"sequences"} if found.uneven else set())
