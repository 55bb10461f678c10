"""Who is given up for silence, and who is not."""

from __future__ import annotations

from typing import Any

import msgspec

from runtime.core.recovery.states import TaskState
from runtime.core.recovery.task import TaskLife
from runtime.live.control.leases import AgentLeases, Leases
from runtime.live.control.settings import Settings
from runtime.live.control.tasks import Task
from strategies.protocol import NodeId

SETTINGS = Settings(
    num_workers=2,
    num_servers=2,
    heartbeat_s=0.5,
    lease_s=2.0,
    start_deadline_s=10.0,
    restart_deadline_s=6.0,
    iteration_deadline_s=30.0,
    max_restarts=None,
)


def worker(number: int = 0, state: TaskState = TaskState.LAUNCHING, **fields: Any) -> Task:
    return Task(life=TaskLife(role="worker", id=number, state=state), **fields)


def watched(*tasks: Task, settings: Settings = SETTINGS) -> Leases:
    leases = Leases({task.key: task for task in tasks}, settings)
    leases.begin(0.0)
    return leases


def given_up(leases: Leases, until_s: float) -> list[str]:
    """Names, after a look every period."""
    found, now_s = [], 0.0
    while now_s < until_s:
        now_s += leases.period_s
        found += [task.name for task, _ in leases.overdue(now_s)]
    return list(dict.fromkeys(found))


def test_who_is_connected_has_a_lease_who_starts_a_deadline_and_who_has_left_owes_nothing() -> None:
    assert given_up(watched(worker(0, connected=True), worker(1)), until_s=2.0) == []
    assert given_up(watched(worker(0, connected=True), worker(1)), until_s=2.5) == ["worker 0"]
    assert given_up(watched(worker(0, connected=True), worker(1)), until_s=10.5) == ["worker 0", "worker 1"]
    leases = watched(worker())
    leases.started(0.0)
    assert given_up(leases, until_s=6.0) == []
    assert given_up(leases, until_s=6.5) == ["worker 0"]
    idle = [worker(0, TaskState.LEFT), worker(1, TaskState.HELD), worker(2, TaskState.PENDING)]
    assert given_up(watched(*idle), until_s=20.0) == []
    leases = watched(worker(connected=True))
    assert list(leases.overdue(60.0)) == []
    assert list(leases.overdue(60.5)) == []
    silent = [reason for step in range(2, 5) for _, reason in leases.overdue(60.0 + 0.5 * step)]
    assert silent == ["no heartbeat for 2.5 s"]


def test_who_starts_on_a_gpu_owes_heartbeats_later_and_a_few_who_are_missing_are_named() -> None:
    settings = msgspec.structs.replace(SETTINGS, starts_silently=True)
    tasks = [worker(0, connected=True), worker(1, TaskState.READY, connected=True), worker(2)]
    assert given_up(watched(*tasks, settings=settings), until_s=10.0) == ["worker 1"]
    assert given_up(watched(*tasks, settings=settings), until_s=10.5) == ["worker 1", "worker 0", "worker 2"]
    server = Task(life=TaskLife(role="server", id=0))
    leases = watched(server, *(worker(number) for number in range(6)), worker(6, TaskState.ATTACHED))
    assert leases.not_ready() == (
        "not ready after runtime.start_deadline_s=10: worker 0, worker 1, worker 2, worker 3 and others; "
        "see logs/, or allow more on a busy machine"
    )


AGENT = NodeId("agent", 0)
OTHER = NodeId("agent", 1)
SILENT = "no heartbeat for 5 s; it is stopped or hangs (runtime.lease_s allows more)"
LATE = "it has not connected within runtime.start_deadline_s=60"


def agents(*ready: NodeId) -> AgentLeases:
    leases = AgentLeases(lease_s=5.0, start_deadline_s=60.0, period_s=0.5)
    for agent in (AGENT, OTHER):
        leases.started(agent, 0.0)
    for agent in ready:
        leases.ready(agent, 0.0)
    leases.renew(0.0)
    return leases


def lost_at(leases: AgentLeases, agent: NodeId, until_s: float, begin_s: float = 0.0) -> tuple[float, str] | None:
    """When an agent counts as lost, with the reason, at a look every period; None: not until then."""
    for step in range(1, round((until_s - begin_s) / 0.5) + 1):
        leases.look(now_s := begin_s + 0.5 * step)
        if (why := leases.why_lost(agent, now_s)) is not None:
            return now_s, why
    return None


def test_an_agent_that_stops_speaking_is_lost_after_its_lease_and_one_that_starts_after_its_deadline() -> None:
    assert lost_at(agents(AGENT), AGENT, 70.0) == (5.5, SILENT)
    assert lost_at(agents(AGENT), OTHER, 70.0) == (60.5, LATE)
    leases = agents(AGENT)
    for now_s in range(1, 30):
        leases.heard(AGENT, float(now_s))
        assert lost_at(leases, AGENT, now_s + 1.0, float(now_s)) is None
    assert lost_at(leases, AGENT, 60.0, 30.0) == (34.5, SILENT)
    leases = agents(AGENT)
    leases.look(3.0)
    leases.started(AGENT, 3.0)
    assert lost_at(leases, AGENT, 63.0, 3.0) is None
    assert lost_at(leases, AGENT, 64.0, 63.0) == (63.5, LATE)
    leases = agents(AGENT)
    assert lost_at(leases, AGENT, 4.0) is None
    leases.heard(AGENT, 4.0)
    leases.renew(0.0)
    assert lost_at(leases, AGENT, 5.0) is None
    assert lost_at(leases, AGENT, 6.0, 5.0) == (5.5, SILENT)


def test_a_driver_that_was_stopped_or_is_always_late_loses_who_is_silent_and_nobody_else() -> None:
    leases = agents(AGENT, OTHER)
    leases.look(0.5)
    leases.look(3600.0)
    assert [leases.why_lost(agent, 3600.0) for agent in (AGENT, OTHER)] == [None, None]
    leases.heard(OTHER, 3600.5)
    assert lost_at(leases, AGENT, 3610.0, 3600.0) == (3604.5, SILENT)
    assert leases.why_lost(OTHER, 3604.5) is None
    leases, now_s = agents(AGENT), 0.0
    for _ in range(9):
        leases.look(now_s := now_s + 4.0)
        assert leases.why_lost(AGENT, now_s) is None
    for _ in range(2):
        leases.look(now_s := now_s + 4.0)
    assert leases.why_lost(AGENT, now_s) == SILENT
