"""What the Brain sees of nodes that may use more than they request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.dlrover import DLRover
from strategies.dlrover.plan import Limits, Need, optimal_plan
from strategies.dlrover.used import at_requests
from strategies.parts.scaling.usage import Given, Use
from strategies.protocol import NodeId
from tests.support.laws import played
from tests.support.observed import ObservedRun, Used


def had(**cores: int) -> dict[NodeId, Given]:
    return {NodeId(name[:-1], int(name[-1])): Given(cores=own, memory_bytes=1) for name, own in cores.items()}


def used(**cores: float) -> dict[NodeId, Use]:
    return {NodeId(name[:-1], int(name[-1])): Use(cores=own) for name, own in cores.items()}


def cores(uses: Mapping[NodeId, Use]) -> dict[str, float]:
    return {f"{node.role}{node.number}": use.cores for node, use in uses.items()}


def test_who_uses_less_than_the_request_is_taken_as_it_is() -> None:
    """1 of 2 cores and 3 of 1 used, so 2 of 4: what servers need for that is half of what they used."""
    found = at_requests(had(worker0=2, worker1=1, server0=1), used(worker0=1.0, worker1=3.0, server0=0.8))
    assert cores(found) == pytest.approx({"worker0": 1.0, "worker1": 1.0, "server0": 0.4})
    calm = used(worker0=1.5, worker1=0.9, server0=0.8)
    assert at_requests(had(worker0=2, worker1=1, server0=1), calm) == calm


@given(st.floats(0.1, 1.0), st.floats(0.05, 2.0), st.floats(1.0, 8.0))
def test_the_need_per_worker_is_the_same_however_much_faster_idle_cores_made_the_job(
    worker: float, server: float, faster: float
) -> None:
    """Workers that compute all the time need a core; beyond it they and their servers are faster in proportion."""
    found = at_requests(had(worker0=1, server0=4), used(worker0=faster, server0=server * faster))
    assert cores(found) == pytest.approx({"worker0": 1.0, "server0": server})


SMALL: dict[str, Any] = {
    "cores_total": 16,
    "cores_max": 4,
    "worker_cores": 1,
    "first_server_cores": 2,
    "server_cores": 2,
    "workers_max": 12,
    "sample_s": 60.0,
    "min_interval_s": 1.0,
}
"""Four hosts of four cores, as in ``dlrover_hosts_grid``."""


def on_hosts_of_four(factor: float) -> Any:
    """A worker that is alone on its host is ``factor`` times as fast; a full cluster leaves nobody more than its cores.

    Each core of workers takes 0.5 of servers."""

    def uses(has: Mapping[NodeId, float]) -> dict[NodeId, Used]:
        workers = [node for node in has if node.role == "worker"]
        servers = [node for node in has if node.role == "server"]
        each = min(factor, max(1.0, 10 / len(workers)))
        return {
            **{node: Used(each * 0.98) for node in workers},
            **{node: Used(0.5 * each * len(workers) / len(servers)) for node in servers},
        }

    return uses


def plan_of(cores_as: Any, factor: float) -> tuple[int, int]:
    """Workers and servers after the first plan."""
    job = ObservedRun(DLRover(**SMALL, cores_as=cores_as), on_hosts_of_four(factor), max_time_s=150.0)
    assert played(job) == []
    roles = [node.role for node in job.cores]
    return roles.count("worker"), roles.count("server")


def test_idle_cores_of_the_first_hosts_do_not_change_the_plan() -> None:
    """Of 16 cores a worker of 1 takes 1.5 with its updates: 10 of them, and 3 servers of 2."""
    assert plan_of("request", 1.0) == plan_of("limit", 1.0) == (10, 3)
    assert plan_of("request", 4.0) == (10, 3)
    as_used = Need(worker_cores=4 * 0.98, update_cores=4 * 0.5)
    assert optimal_plan(as_used, Limits(cores_total=16, cores_max=4, server_cores=2)).workers == 2
