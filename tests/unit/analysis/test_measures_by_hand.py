"""What an experiment reads off a run, from tables of a few rows: the numbers are worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from analysis.claims.ledger import Claim
from analysis.experiments.host_measures import HOST_MEASURES
from analysis.experiments.measures import (
    MEASURES,
    gain_after,
    idle_frac,
    link_vectors_per_batch,
    mean_loss,
    rebound,
    restarted_bpt_ratio,
    slowest_before,
    stalled_frac,
    throughput,
    to_update_s,
    use_frac,
)
from analysis.experiments.results import runs_behind
from analysis.records.load import Run, load_run
from tests.support.records import Story

END_S = 10.0


def run_with(tmp_path: Path, workers: int = 2, **tables: pd.DataFrame) -> Run:
    """A job of ``END_S`` seconds with these tables."""
    story = Story(num_workers=workers)
    story.started()
    story.finished(END_S, num_parameters=100)
    run = load_run(story.write(tmp_path / "run"))
    vars(run)["tables"] = replace(run.tables, **tables)
    return run


def rows(*given: dict[str, Any]) -> pd.DataFrame:
    """Iterations: of worker 0, of 8 samples, applied, and without any time unless something else is given."""
    usual = {"worker": 0, "iteration": 0, "samples": 8, "assigned_samples": 8, "fate": "applied", "applied_version": 1}
    times = dict.fromkeys(("t", "compute_s", "injected_s", "iter_s", "bpt_s", "wait_s", "pull_s"), 0.0)
    return pd.DataFrame([{**usual, **times, **one} for one in given])


def updates(*times_s: float, samples: int = 8) -> pd.DataFrame:
    about = {"t": list(times_s), "version": range(1, len(times_s) + 1), "samples": samples, "void": False}
    return pd.DataFrame(about)


def test_idle_time_is_that_of_the_second_half(tmp_path: Path) -> None:
    """Rounds of (1, 3), then (1, 4) and (2, 2) s: 3 of 12 s are idle in the second half, without what is dropped."""
    pairs = [(3.0, 1, (1.0, 3.0)), (6.0, 2, (1.0, 4.0)), (9.0, 3, (2.0, 2.0))]
    found = [
        {"t": t, "worker": worker, "applied_version": version, "iter_s": iter_s}
        for t, version, times in pairs
        for worker, iter_s in enumerate(times)
    ]
    dropped = {"t": 8.0, "fate": "dropped", "applied_version": 3, "iter_s": 7.0}
    assert idle_frac(run_with(tmp_path, iterations=rows(*found, dropped))) == pytest.approx(3 / 12)


def test_throughput_before_the_first_loss_and_after_the_last_return(tmp_path: Path) -> None:
    """3 updates in 4 s, then 4 in 2.5 s: more than twice as fast."""
    restarts = pd.DataFrame({"t": [4.0, 5.0, 5.5, 7.5], "what": ["Lost", "ServerLost", "Restored", "Joined"]})
    found = run_with(tmp_path, restarts=restarts, updates=updates(1.0, 2.0, 3.0, 6.0, 7.6, 8.0, 9.0, 9.9))
    assert rebound(found) == pytest.approx((4 / 2.5) / (3 / 4))
    still = run_with(tmp_path / "still", updates=updates(1.0, 2.0), iterations=rows({}))
    assert isnan(rebound(still))
    assert isnan(restarted_bpt_ratio(still))


def test_a_restarted_worker_is_looked_at_once_it_has_settled(tmp_path: Path) -> None:
    """Five slow iterations after its return, then three of 1 s; the other takes 2 s. Those before do not count."""
    restarts = pd.DataFrame({"t": [1.0, 2.0], "what": ["Lost", "Joined"], "role": ["worker", "worker"], "id": [1, 1]})
    own = [{"t": 3.0 + n / 2, "worker": 1, "bpt_s": 9.0 if n < 5 else 1.0} for n in range(8)]
    others = [{"t": 2.0, "bpt_s": 50.0}, {"t": 4.0, "bpt_s": 2.0}, {"t": 6.0, "bpt_s": 2.0}]
    found = run_with(tmp_path, restarts=restarts, iterations=rows(*own, *others))
    assert restarted_bpt_ratio(found) == pytest.approx(0.5)


def test_the_slowest_is_compared_with_the_others_only(tmp_path: Path) -> None:
    restarts = pd.DataFrame({"t": [5.0, 6.0], "what": ["Lost", "Joined"]})
    times = [(1.0, 0, 1.0), (2.0, 1, 4.0), (7.0, 0, 100.0)]
    found = rows(*({"t": t, "worker": worker, "bpt_s": bpt_s} for t, worker, bpt_s in times))
    assert slowest_before(run_with(tmp_path, restarts=restarts, iterations=found)) == 4.0
    found = run_with(tmp_path / "applied", iterations=rows({}, {}, {"fate": "dropped"}, {"samples": 3}))
    assert throughput(found) == pytest.approx((8 + 8 + 3) / END_S), "of what was applied"
    delayed = rows({"compute_s": 4.0, "injected_s": 2.0}, {"worker": 1, "compute_s": 3.0, "fate": "dropped"})
    assert use_frac(run_with(tmp_path / "use", iterations=delayed)) == pytest.approx(5 / 20), "a delay is no use"


def test_a_worker_is_not_held_before_its_first_step(tmp_path: Path) -> None:
    """Of three later steps of 1 s one was held for more than a hundredth of it, one for just that."""
    held = [(0, 0, 5.0), (0, 1, 0.02), (0, 2, 0.01), (1, 4, 5.0), (1, 5, 0.0)]
    found = rows(*({"worker": w, "iteration": n, "wait_s": wait_s, "iter_s": 1.0} for w, n, wait_s in held))
    assert stalled_frac(run_with(tmp_path, iterations=found)) == pytest.approx(1 / 3)


def test_means_over_time_begin_with_the_first_evaluation_and_end_between_two(tmp_path: Path) -> None:
    """From 2 down to 1 within 4 s from 4 s on."""
    run = run_with(tmp_path, evaluations=pd.DataFrame({"asked_s": [4.0, 8.0], "loss": [2.0, 1.0]}))
    assert mean_loss(run) == pytest.approx(1.5)
    vars(run)["tables"] = replace(run.tables, evaluations=run.tables.evaluations.iloc[:1])
    assert isnan(mean_loss(run))
    # Straight from 0 to 1 in 120 s: the mean of the first minute is a quarter.
    run = run_with(tmp_path)
    scored = pd.DataFrame({"asked_s": [0.0, 40.0, 120.0], str(run.job["metric"]): [0.0, 1 / 3, 1.0]})
    vars(run)["tables"] = replace(run.tables, evaluations=scored)
    assert MEASURES["error_first_min"](run) == pytest.approx(0.75)


def test_a_gain_begins_with_its_update(tmp_path: Path) -> None:
    """The metric is the square of the time: from 2 s to 3 s it grows by 5, from 1 s to 2 s by 3."""
    run = run_with(tmp_path, updates=updates(1.0, 2.0, 4.0))
    scored = pd.DataFrame({"asked_s": [0.0, 1.0, 2.0, 3.0], str(run.job["metric"]): [0.0, 1.0, 4.0, 9.0]})
    vars(run)["tables"] = replace(run.tables, evaluations=scored)
    assert (gain_after(run, 1, 1.0), gain_after(run, 2, 1.0)) == (3.0, 5.0)
    assert isnan(gain_after(run, 2, 1.5)), "it ends before"
    assert isnan(gain_after(run, 9, 1.0)), "there is no such update"


def test_vectors_and_batches_are_of_the_same_time(tmp_path: Path) -> None:
    """Samples of 2 to 8 s: 10 vectors of 400 bytes for the 32 samples of four updates, each of a batch of 8 samples;
    those at 2 and 9 s are outside, and host 1 has no server."""
    hosts = [{"number": 0, "tasks": ["server:0", "worker:0"]}, {"number": 1, "tasks": ["worker:1"]}]
    rates = [(5.0, "host:0", 400.0), (8.0, "host:0", 2800 / 3), (5.0, "host:1", 1e6)]
    nodes = pd.DataFrame(rates, columns=["t", "node", "in_bytes_per_s"]).assign(period_s=3.0)
    applied = updates(1.0, 2.0, 3.0, 5.0, 6.0, 8.0, 9.0)
    run = run_with(tmp_path, nodes=nodes, updates=applied, iterations=rows({}, {"samples": 16}))
    run.meta["machine"]["hosts"] = hosts
    assert link_vectors_per_batch(run) == pytest.approx(10 / 4)


BOUND = {"divergence_max": 4.0}


def followed(folder: Path, notes: Sequence[tuple[int, float]], fields: dict[str, float] = BOUND) -> Run:
    """A run with these (behind, distance), a version later each."""
    made = Story("mlfabric", runtime="virtual", fields=fields)
    made.started()
    for version, (behind, distance) in enumerate(notes):
        made.note(1.0 + version, "Diverged", server=1, version=version, behind=behind, distance=distance)
    made.finished(9.0)
    return load_run(made.write(folder))


def measured(run: Run) -> list[float]:
    return [MEASURES[name](run) for name in ("distance_frac", "distance_level", "behind_mean")]


def test_distance_is_relative_to_the_bound_and_level_only_without_a_lack(tmp_path: Path) -> None:
    """Furthest apart while it lacks 3 updates; level twice, and once first in an update that both make (live)."""
    run = followed(tmp_path, [(0, 0.0), (3, 3.0), (1, 1.0), (0, 0.25), (-1, 0.5)])
    assert measured(run) == pytest.approx([0.75, 0.25, 0.6])
    frac, level, behind = measured(followed(tmp_path / "never level", [(1, 2.0), (2, 6.0)]))
    assert (frac, behind) == (1.5, 1.5), "beyond the bound is more than 1"
    assert isnan(level)
    assert isnan(MEASURES["distance_frac"](followed(tmp_path / "no replicas", [])))
    assert isnan(MEASURES["distance_frac"](followed(tmp_path / "no bound", [(0, 0.0)], {})))


HOSTS = [
    {"number": 0, "tasks": ["worker:0"]},
    {"number": 1, "tasks": ["worker:1", "server:1"]},
    {"number": 2, "tasks": ["server:0"]},
]


def sampled(t: float, node: str, cores: float, out: float = float("nan"), into: float = float("nan")) -> dict[str, Any]:
    return {"t": t, "node": node, "cpu_cores": cores, "out_bytes_per_s": out, "in_bytes_per_s": into}


def run_of(*rows: dict[str, Any]) -> Any:
    columns = ["t", "node", "cpu_cores", "out_bytes_per_s", "in_bytes_per_s"]
    return SimpleNamespace(
        meta={"machine": {"hosts": HOSTS}}, tables=SimpleNamespace(nodes=pd.DataFrame(list(rows), columns=columns))
    )


def test_use_is_that_of_tasks_and_of_hosts_with_one_role() -> None:
    """The first tenth does not count, nor does the link of a host that worker and server share."""
    run = run_of(
        *(sampled(0.5, "worker:0", 9.0), sampled(5.0, "worker:0", 0.2), sampled(10.0, "worker:1", 0.4)),
        *(sampled(10.0, "server:0", 0.6), sampled(10.0, "host:0", 0.2, 10.0, 30.0)),
        *(sampled(10.0, "host:1", 0.4, 500.0, 500.0), sampled(10.0, "host:2", 0.6, 90.0, 60.0)),
    )
    expected = {
        **{"host_server_cores": 0.6, "host_worker_cores": 0.3, "host_server_cores_over_worker_frac": 1.0},
        **{"host_server_bytes_per_s": 90.0, "host_worker_bytes_per_s": 30.0, "host_server_bytes_over_worker_frac": 2.0},
        **{"host_used_cores": 1.2, "host_used_bytes_per_s": 600.0},
    }
    assert {name: measure(run) for name, measure in HOST_MEASURES.items()} == pytest.approx(expected)
    assert all(pd.isna(measure(run_of())) for measure in HOST_MEASURES.values()), "nothing was sampled"


def test_the_time_to_an_update_begins_when_the_gradient_is_ready() -> None:
    """Holding, sending and waiting for the update count; a dropped gradient does not."""
    row = {"worker": 0, "samples": 1, "start_s": 1.0, "wait_s": 0.5, "pull_s": 0.25, "data_s": 0.0, "compute_s": 0.25}
    rows = [{**row, "fate": "applied", "applied_t": 2.5}, {**row, "fate": "dropped", "applied_t": 9.0}]
    run: Any = SimpleNamespace(tables=SimpleNamespace(iterations=pd.DataFrame(rows)))
    assert to_update_s(run) == pytest.approx(0.5)


def test_a_claim_is_live_if_its_own_runs_are() -> None:
    """Some experiments have the same job on both clocks."""
    runs = pd.DataFrame({"system": ["a", "a", "b", "b"], "clock": ["l", "v"] * 2, "runtime": ["live", "virtual"] * 2})
    claim = Claim(id="x", where="", check="ratio", subject={"system": "a", "clock": "l"}, against=({"system": "b"},))
    assert runs_behind(claim, runs)["runtime"].tolist() == ["live", "live"]
    assert len(runs_behind(Claim(id="y", where="", check="shape"), runs)) == 4


LENGTH = ("backend=none", "backend.num_parameters=10000", "workload.target=null", "workload.epochs=2")
LENGTH += ("eval_every_s=null", "draw=false", "view=none")
