"""A gate of one method: when it is asked, and what it sees."""

from __future__ import annotations

from dataclasses import dataclass, field

from strategies.parts.gates import QuorumGate
from strategies.parts.gates.base import NOTHING
from tests.support.grads import make_grad


@dataclass(kw_only=True)
class WithoutGate(QuorumGate):
    """It does not wait for some workers."""

    without: set[int] = field(default_factory=set)
    asked: list[tuple[set[int], set[int]]] = field(default_factory=list)

    def enough(self) -> bool:
        self.asked.append((set(self.buffer), set(self.missing)))
        return self.missing <= self.without


def test_it_is_asked_while_some_wait_and_some_are_missing() -> None:
    gate = WithoutGate(without={2})
    assert gate.begin((0, 1, 2), 0) == (0, 1, 2)
    assert gate.arrived(make_grad(0)) == NOTHING
    verdict = gate.arrived(make_grad(1))
    assert ([one.worker for one in verdict.apply], verdict.go) == ([0, 1], (0, 1))
    assert gate.asked == [({0}, {1, 2}), ({0, 1}, {2})]
    assert gate.members == {0, 1, 2}
    assert gate.version == 1


def test_what_all_have_delivered_is_enough_without_a_question() -> None:
    gate = WithoutGate()
    gate.begin((0, 1), 0)
    gate.arrived(make_grad(0))
    gate.asked.clear()
    assert gate.lost(1, restarting=True) == NOTHING
    assert [one.worker for one in gate.lost(1, restarting=False).apply] == [0]
    assert gate.joined(1) == NOTHING
    verdict = gate.lost(0, restarting=False)
    assert (verdict.apply, verdict.go, verdict.opens) == ((), (1,), True)
    assert gate.asked == []
