"""The plan that a job begins with, from finished jobs or none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.dlrover.history import FinishedJob, InitialPlan, initial_plan
from strategies.dlrover.plan import Limits
from tests.support.brain import GIB, PAPER


def finished(**changes: Any) -> FinishedJob:
    """Wide & Deep with its own numbers of Table 1."""
    usual: dict[str, Any] = {
        "workload": "wide_deep",
        "dataset": "criteo",
        "server_cores_used": 85.1,
        "worker_cores_used": 2.3,
        "workers": 24,
        "worker_bytes": 3 * GIB,
        "server_bytes": 5 * GIB,
    }
    return FinishedJob(**{**usual, **changes})


def planned(*jobs: FinishedJob, limits: Limits = PAPER) -> InitialPlan | None:
    return initial_plan(jobs, "wide_deep", "criteo", limits)


def test_wide_and_deep_begins_with_its_plan_of_last_time() -> None:
    """85.1 * 1.5 / 16 = 7.98: the eight servers and 24 workers of three cores of Tables 1 and 2."""
    assert planned(finished()) == InitialPlan(
        workers=24,
        worker_cores=3,
        worker_bytes=-(-3 * GIB * 12 // 10),
        servers=8,
        server_cores=16,
        server_bytes=6 * GIB,
        source="dataset",
    )


def test_every_element_has_its_own_rule() -> None:
    """Largest server use, mean worker cores, median workers, largest memory."""
    plan = planned(
        finished(server_cores_used=10, worker_cores_used=1, workers=4, worker_bytes=4 * GIB, server_bytes=GIB),
        finished(server_cores_used=40, worker_cores_used=2, workers=6, worker_bytes=GIB, server_bytes=2 * GIB),
        finished(server_cores_used=20, worker_cores_used=4, workers=30, worker_bytes=GIB, server_bytes=GIB),
    )
    assert plan is not None
    assert (plan.servers, plan.worker_cores, plan.workers) == (4, 3, 6)
    assert (plan.worker_bytes, plan.server_bytes) == (-(-4 * GIB * 12 // 10), -(-2 * GIB * 12 // 10))


def test_the_last_five_jobs_of_the_dataset_or_the_workload_count() -> None:
    other = finished(dataset="avazu", workers=9)
    chosen = planned(finished(workers=7), other, other)
    assert chosen is not None
    assert (chosen.workers, chosen.source) == (7, "dataset")
    alike = planned(other, finished(workload="xdeepfm", workers=3))
    assert alike is not None
    assert (alike.workers, alike.source) == (9, "workload")
    assert planned(finished(workload="xdeepfm")) is None
    assert planned() is None
    # Older jobs may be of another model under the same name
    plan = planned(finished(server_cores_used=900), *[finished(server_cores_used=8)] * 5)
    assert plan is not None
    assert plan.servers == 1


def test_workers_give_way_first_and_a_total_that_fits_nothing_is_refused() -> None:
    """Eight servers take 128 of 150 cores; what is left is enough for seven workers of three."""
    plan = planned(finished(), limits=Limits(cores_total=150, cores_max=32))
    assert plan is not None
    assert (plan.servers, plan.workers) == (8, 7)
    small = planned(finished(), limits=Limits(cores_total=60, cores_max=32))
    assert small is not None
    assert (small.servers, small.workers) == (3, 4)
    with pytest.raises(ValueError, match=r"cores_total=18: earlier jobs had workers of 3 cores.* 19"):
        planned(finished(), limits=Limits(cores_total=18, cores_max=16))


@given(
    st.lists(
        st.builds(
            FinishedJob,
            workload=st.just("wide_deep"),
            dataset=st.sampled_from(["criteo", "avazu"]),
            server_cores_used=st.floats(0, 500),
            worker_cores_used=st.floats(0, 60),
            workers=st.integers(1, 500),
            worker_bytes=st.integers(1, 2**40),
            server_bytes=st.integers(1, 2**40),
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(48, 400),
)
def test_a_plan_never_exceeds_the_total(jobs: list[FinishedJob], total: int) -> None:
    plan = planned(*jobs, limits=Limits(cores_total=total, cores_max=32))
    assert plan is not None
    assert plan.cores <= total
    assert min(plan.workers, plan.worker_cores, plan.servers) >= 1
    assert plan.worker_cores <= 32
