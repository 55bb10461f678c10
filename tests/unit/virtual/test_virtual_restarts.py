"""KILL_RESTART and the checkpoint-based fail-over on the virtual clock."""

from __future__ import annotations

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.virtual.costs import Costs
from strategies.basic.bsp import BSP
from strategies.protocol import Strategy
from tests.support.labs import run_alone
from tests.support.restarting import Restarting
from tests.unit.virtual.test_virtual_session import (
    finish,
    ledger,
    session,
    virtual_job,
)

COSTS = Costs(pending_s=50.0, launch_s=0.5, control_s=0.01, checkpoint_base_s=0.05, disk_bytes_per_s=1600.0)
"""A node that crashes is pending for 50 s; how long one that a strategy restarts is, the scheduler says."""


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


def test_servers_are_watched() -> None:
    """Every update is reported once; work since the last report goes only to the record, at the end. A strategy that
    does not watch servers receives nothing."""
    watching = Restarting(rule="bsp")
    job = virtual_job(4, 32, epochs=3, num_servers=2)
    run, tape = session(watching, job, COSTS, model_state=ledger(job, watching))
    end_s = finish(run, tape).t
    received, after = tape.received("Updated"), tape.noted("Updated")
    assert sorted(note["server"] for _, note in after) == [0, 1]
    assert {t for t, _ in after} == {end_s}
    for server in (0, 1):
        updates = sum(event["updates"] for event in received if event["server"] == server)
        assert 24 - updates == sum(note["updates"] for _, note in after if note["server"] == server) == 1
    run, tape = session(BSP(), job, COSTS, model_state=ledger(job, BSP()))
    finish(run, tape)
    assert not tape.received("Updated")
    assert sum(note["updates"] for _, note in tape.noted("Updated")) == 2 * 24
