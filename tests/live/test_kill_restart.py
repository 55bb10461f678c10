"""KILL_RESTART with real processes: the ledger proves what each sample went through."""

from __future__ import annotations

import pytest

from tests.live.test_faults import PACED
from tests.support.exact import ALLOW, assert_sound, assert_uses_are_exact, end_exactly
from tests.support.invariants import problems
from tests.support.leaks import Start
from tests.support.runs import CONF, LEDGER

pytestmark = pytest.mark.live

RESTARTING = (*LEDGER, *PACED, *CONF, "strategy=restarting", "save_parameters=true")
ENDLESS = (*RESTARTING, "workload.epochs=null")


def restarts(*orders: str) -> str:
    return f"strategy.orders=[{','.join(repr(order) for order in orders)}]"


@pytest.mark.parametrize(("rule", "transport"), [("bsp", "tcp"), pytest.param("asp", "shm", marks=pytest.mark.long)])
def test_a_worker_is_restarted_elsewhere_while_the_others_go_on(start: Start, rule: str, transport: str) -> None:
    where = (f"strategy.rule={rule}", f"topology.transport={transport}", "scheduler.pending_s=0.5")
    run = start("run", *ENDLESS, *where, restarts("worker:1@0.5"), env=ALLOW)
    (joined,) = run.await_events("Joined")
    (lost,) = run.events("Lost")
    assert (lost["worker"], lost["restarting"], lost["reason"]) == (1, False, "restarted by the strategy")
    assert (joined["worker"], joined["incarnation"]) == (1, 1)
    assert joined["t"] - lost["t"] >= 0.5
    between = [event for event in run.events("Arrived") if lost["t"] < event["t"] < joined["t"]]
    assert {event["grad"]["worker"] for event in between} == {0, 2, 3}
    run.await_progress(20)
    late = [event["grad"]["worker"] for event in run.events("Arrived") if event["t"] > joined["t"]]
    assert 1 in late
    run.interrupt()
    assert not run.events("ServerLost")
    assert_uses_are_exact(run)
    assert problems(run.lines()) == []


@pytest.mark.long(like="test_a_checkpoint_based_failover_takes_everybody_back")
@pytest.mark.parametrize("rule", ["bsp", pytest.param("asp", marks=pytest.mark.long)])
def test_a_restarted_server_loses_nothing_that_was_applied(start: Start, rule: str) -> None:
    """No periodic checkpoint but the first: what it comes back with was stored for it."""
    more = (f"strategy.rule={rule}", "checkpoint_every_s=null", "topology.num_servers=3", "scheduler.pending_s=0.2")
    run = start("run", *ENDLESS, *more, restarts("server:1@0.8"), env=ALLOW)
    (restored,) = run.await_events("Restored")
    (lost,) = run.events("ServerLost")
    before = max(line["version"] for line in run.lines() if line["kind"] == "event" and line["t"] < lost["t"])
    assert restored["version"] == before > 0
    assert restored["t"] - lost["t"] >= 0.2
    run.await_progress(20)
    end_exactly(run)


@pytest.mark.long(like="test_a_checkpoint_based_failover_takes_everybody_back")
@pytest.mark.parametrize("failover", ["shards", "checkpoint"])
def test_a_whole_cluster_is_restarted_from_a_checkpoint(start: Start, failover: str) -> None:
    """Sync-Switch as published, and a worker that dies in the middle of it."""
    switch = ("strategy=sync_switch_restart", "strategy.straggler_policy=none", "strategy.bsp_frac=0.5")
    where = ("topology.num_servers=2", "scheduler.pending_s=0.2", f"failover={failover}", "save_parameters=true")
    run = start("run", *LEDGER, *PACED, *switch, *where)
    run.await_events("ServerLost")
    assert run.unregister(("worker", 2))
    run.finish()
    ordered = [note["node"] for note in run.notes("Restarting")]
    assert sorted(ordered) == ["server:0", "server:1", *(f"worker:{worker}" for worker in range(4))]
    assert ordered[:2] == ["server:0", "server:1"]
    versions = {event["version"] for event in run.events("Restored")}
    assert len(versions) == 1, "nothing that was applied is lost"
    assert (run.parameters() == run.finished["epochs_done"]).all()
    assert run.finished["status"] == "done"
    applied = [len(c["grads"]) for line in run.lines() for c in line.get("commands", ()) if c["type"] == "Apply"]
    assert (applied[0], applied[-1]) == (4, 1)
    assert_sound(run)


@pytest.mark.parametrize("strategy", ["bsp", pytest.param("asp", marks=pytest.mark.long)])
def test_a_checkpoint_based_failover_takes_everybody_back(start: Start, strategy: str) -> None:
    endless = (*LEDGER, *PACED, "workload.epochs=null", "save_parameters=true")
    run = start("run", *endless, f"strategy={strategy}", "failover=checkpoint")
    run.await_notes("Checkpointed", 3)
    assert run.unregister(("worker", 1))
    (restored,) = run.await_events("Restored")
    (lost,) = run.events("Lost")
    assert (lost["worker"], lost["restarting"]) == (1, True)
    assert not run.events("ServerLost")
    assert restored["workers"] == [0, 1, 2, 3]
    stored = {note["version"] for note in run.notes("Checkpointed")}
    assert restored["version"] in stored
    run.await_progress(20)
    end_exactly(run)
