"""DLRover's decisions against the paper: Wang et al., "DLRover: an elastic deep training extension", 2023.

Every test names the equation, table, figure or section that it checks.
"""

from __future__ import annotations

from itertools import product
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.virtual.costs import load_costs
from strategies.dlrover.plan import Limits, Need, optimal_plan, planned_workers

WIDE_AND_DEEP = Need(worker_cores=2.5, update_cores=5.7)
XDEEPFM = Need(worker_cores=19.4, update_cores=3.1)
"""Table 1, rows "sample": w_hat, and the cores that all servers used."""
PAPER = Limits(cores_total=200, cores_max=32)
"""Section 6.1: 200 cores a job, 32 a pod; section 4.1: servers of 16."""


@pytest.mark.parametrize(
    ("need", "limits", "plan", "cores", "then"),
    [
        (WIDE_AND_DEEP, PAPER, (24, 3, 8, 16), 200, 24),
        (XDEEPFM, PAPER, (8, 20, 2, 16), 192, 8),
        (
            Need(worker_cores=2.0, update_cores=1.0),
            Limits(cores_total=40, cores_max=8, server_cores=4),
            (13, 2, 3, 4),
            38,
            13,
        ),
    ],
    ids=["wide_and_deep", "xdeepfm", "laptop"],
)
def test_table_1(need: Need, limits: Limits, plan: tuple[int, ...], cores: int, then: int) -> None:
    """Table 1, rows "optimize" (N_w, w, N_ps), with C_total = 200 and s = 16; the third is worked by hand."""
    found = optimal_plan(need, limits)
    assert (found.workers, found.worker_cores, found.servers, found.server_cores) == plan
    assert found.cores == cores
    assert planned_workers(need, found.workers, found.servers * found.server_cores, limits) == then


@pytest.mark.parametrize(
    ("costs", "workers", "steps_per_s", "used", "cores", "left_s"),
    [("dlrover_wd", 24, 210, 2.3, 3, 0.0267), ("dlrover_xdfm", 8, 47.8, 18.3, 20, 0.0142)],
)
def test_the_cost_models_have_the_t_io_that_table_1_leaves(
    costs: str, workers: int, steps_per_s: float, used: float, cores: int, left_s: float
) -> None:
    """Eq. 1 and Table 1, rows "optimize": a worker that uses 2.3 of its 3 cores on average computes for 77 % of a step
    of 24 / 210 s or longer, so t_IO and t_update are 26.7 ms at most, and 14.2 ms for xDeepFM."""
    assert workers / steps_per_s * (1 - used / cores) == pytest.approx(left_s, abs=5e-5)
    assert 0 < 2 * load_costs(costs).values.latency_s < left_s


@pytest.mark.parametrize("sample", [WIDE_AND_DEEP, XDEEPFM], ids=["wide_and_deep", "xdeepfm"])
def test_the_second_step_has_the_workers_that_s_total_suits(sample: Need) -> None:
    """Section 4.2: N_w = s_total / s_hat with the s_total of Eq. 11, 139.0 / 5.7 = 24.4 and 27.6 / 3.1 = 8.9 for the 24
    and 8 of Table 1, whatever the second sample measures; its w_hat only has to leave room."""
    ideal = PAPER.cores_total / (sample.worker_cores + sample.update_cores)
    s_total = PAPER.cores_total - ideal * sample.worker_cores
    planned = optimal_plan(sample, PAPER)
    servers = planned.servers * planned.server_cores
    for used in (0.5, 0.9, 1.0):
        again = Need(worker_cores=used * sample.worker_cores, update_cores=sample.update_cores)
        assert planned_workers(again, planned.workers, servers, PAPER) == floor(s_total / sample.update_cores)
    large = Need(worker_cores=1.5 * sample.worker_cores, update_cores=sample.update_cores)
    assert planned_workers(large, planned.workers, servers, PAPER) < planned.workers


def test_workers_that_use_less_are_more_by_room_and_none_where_there_is_none() -> None:
    """Departure: with ``workers_by=room`` Eq. 10 and 11 are solved again, 168 // 18 = 9 workers of xDeepFM. Beyond
    the paper: constraint (3) with existing servers."""
    room = Limits(cores_total=200, cores_max=32, workers_by="room")
    less = Need(worker_cores=17.6, update_cores=3.1)
    assert [planned_workers(less, 8, 32, limits) for limits in (PAPER, room)] == [8, 9]
    with pytest.raises(ValueError, match="cores_total=200: servers have 190 cores, and one worker needs 20"):
        planned_workers(XDEEPFM, 8, 190, PAPER)


needs = st.builds(Need, worker_cores=st.floats(0.05, 40), update_cores=st.floats(0.05, 40))
limits_ = st.builds(
    lambda total, most, server, frac: Limits(
        cores_total=total, cores_max=most, server_cores=min(server, most), max_shortfall_frac=frac
    ),
    st.integers(1, 300),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)


@given(needs, limits_)
def test_a_plan_keeps_the_limits_or_names_the_setting(need: Need, limits: Limits) -> None:
    """Section 4.1, constraints (3), (5) and (6)."""
    cores = ceil(need.worker_cores - 1e-9)
    if cores > limits.cores_max or cores + limits.server_cores > limits.cores_total:
        with pytest.raises(ValueError, match=r"^cores_(max|total)="):
            optimal_plan(need, limits)
        return
    plan = optimal_plan(need, limits)
    assert plan.cores <= limits.cores_total
    assert min(plan.workers, plan.worker_cores, plan.servers, plan.server_cores) >= 1
    assert need.worker_cores <= plan.worker_cores + 1e-6 <= limits.cores_max + 1e-6
    server_cores = plan.servers * plan.server_cores
    workers = planned_workers(need, plan.workers, server_cores, limits)
    assert workers >= 1
    assert workers * plan.worker_cores + server_cores <= limits.cores_total


@given(
    st.builds(Need, worker_cores=st.floats(0.3, 6), update_cores=st.floats(0.3, 6)),
    st.builds(
        Limits,
        cores_total=st.integers(12, 40),
        cores_max=st.just(8),
        server_cores=st.integers(1, 5),
        max_shortfall_frac=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    ),
)
def test_no_plan_that_keeps_the_rules_has_more_workers_or_servers(need: Need, limits: Limits) -> None:
    """Eq. 7: maximise N_w, by brute force over all whole numbers; then as many servers as fit."""
    plan = optimal_plan(need, limits)
    cores, s = plan.worker_cores, limits.server_cores
    lawful = [
        (workers, servers)
        for workers, servers in product(range(1, 41), range(1, 41))
        if workers * cores + servers * s <= limits.cores_total
        and workers <= max(1, floor(limits.cores_total / (need.worker_cores + need.update_cores) + 1e-9))
        and (workers == 1 or servers * s >= (1 - limits.max_shortfall_frac) * need.update_cores * workers)
    ]
    assert (plan.workers, plan.servers) == max(lawful)
