"""DLRover: Wang et al., arXiv:2304.01468: its decisions, and as the strategy of a running job (sections 4.2, 4.3, 5.3
and 5.4)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import ceil, floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.virtual.costs import load_costs
from strategies.dlrover import DLRover
from strategies.dlrover.brain import BrainSettings, Stage
from strategies.dlrover.plan import Limits, Need, optimal_plan, planned_workers
from strategies.dlrover.planner import BrainPlanner
from strategies.parts.scaling.changes import StopWaiting
from strategies.parts.scaling.usage import Given
from strategies.protocol import Arrived, FinishedJob, Joined, NodeId, NodeUse, Observed, Started, Timings
from tests.support.grads import make_grad
from tests.support.growing import numbers
from tests.support.laws import played
from tests.support.observed import GIB, ObservedRun, Used, Uses

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


HOT, FULL = 14.9, 85.1
"""Figure 6 and table 1: cores that each of two servers of Wide & Deep uses, and all eight of them."""


def wide_and_deep(has: Mapping[NodeId, float]) -> dict[NodeId, Used]:
    """A worker uses 2.5 cores and its updates 5.7; with all 24 workers two servers of 16 cores are full."""
    workers = [node for node in has if node.role == "worker"]
    servers = [node for node in has if node.role == "server"]
    used = {node: Used(min(2.5, has[node])) for node in workers}
    if len(workers) < 24 or len(servers) < 8:
        return used | {node: Used(5.7 * len(workers) / len(servers)) for node in servers}
    rest = (FULL - 2 * HOT) / (len(servers) - 2)
    return used | {node: Used(HOT if place < 2 else rest) for place, node in enumerate(servers)}


def even(has: Mapping[NodeId, float]) -> dict[NodeId, Used]:
    """Every node uses 93 % of its cores, or of a full share: servers 15, workers 2.8; nobody straggles."""
    return {node: Used(min(0.93 * cores, 14.0), 0.5) for node, cores in has.items()}


def trained(uses: Uses = wide_and_deep, run: dict[str, Any] | None = None, **changes: Any) -> ObservedRun:
    """A job with the paper's settings to the end; nothing was refused."""
    strategy = DLRover(**{"ps_interval_s": 200.0, **changes})
    job = ObservedRun(strategy, uses, **(run or {}))
    assert played(job) == []
    return job


def of_rule(job: ObservedRun, rule: str) -> list[str]:
    """The decisions by this rule."""
    return [one for one in job.decisions if f", {rule}: " in one]


def by_role(job: ObservedRun, role: str) -> list[float]:
    return [cores for node, cores in sorted(job.cores.items()) if node.role == role]


@pytest.mark.long(like="test_hot_servers_get_24_cores")
def test_cores_may_be_counted_in_tenths() -> None:
    """Table 1 where a core of the settings is a tenth of a core of the machines: all else is the same."""

    def tenfold(has: Mapping[NodeId, float]) -> dict[NodeId, Used]:
        used = wide_and_deep({node: cores / 0.1 for node, cores in has.items()})
        return {node: Used(one.cores * 0.1) for node, one in used.items()}

    job = trained(tenfold, {"max_time_s": 480.0}, unit_cores=0.1)
    plain = trained(run={"max_time_s": 480.0})
    assert {node: pytest.approx(cores * 0.1) for node, cores in plain.cores.items()} == job.cores
    assert len(job.decisions) == len(plain.decisions)


def test_a_busy_worker_does_not_need_more_cores_than_it_has() -> None:
    """Table 1 with a worker that uses both of its cores, by the kernel's count 1 % more: it is planned with two."""

    def counted(has: Mapping[NodeId, float]) -> dict[NodeId, Used]:
        return {node: Used(1.01 * cores if node.role == "worker" else 5.7) for node, cores in has.items()}

    job = trained(counted, {"max_time_s": 100.0}, worker_cores=2)
    plan = numbers(of_rule(job, "plan")[0])
    assert (plan["worker_cores_used"], plan["worker_cores"]) == (2.0, 2)


def test_hot_servers_get_24_cores() -> None:
    """Section 4.2: "we replace PS-2 and PS-3 with pods with 24 CPU cores": 14.9 / 85.1 * 5.7 * 24 = 23.95."""
    job = trained(run={"max_time_s": 480.0})
    assert of_rule(job, "hot server")
    assert sorted(by_role(job, "server")) == [16] * 6 + [24] * 2


def test_a_seamless_switch_restarts_nobody() -> None:
    """Section 5.3: workers train until all new servers have joined; native TensorFlow restarts them all."""
    seamless, stopped = (trained(run={"max_time_s": 100.0}, seamless=one) for one in (True, False))
    assert seamless.restarts == []
    assert [node for _, node, _ in stopped.restarts] == ["worker:0"]
    assert len(seamless.moves) == len(stopped.moves) == 1


def test_a_worker_that_was_out_of_memory_gets_twice_as_much() -> None:
    """Section 4.2: "If the worker fails with OOM, DLRover launches a new worker with double memory"."""
    job = ObservedRun(DLRover(), even, workers=3, max_time_s=40.0)
    job.out_of_memory(20.5, NodeId.worker(1))
    assert played(job) == []
    (asked_s, launch), *others = job.launches
    assert others == []
    assert (launch.node, launch.cpu_cores, launch.memory_bytes) == ("worker:3", 16, 16 * GIB)
    assert asked_s == 25.0, "at the next question to the Brain"
    assert NodeId.worker(1) not in job.core.members.layout.nodes


def test_no_plan_is_lost_while_a_worker_that_was_out_of_memory_is_replaced() -> None:
    """Table 1, where the replacement takes longer than the sample: planned when it is there, and carried out."""
    job = ObservedRun(DLRover(ps_interval_s=200.0), wide_and_deep, workers=2, max_time_s=480.0, launch_s=100.0)
    job.out_of_memory(20.5, NodeId.worker(1))
    assert played(job) == []
    plan = numbers(of_rule(job, "plan")[0])
    assert (plan["workers"], plan["worker_cores"], plan["servers"]) == (24, 3, 8)
    assert by_role(job, "server") == [16] * 8
    assert by_role(job, "worker") == [3] * 24


def test_a_newcomer_that_never_delivers_anything_is_not_waited_for_forever() -> None:
    """Section 5.4, where a worker has joined and hangs before its first gradient; servers have all that they need."""
    workers, server, (server_cores, worker_cores) = [NodeId.worker(0), NodeId.worker(1)], NodeId.server(0), (16, 4)
    given = {node: Given(cores=worker_cores, memory_bytes=8 * GIB) for node in workers}
    given[server] = Given(cores=server_cores, memory_bytes=8 * GIB)
    planner = BrainPlanner(BrainSettings(cores_total=24, cores_max=16, hang_s=100.0, adjust_every_s=10.0))
    started = Started(t=0.0, workers=(0,), batch_samples=(1,), num_servers=1)
    planner.start(started, {node: has for node, has in given.items() if node != workers[1]})
    planner.brain.stage = Stage.ADJUST
    planner.observe_event(Joined(t=200.0, worker=1, incarnation=0), given)
    uses = tuple(NodeUse(node=str(node), cpu_cores=float(has.cores)) for node, has in given.items())
    found = []
    for t in range(250, 331, 10):
        planner.observe_event(Arrived(t=float(t), grad=make_grad(), timings=Timings()), given)
        planner.observe_event(Observed(t=float(t), period_s=10.0, nodes=uses), given)
        found.append(planner.decide(float(t), given))
    assert [one.t for one in found if one is not None] == [300.0]
    assert next(one.changes for one in found if one is not None) == (StopWaiting(node=workers[1]),)


def test_history_is_checked() -> None:
    """Beyond the paper: settings are refused by name."""
    with pytest.raises(ValueError, match="history="):
        DLRover(history=("a job",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="history_of="):
        DLRover(history_of=("wide_and_deep",))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("server_cores_used", float("nan")),
        ("worker_cores_used", -1.0),
        ("workers", 0),
        ("worker_bytes", 0),
        ("server_bytes", -1),
    ],
)
def test_a_job_that_cannot_have_been_is_refused(field: str, value: float) -> None:
    """Beyond the paper: before the job, and not when its first nodes are to get no memory."""
    usual: dict[str, Any] = {"server_cores_used": 9.0, "worker_cores_used": 2.0, "workers": 2}
    usual |= {"worker_bytes": GIB, "server_bytes": GIB}
    jobs = tuple(FinishedJob(workload="a", dataset="b", **{**usual, **change}) for change in ({}, {field: value}))
    DLRover(history=jobs[:1], history_of=("a", "b"))
    with pytest.raises(ValueError, match=rf"^history\[1\]\.{field}={value}: must be"):
        DLRover(history=jobs, history_of=("a", "b"))


@pytest.mark.parametrize(
    ("settings", "needs"),
    [
        ({"cores_total": 15}, "a worker of 8 and a server of 8 cores need 16"),
        (
            {"cores_total": 4, "worker_cores": 1, "first_server_cores": 1},
            "a worker of 1 and a server of 4 cores need 5",
        ),
    ],
)
def test_a_total_that_nothing_fits_into_is_refused(settings: dict[str, int], needs: str) -> None:
    """Eq. 7: all cores together are at most C_total."""
    given = {"worker_cores": 8, "first_server_cores": 8, "server_cores": 4, "cores_max": 32, **settings}
    with pytest.raises(ValueError, match=f"^cores_total={settings['cores_total']}: {needs}$"):
        DLRover(**given)
