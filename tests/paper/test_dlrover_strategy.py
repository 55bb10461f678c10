"""DLRover as the strategy of a running job: Wang et al., arXiv:2304.01468, sections 4.2, 4.3, 5.3 and 5.4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from strategies.dlrover import DLRover
from strategies.dlrover.brain import BrainSettings, Stage
from strategies.dlrover.planner import BrainPlanner
from strategies.parts.scaling.changes import StopWaiting
from strategies.parts.scaling.usage import Given
from strategies.protocol import Arrived, FinishedJob, Joined, NodeId, NodeUse, Observed, Started, Timings
from tests.support.grads import make_grad
from tests.support.growing import numbers
from tests.support.laws import played
from tests.support.observed import GIB, ObservedRun, Used, Uses

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
