"""Changes of a plan's windows are notified once, at their time (with fakes for machines and supervisor)."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.cluster.gpu_hogs import DeviceUsers
from runtime.cluster.hosts import Hosts, Placement, parse_hosts
from runtime.virtual.clock import PLAN
from runtime.virtual.control.places import Places
from runtime.virtual.control.windows import Windows
from runtime.virtual.costs import Costs
from runtime.virtual.machines.kernel import new_clock

USERS = DeviceUsers((0,), 4)
"""All workers on one device."""

Told = list[tuple[float, str, str]]


def told(*windows: dict[str, Any], hosts: Hosts | None = None, moves: tuple[tuple[float, str], ...] = ()) -> Told:
    """(time, what, target) of every notification until the plan is over."""
    clock, found = new_clock(), list[tuple[float, str, str]]()

    def change(target: str, kind: str, level: float) -> list[str]:
        found.append((clock.now, f"{kind} {level:g}", target))
        return []

    supervisor = SimpleNamespace(
        hold=lambda task, moved: found.append((clock.now, "hold", task)),
        release=lambda task: found.append((clock.now, "release", task)),
        watch=lambda task: None,
    )
    machines = SimpleNamespace(
        change=change, paused_since_s={}, move=lambda task, host: None, moved=lambda task, device: None
    )
    plan = build_plan("test", 0, 100.0, [Disturbance(**window) for window in windows])
    placement = None if hosts is None else Placement(hosts)
    places = Places(placement, machines, machines, machines, Costs())  # type: ignore[arg-type]
    told_by = Windows(clock, Schedule(plan), places, supervisor, print, USERS)  # type: ignore[arg-type]
    told_by.begin()
    for at_s, task in moves:
        clock.at(at_s, PLAN, told_by.moved, task)
    while clock.next_s < math.inf:
        clock.step()
    return found


def window(kind: str, target: str, start_s: float, end_s: float, magnitude: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "target": target, "start_s": start_s, "end_s": end_s, "magnitude": magnitude, **more}


def test_who_moves_leaves_a_window_behind_and_the_others_come_at_their_time() -> None:
    slow_machine = window("cpu", "worker:0", 4.0, 6.0, 0.5, of_machine=True)
    later = window("pause", "worker:1", 8.0, 9.0)
    assert told(slow_machine, later, moves=((2.0, "worker:0"),)) == [
        (8.0, "pause 1", "worker:1"),
        (9.0, "pause 0", "worker:1"),
    ]


def test_who_is_dead_is_not_killed_again_by_its_host() -> None:
    hosts = parse_hosts({"count": 2, "placement": [["worker:0", "worker:1"], ["server:0"]]}, 2, 1)
    own, all_of_host = window("kill", "worker:0", 1.0, 5.0), window("kill", "host:0", 2.0, 8.0)
    assert told(own, all_of_host, hosts=hosts) == [
        (1.0, "hold", "worker:0"),
        (2.0, "hold", "worker:1"),
        (8.0, "release", "worker:0"),
        (8.0, "release", "worker:1"),
    ]


def test_who_is_moved_from_a_dead_host_comes_back() -> None:
    """Worker 0 at once; worker 1, whose own window is open, when that closes; nobody for the end of the old host's."""
    hosts = parse_hosts({"count": 2, "placement": [["worker:0", "worker:1"], ["server:0"]]}, 2, 1)
    host, own = window("kill", "host:0", 1.0, 9.0), window("kill", "worker:1", 2.0, 5.0)
    assert told(host, own, hosts=hosts, moves=((3.0, "worker:0"), (4.0, "worker:1"))) == [
        (1.0, "hold", "worker:0"),
        (1.0, "hold", "worker:1"),
        (3.0, "release", "worker:0"),
        (5.0, "release", "worker:1"),
    ]


def test_what_a_stronger_window_has_hidden_ends_in_time_after_a_move() -> None:
    strong, weak = (
        window("cpu", "worker:0", 2.0, 20.0, 0.25, of_machine=True),
        window("cpu", "worker:0", 1.0, 10.0, 0.5),
    )
    assert told(strong, weak, moves=((3.0, "worker:0"),)) == [
        (1.0, "cpu 0.5", "worker:0"),
        (2.0, "cpu 0.25", "worker:0"),
        (3.0, "cpu 0.5", "worker:0"),
        (10.0, "cpu 1", "worker:0"),
    ]
