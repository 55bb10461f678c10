"""A table of iteration times becomes a plan, and a job under that plan takes the table's times."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.measures.metrics import jct_s
from analysis.records.load import Run, load_run
from injectors.patterns import IterationTimes
from injectors.plan import ClusterShape, Plan, validate_plan
from tests.support.cli import run_cli

CLUSTER = ClusterShape(num_workers=2, num_servers=1, base_iter_s=0.1)
TABLE = "worker,iteration,seconds\n0,3,2\n1,3,4\n0,5,2\n1,5,2\n0,9,6\n1,9,2\n"
"""Iterations 3, 5 and 9 of two workers: the slower one is 1, nobody, 0; the median is 2 s."""


def written(tmp_path: Path, text: str, name: str = "mine.csv") -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def rows(plan: Plan) -> list[tuple[float, float, str, float]]:
    assert {one.kind for one in plan.disturbances} <= {"slowdown"}
    return [(one.start_s, one.end_s, one.target, one.magnitude) for one in plan.disturbances]


def test_seconds_over_the_median_are_factors_of_a_barrier_s_iterations_or_each_worker_s_own(tmp_path: Path) -> None:
    """Undisturbed iterations take 0.1 s here: [0, 0.2), [0.2, 0.3), [0.3, 0.6), each a millisecond earlier."""
    plan = IterationTimes(path=written(tmp_path, TABLE), repeat=False).plan(CLUSTER, 60.0, 0)
    validate_plan(plan, CLUSTER)
    assert rows(plan) == [(0.0, 0.199, "worker:1", 1.0), (0.299, 0.599, "worker:0", 2.0)]
    again = rows(IterationTimes(path=written(tmp_path, TABLE)).plan(CLUSTER, 1.0, 0))
    assert again == [*rows(plan), (0.599, 0.799, "worker:1", 1.0), (0.899, 1.0, "worker:0", 2.0)]
    plan = IterationTimes(path=written(tmp_path, TABLE), layout="own", repeat=False).plan(CLUSTER, 60.0, 0)
    assert rows(plan) == [(0.0, 0.199, "worker:1", 1.0), (0.199, 0.499, "worker:0", 2.0)]


def test_columns_units_and_the_baseline_are_named(tmp_path: Path) -> None:
    text = "host,elapsed_ms,step,loss\nb,4000,1,x\na,2000,1,x\n"
    about: dict[str, Any] = {"worker_column": "host", "iteration_column": "step", "seconds_column": "elapsed_ms"}
    path = written(tmp_path, text)
    found = IterationTimes(path=path, **about, unit_s=0.001, baseline="least", time_scale=0.5, repeat=False)
    assert rows(found.plan(CLUSTER, 60.0, 0)) == [(0.0, 1.99, "worker:1", 1.0)]
    given = IterationTimes(path=path, **about, unit_s=0.001, baseline=1.0, time_scale=1.0, repeat=False)
    assert rows(given.plan(CLUSTER, 60.0, 0)) == [(0.0, 3.99, "worker:0", 1.0), (0.0, 3.99, "worker:1", 3.0)]


def test_a_parquet_file_says_the_same_and_a_row_that_is_missing_is_undisturbed(tmp_path: Path) -> None:
    text = TABLE.replace("1,3,4\n", "")
    cells = [line.split(",") for line in text.split()[1:]]
    table = {
        name: [float(row[place]) for row in cells] for place, name in enumerate(("worker", "iteration", "seconds"))
    }
    pq.write_table(pa.table(table), tmp_path / "mine.parquet")
    plans = [
        IterationTimes(path=path, repeat=False).plan(CLUSTER, 60.0, 0)
        for path in (written(tmp_path, text), str(tmp_path / "mine.parquet"))
    ]
    assert plans[0] == plans[1]
    assert rows(plans[0]) == [(0.199, 0.499, "worker:0", 2.0)]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("0,1,x", "row 2 (line 3), column seconds, x: must be a finite number"),
        ("0,1,0", "row 2 (line 3), column seconds, 0: must be more than 0"),
        (",1,1", "row 2 (line 3), column worker, nothing: must be a number or a name"),
        ("0,0,1", "row 2 (line 3): worker 0 has iteration 0 twice"),
        ("0,1,5000", "row 2 (line 3), column seconds: is more than 1001 times the baseline, 1 s"),
        ("0,1", "row 2 (line 3) has 2 cells, the header 3"),
    ],
)
def test_a_wrong_row_is_named(row: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"worker,iteration,seconds\n0,0,1\n{row}\n1,0,1\n1,1,1\n")
    with pytest.raises(ValueError, match=re.escape(f"path={path}: {said}")) as caught:
        IterationTimes(path=path).plan(CLUSTER, 9.0, 0)
    assert "\n" not in str(caught.value)


def test_what_does_not_fit_the_run_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, TABLE)
    with pytest.raises(ValueError, match=r"^targets=worker:\*: are 3, but the table has only 2 workers"):
        IterationTimes(path=path).plan(ClusterShape(num_workers=3, num_servers=1, base_iter_s=0.1), 9.0, 0)
    with pytest.raises(ValueError, match=r"^time_scale=null: the time of an iteration is not known"):
        IterationTimes(path=path).plan(ClusterShape(num_workers=2, num_servers=1), 9.0, 0)
    with pytest.raises(ValueError, match=r"^time_scale=1e-09: makes iterations too short for 9 s"):
        IterationTimes(path=path, time_scale=1e-9).plan(CLUSTER, 9.0, 0)
    with pytest.raises(ValueError, match=r"^worker_column=rank: .* has no such column; it has worker, iteration, "):
        IterationTimes(path=path, worker_column="rank").plan(CLUSTER, 9.0, 0)


ITERATIONS, WORKERS, BASE_S = 40, 3, 0.05


def drawn() -> np.ndarray[Any, np.dtype[np.float64]]:
    """[iterations, workers] seconds, from 1.5 on, now and then five times as much."""
    rng = np.random.default_rng(5)
    return 1.5 * (1.0 + rng.exponential(0.3, (ITERATIONS, WORKERS))) * rng.choice([1, 1, 1, 5], (ITERATIONS, WORKERS))


def ran(tmp_path: Path, times_s: np.ndarray[Any, Any], *words: str) -> Run:
    """A job under the table's plan, on a virtual clock on which nothing but computing takes time."""
    cells = itertools.product(range(ITERATIONS), range(WORKERS))
    lines = [f"{worker},{number},{float(times_s[number, worker])!r}" for number, worker in cells]
    path = written(tmp_path, "\n".join(["worker,iteration,seconds", *lines]))
    settings = [
        *(
            "runtime=virtual",
            "cluster.costs=ideal",
            "backend=none",
            "topology.num_servers=1",
            "draw=false",
            "view=none",
        ),
        *(f"cluster.num_workers={WORKERS}", f"cluster.device.base_s={BASE_S}", "cluster.device.per_sample_s=0"),
        *("workload.global_batch_samples=30", "workload.target=null", "workload.epochs=3", "eval_every_s=null"),
        *(
            "straggler=iterations",
            f"straggler.path={path}",
            "straggler.baseline=least",
            f"hydra.run.dir={tmp_path / f'run{len(words)}'}",
        ),
    ]
    done = run_cli(*settings, *words)
    assert done.exit_code == 0, done.err
    return load_run(tmp_path / f"run{len(words)}")


def computed(run: Run) -> np.ndarray[Any, Any]:
    """[iterations, workers] seconds that the first iterations took."""
    wide = run.tables.iterations.pivot_table(index="iteration", columns="worker", values="compute_s")
    return wide.to_numpy()[:ITERATIONS]


def test_a_job_takes_the_table_s_times(tmp_path: Path) -> None:
    times_s = drawn()
    scaled = times_s.T.T * BASE_S / times_s.min()
    run = ran(tmp_path, times_s, "strategy=bsp")
    assert computed(run) == pytest.approx(scaled, rel=2e-6)
    applied = run.tables.updates["t"].to_numpy()[ITERATIONS - 1]
    assert applied == pytest.approx(scaled.max(axis=1).sum(), rel=2e-6)
    assert jct_s(run) > applied, "the table is not all of the job"
