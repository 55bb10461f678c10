"""The use of hosts by one job's tasks, by hand; and the runs that are behind a claim's verdict."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from analysis.claims.ledger import Claim
from analysis.experiments.host_measures import HOST_MEASURES
from analysis.experiments.measures import to_update_s
from analysis.experiments.results import runs_behind

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
