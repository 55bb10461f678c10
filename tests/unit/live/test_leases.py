"""Who is given up for silence, and who is not."""

from __future__ import annotations

from typing import Any

import msgspec

from runtime.core.recovery.states import TaskState
from runtime.core.recovery.task import TaskLife
from runtime.live.control.leases import Leases
from runtime.live.control.settings import Settings
from runtime.live.control.tasks import Task

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


def test_who_is_connected_has_a_lease_and_who_starts_a_deadline() -> None:
    assert given_up(watched(worker(0, connected=True), worker(1)), until_s=2.0) == []
    assert given_up(watched(worker(0, connected=True), worker(1)), until_s=2.5) == ["worker 0"]
    assert given_up(watched(worker(0, connected=True), worker(1)), until_s=10.5) == ["worker 0", "worker 1"]


def test_who_starts_while_the_job_runs_has_less() -> None:
    leases = watched(worker())
    leases.started(0.0)
    assert given_up(leases, until_s=6.0) == []
    assert given_up(leases, until_s=6.5) == ["worker 0"]


def test_who_starts_on_a_gpu_owes_heartbeats_from_the_end_of_its_start_on() -> None:
    settings = msgspec.structs.replace(SETTINGS, starts_silently=True)
    tasks = [worker(0, connected=True), worker(1, TaskState.READY, connected=True), worker(2)]
    assert given_up(watched(*tasks, settings=settings), until_s=10.0) == ["worker 1"]
    assert given_up(watched(*tasks, settings=settings), until_s=10.5) == ["worker 1", "worker 0", "worker 2"]


def test_who_has_left_or_is_not_to_start_yet_owes_nothing() -> None:
    idle = [worker(0, TaskState.LEFT), worker(1, TaskState.HELD), worker(2, TaskState.PENDING)]
    assert given_up(watched(*idle), until_s=20.0) == []


def test_after_a_pause_of_our_own_everybody_has_a_whole_lease_again() -> None:
    leases = watched(worker(connected=True))
    assert list(leases.overdue(60.0)) == []
    assert list(leases.overdue(60.5)) == []
    silent = [reason for step in range(2, 6) for _, reason in leases.overdue(60.0 + 0.5 * step)]
    assert silent == ["no heartbeat for 2.5 s"]


def test_a_few_of_those_who_are_missing_are_named() -> None:
    server = Task(life=TaskLife(role="server", id=0))
    leases = watched(server, *(worker(number) for number in range(6)), worker(6, TaskState.ATTACHED))
    assert leases.not_ready() == (
        "not ready after runtime.start_deadline_s=10: worker 0, worker 1, worker 2, worker 3 and others; "
        "see logs/, or allow more on a busy machine"
    )
