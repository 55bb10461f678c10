"""The gate of Sync-Switch: who is left out, who is probed, and when all are back."""

from __future__ import annotations

from strategies.parts.gates import Verdict
from strategies.parts.gates.base import NOTHING
from strategies.sync_switch.switching import SwitchingGate
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


def test_switching_does_not_probe_who_was_lost_and_is_back_as_a_member() -> None:
    gate = without({1, 3})
    assert gate.probe() == (1,)
    assert gate.lost(3, True) == NOTHING
    assert gate.joined(3).go == (3,)
    assert gate.arrived(grad(1)) == Verdict(drop=(grad(1),)), "worker 3 has an order already"
    assert [gate.arrived(grad(worker)) for worker in (0, 2)] == [NOTHING] * 2
    assert applied(gate.arrived(grad(3))) == [0, 2, 3]


def test_work_that_was_lost_once_is_computed_again_once() -> None:
    """Whoever has delivered since waits, also when its process restarts once more."""
    gate = opened(SwitchingGate(), range(3))
    gate.lost(1, True)
    assert gate.joined(1).go == (1,)
    assert gate.arrived(grad(1)) == NOTHING
    gate.lost(1, True)
    assert gate.joined(1) == NOTHING
