"""Decisions of the throttles, on a fake machine: who is paused when, and what the next incarnation gets."""

from __future__ import annotations

import math

import pytest

from injectors.actuators.cpulimit import RETRY_S, Enforced
from injectors.actuators.duty import TICK_S
from injectors.actuators.throttles import CpuRule
from tests.support.throttled_machine import GO, KILL, TERM, Machine


def limited() -> Machine:
    """One process, of worker 0, that a cpulimit holds to a quarter of a core."""
    machine = Machine(1)
    machine.throttles.started("worker:0", "", 1)
    machine.throttles.set_cpu("worker:0", 0.25, "cpulimit")
    return machine


def test_a_process_goes_on_when_the_last_reason_goes() -> None:
    machine = Machine(1)
    for reason in ("pause", "duty"):
        machine.stops.hold(1, reason)
    assert machine.stops.reasons(1) == ["duty", "pause"]
    machine.stops.release(1, "pause")
    assert machine.stopped == {1}
    machine.stops.release(1, "duty")
    assert machine.stopped == set()
    machine.sent.clear()
    machine.stops.release(1, "duty")
    assert machine.sent == [], "nobody is continued whom we have not stopped"


def test_one_cpulimit_at_a_time_whatever_is_asked_meanwhile() -> None:
    machine = Machine(1)
    machine.throttles.started("worker:0", "", 1)
    assert machine.throttles.set_cpu("worker:0", 0.25, "cpulimit") == pytest.approx(0.25, rel=0.01)
    assert machine.started == [["/bin/cpulimit", "-p", "1", "-l", "21", "-z"]]
    for cores in (0.5, 0.75):
        machine.throttles.set_cpu("worker:0", cores, "cpulimit")
    assert machine.sent == [(9001, TERM), (9001, GO)], "ended once, and continued to receive the signal"
    machine.reap(9001, 0)
    assert machine.started[1:] == [["/bin/cpulimit", "-p", "1", "-l", "76", "-z"]]
    assert (9001, KILL) not in machine.sent


def test_a_cpulimit_that_ends_leaves_nobody_stopped_and_is_not_started_in_a_circle() -> None:
    machine = limited()
    machine.pass_(RETRY_S)
    machine.stopped.add(1)
    machine.reap(9001, KILL)
    assert machine.stopped == set()
    (state,) = machine.throttles.state().tasks.values()
    assert state.cpulimit == Enforced(pid=9002, percent=21, restarts=1, last_exit=-9)
    machine = limited()
    machine.pass_(0.1)
    machine.reap(9001, 127 << 8)
    assert len(machine.started) == 1
    assert machine.throttles.tick(machine.now) == pytest.approx(RETRY_S - 0.1)
    machine.pass_(RETRY_S)
    assert machine.throttles.tick(machine.now) == math.inf
    assert len(machine.started) == 2


def test_a_limit_rests_while_its_process_pauses() -> None:
    machine = limited()
    assert machine.throttles.freeze("worker:0", True) == 1
    assert (9001, TERM) in machine.sent
    machine.stopped.discard(1)  # the last that cpulimit does is to continue its process
    machine.reap(9001, 0)
    assert machine.stopped == {1}
    assert len(machine.started) == 1
    assert machine.throttles.freeze("worker:0", False) == 0
    assert machine.stopped == set()
    assert len(machine.started) == 2


def test_nothing_is_sent_to_a_number_that_may_be_somebody_elses() -> None:
    machine = limited()
    machine.throttles.ended("worker:0", 1)
    machine.reap(9001, 0)
    machine.throttles.close()
    assert {pid for pid, _ in machine.sent} == {9001}
    assert len(machine.started) == 1


def test_the_next_incarnation_gets_the_rules_again() -> None:
    machine = Machine(1, 2)
    for task, pid in (("worker:0", 1), ("worker:1", 2)):
        machine.throttles.started(task, "", pid)
    machine.throttles.set_cpu("worker:0", 0.25, "cpulimit")
    machine.throttles.freeze("worker:1", True)
    machine.fork(11, 12)
    for task, pid in (("worker:0", 1), ("worker:1", 2)):
        machine.throttles.ended(task, pid)
        machine.throttles.started(task, "", pid + 10)
    assert machine.started[1][:3] == ["/bin/cpulimit", "-p", "11"]
    assert machine.stopped >= {12}
    assert not machine.stopped & {11}


def test_a_host_in_debt_holds_who_comes_back_to_it() -> None:
    machine = Machine(1)
    machine.throttles.started("worker:0", "host:0", 1)
    machine.throttles.set_cpu("host:0", 0.1)
    machine.run(2 * TICK_S)
    machine.throttles.ended("worker:0", 1)
    del machine.cpu_s[1]
    machine.fork(2)
    machine.throttles.started("worker:0", "host:0", 2)
    machine.run(10.0)
    assert machine.cpu_s[2] == pytest.approx(1.0, rel=0.02)


def test_what_works_against_each_other_is_refused_and_changes_nothing() -> None:
    machine = Machine(1, 2)
    machine.throttles.started("worker:0", "host:0", 1)
    machine.throttles.started("worker:1", "host:1", 2)
    machine.throttles.set_cpu("host:0", 0.5)
    machine.throttles.set_cpu("worker:1", 0.5, "cpulimit")
    before = machine.throttles.state()
    for target, by, words in (
        ("worker:0", "cpulimit", "works against duty of host:0"),
        ("worker:7", "cpulimit", "works against duty of host:0"),
        ("host:1", "duty", "works against cpulimit of worker:1"),
        ("host:0", "cpulimit", "a host has several"),
        ("worker:0", "nice", "they are duty and cpulimit"),
    ):
        with pytest.raises(ValueError, match=words):
            machine.throttles.set_cpu(target, 0.25, by)
    assert machine.throttles.state() == before
    machine.throttles.set_cpu("worker:1", 0.25)
    machine.throttles.set_cpu("host:1", 0.25)
    assert machine.throttles.state().cpu["worker:1"] == CpuRule(cores=0.25, by="duty")


def test_the_state_tells_rules_and_reasons() -> None:
    machine = Machine(1)
    machine.throttles.started("worker:0", "host:0", 1)
    machine.throttles.set_cpu("host:0", 0.1)
    machine.throttles.freeze("worker:0", True)
    machine.throttles.tick(machine.now)
    machine.cpu_s[1] += 1.0
    machine.throttles.tick(machine.now + TICK_S)
    state = machine.throttles.state()
    assert state.cpu == {"host:0": CpuRule(cores=0.1, by="duty")}
    assert state.frozen == ["worker:0"]
    assert state.tasks["worker:0"].stopped_by == ["duty host:0", "pause"]
    machine.throttles.close()
    assert machine.stopped == set()
    assert machine.throttles.state().cpu == {}
