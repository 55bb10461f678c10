"""KILL_RESTART and the checkpoint-based fail-over on the virtual clock."""

from __future__ import annotations

from typing import Any

import pytest

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.core.scheduling import ConstantPending
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from strategies.basic.bsp import BSP
from strategies.protocol import Strategy
from tests.support.labs import run_alone
from tests.support.restarting import Restarting
from tests.unit.virtual.test_virtual_session import (
    Tape,
    accident,
    finish,
    ledger,
    session,
    unregister,
    uses,
    virtual_job,
)

COSTS = Costs(pending_s=50.0, launch_s=0.5, control_s=0.01, checkpoint_base_s=0.05, disk_bytes_per_s=1600.0)
"""A node that crashes is pending for 50 s; how long one that a strategy restarts is, the scheduler says."""


def restarting(
    *orders: str, rule: str = "bsp", pending_s: float = 2.0, **changes: object
) -> tuple[VirtualSession, Tape, float]:
    strategy = Restarting(rule=rule, orders=orders)
    job = virtual_job(4, 32, **{"epochs": 3, "num_servers": 2, "checkpoint_every_s": 1.0, **changes})  # type: ignore[arg-type]
    scheduler = ConstantPending(pending_s=pending_s)
    run, tape = session(strategy, job, COSTS, model_state=ledger(job, strategy), spec={"scheduler": scheduler})
    return run, tape, finish(run, tape).t


def test_a_worker_is_pending_then_launched_and_the_others_go_on() -> None:
    run, tape, _ = restarting("worker:1@1.6", epochs=6)
    [lost], [joined] = tape.received("Lost"), tape.received("Joined")
    assert (lost["t"], lost["worker"], lost["restarting"]) == (pytest.approx(1.6), 1, False)
    assert joined["t"] == pytest.approx(1.6 + 2.0 + 0.5 + 0.01, abs=0.02)
    assert (joined["worker"], joined["incarnation"]) == (1, 1)
    between = [event for event in tape.received("Arrived") if lost["t"] < event["t"] < joined["t"]]
    assert len({event["grad"]["iteration"] for event in between}) > 3
    assert {event["grad"]["worker"] for event in between} == {0, 2, 3}
    assert uses(run) == {6.0}


def test_a_server_comes_back_with_everything_that_was_applied() -> None:
    run, tape, _ = restarting("server:1@1.6")
    [lost], [back] = tape.received("ServerLost"), tape.received("Restored")
    applied = max(line["version"] for line in tape.plain() if line["kind"] == "event" and line["t"] <= 1.6)
    assert back["version"] == applied > 0
    assert lost["t"] == pytest.approx(1.6 + 0.01 + 0.09 + 0.01, abs=0.02)
    assert back["t"] == pytest.approx(lost["t"] + 2.0 + 0.5 + 0.09 + 0.01, abs=0.02)
    assert uses(run) == {3.0}


def test_the_machine_s_disturbance_stays_behind() -> None:
    """Worker 1 takes 1 s longer on its first machine; worker 2 wherever it is."""
    slow = [
        Disturbance(start_s=0.0, end_s=100.0, target=f"worker:{i}", kind="delay", magnitude=1.0, of_machine=i == 1)
        for i in (1, 2)
    ]
    for node, expected in (("worker:1", {1: 0.0, 2: 1.0}), ("worker:2", {1: 1.0, 2: 1.0})):
        strategy: Strategy = Restarting(rule="asp", orders=(f"{node}@3.0",))
        job = virtual_job(4, 400, epochs=None, max_time_s=12.0)
        run, tape = session(strategy, job, Costs(), actuator=Schedule(build_plan("test", 0, 100.0, slow)))
        run_alone(run)
        for worker, delay_s in expected.items():
            late = [e for e in tape.received("Arrived") if e["grad"]["worker"] == worker and e["t"] > 6.0]
            assert late[-1]["timings"]["injected_s"] == delay_s, (node, worker)


READING = Costs(launch_s=0.5, control_s=0.01, checkpoint_base_s=0.05, disk_bytes_per_s=1600.0)
GOES_BACK: dict[str, Any] = {"failover": "checkpoint"}


def test_a_checkpoint_based_failover_costs_everybody_their_work() -> None:
    """Lost at 2.3: the others wait; then everybody goes back to what was stored at 2.0."""
    strike = (2.3, unregister("worker:1"))
    run, tape, waits = accident(BSP(), READING, strike)
    assert (uses(run), tape.received("Restored")) == ({3.0}, [])
    run, tape, goes_back = accident(BSP(), READING, strike, **GOES_BACK)
    [back] = tape.received("Restored")
    assert back["t"] == pytest.approx(2.3 + 0.5 + 0.01 + 0.09 + 0.01, abs=0.02)
    assert uses(run) == {3.0}
    assert goes_back.t > waits.t + 0.09


def test_a_worker_that_is_lost_while_a_server_starts_keeps_nobody_waiting() -> None:
    """What the server's return had been scheduled for was void with the worker's loss, and was not scheduled again."""
    strikes = (2.3, unregister("server:1")), (2.5, unregister("worker:1"))
    run, tape, _ = accident(BSP(), READING, *strikes, **GOES_BACK)
    [back] = tape.received("Restored")
    assert back["t"] == pytest.approx(2.5 + 0.5 + 0.01 + 0.09 + 0.01)
    assert uses(run) == {3.0}


def test_servers_are_watched() -> None:
    """Every update is reported once; work since the last report goes only to the record, at the end. A strategy that
    does not watch servers receives nothing."""
    _, tape, end_s = restarting()
    received, after = tape.received("Updated"), tape.noted("Updated")
    assert sorted(note["server"] for _, note in after) == [0, 1]
    assert {t for t, _ in after} == {end_s}
    for server in (0, 1):
        updates = sum(event["updates"] for event in received if event["server"] == server)
        assert 24 - updates == sum(note["updates"] for _, note in after if note["server"] == server) == 1
    job = virtual_job(4, 32, epochs=3, num_servers=2)
    run, tape = session(BSP(), job, COSTS, model_state=ledger(job, BSP()))
    finish(run, tape)
    assert not tape.received("Updated")
    assert sum(note["updates"] for _, note in tape.noted("Updated")) == 2 * 24
