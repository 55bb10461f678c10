"""Sync-Switch: its gate, a relaunch of all nodes, and a pause."""

from __future__ import annotations

from strategies.parts.gates import Verdict
from strategies.parts.gates.base import NOTHING
from strategies.parts.nodes import TOO_EARLY_S, Pause, is_due
from strategies.protocol import Compute, Joined, Lost, Restored, ServerLost, Stop
from strategies.sync_switch.switching import SwitchingGate
from strategies.sync_switch.sync_then_async import Relaunch
from tests.unit.strategies.test_gates import applied, grad, opened


def without(slow: set[int], together: bool = True) -> SwitchingGate:
    """Of four workers, those left out that are slow."""
    gate = SwitchingGate(together=together)
    gate.slow = slow
    return opened(gate, range(4))


def computing(gate: SwitchingGate) -> list[int]:
    """Who has an order."""
    return sorted(gate.computing)


def test_switching_probes_one_after_the_other() -> None:
    """Worker 2 is probed when worker 1 has delivered, worker 3 when worker 2 is lost; no new series meanwhile."""
    gate = without({1, 2, 3})
    assert gate.probe() == (1,)
    assert gate.probe() == ()
    assert gate.arrived(grad(1)) == Verdict(drop=(grad(1),), go=(2,))
    assert gate.lost(2, True) == Verdict(go=(3,))
    assert gate.joined(2) == Verdict(go=(2,))
    assert gate.arrived(grad(3)) == Verdict(drop=(grad(3),))
    assert gate.probe() == (1,)


def test_who_was_lost_computes_again_once() -> None:
    gate = without({1, 3})
    assert gate.probe() == (1,)
    assert gate.lost(3, True) == NOTHING
    assert gate.joined(3).go == (3,)
    assert gate.arrived(grad(1)) == Verdict(drop=(grad(1),)), "worker 3 has an order already"
    assert [gate.arrived(grad(worker)) for worker in (0, 2)] == [NOTHING] * 2
    assert applied(gate.arrived(grad(3))) == [0, 2, 3]
    # Whoever has delivered since waits, also when its process restarts once more
    gate = opened(SwitchingGate(), range(3))
    gate.lost(1, True)
    assert gate.joined(1).go == (1,)
    assert gate.arrived(grad(1)) == NOTHING
    gate.lost(1, True)
    assert gate.joined(1) == NOTHING


def nodes(relaunch: Relaunch, idle: bool = True) -> list[str]:
    """What it commands now."""
    return [command.node for command in relaunch.proceed(idle)]


def lost(worker: int, restarting: bool = False) -> Lost:
    return Lost(t=1.0, worker=worker, incarnation=0, reason="killed", restarting=restarting)


def joined(worker: int) -> Joined:
    return Joined(t=2.0, worker=worker, incarnation=1)


def after_the_servers(*workers: int, num_servers: int = 1) -> Relaunch:
    """The servers have been restarted, and nobody else."""
    relaunch = Relaunch(workers, num_servers)
    relaunch.begin()
    for server in range(num_servers):
        assert nodes(relaunch) == [f"server:{server}"]
        assert nodes(relaunch) == [], "it is commanded once"
        relaunch.observe_event(ServerLost(t=1.0, server=server, incarnation=0, reason="killed"))
        assert nodes(relaunch) == []
        relaunch.observe_event(Restored(t=2.0, version=3, workers=workers))
    return relaunch


def test_a_relaunch_waits_for_its_own() -> None:
    relaunch = Relaunch(range(3), 0)
    relaunch.observe_event(lost(1))
    relaunch.begin()
    assert nodes(relaunch) == ["worker:0", "worker:2"]
    relaunch = after_the_servers(0, 1)
    relaunch.observe_event(lost(1, restarting=True))
    assert nodes(relaunch) == ["worker:0"]
    relaunch.observe_event(lost(0))
    relaunch.observe_event(joined(0))
    assert nodes(relaunch) == []
    assert relaunch.under_way, "worker 1 is not back"
    relaunch.observe_event(joined(1))
    assert nodes(relaunch) == []
    assert not relaunch.under_way
    relaunch = after_the_servers(0, 1)
    assert not relaunch.owns(lost(0))
    nodes(relaunch)
    assert relaunch.owns(lost(0))
    assert not relaunch.owns(lost(0, restarting=True))


def test_a_pause_holds_computes_until_it_is_due() -> None:
    pause, stop = Pause(until_s=5.0), Stop(reason="enough")
    assert pause.hold([Compute(worker=2, num_samples=1), stop]) == [stop]
    assert pause.hold([Compute(worker=0, num_samples=1)]) == []
    assert pause.hold([Compute(worker=1, num_samples=1)]) == []
    pause.forget(1)
    assert pause.ends(4.0) == []
    assert pause.ends(5.0) == [0, 2]
    assert pause.ends(6.0) == [], "once"
    assert pause.hold([Compute(worker=1, num_samples=1)]) == [Compute(worker=1, num_samples=1)]
    assert is_due(5.0 - TOO_EARLY_S / 2, 5.0)
    assert not is_due(5.0 - 2 * TOO_EARLY_S, 5.0), "it has been replaced by a later one"
