"""What is counted along equals what a look at everything finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from strategies.parts.gates import Verdict
from strategies.parts.gates.groups import Places
from strategies.parts.monitoring.base import cluster_by_ratio
from strategies.protocol import Grad
from strategies.star.modal import ASGD, SSGD, ModalGate, Mode
from tests.support.scanning import ScanningModal, scanned_clusters

WORKERS, STEPS = 7, 120
MODES = [SSGD, ASGD, Mode(x=2), Mode(x=5), Mode(groups=((0, 1), (2, 3, 4), (5,))), Mode(groups=((5, 8), (0,)))]


class Twins:
    """Two gates that receive the same, and must answer alike; workers restart, leave for good, come and come back."""

    def __init__(self, gate: Any, oracle: Any, draw: random.Random) -> None:
        self.gates, self.draw = (gate, oracle), draw
        self.busy, self.away, self.gone = set[int](), set[int](), set[int]()
        self.count = self.newest = 0
        self.both(lambda gate: Verdict(go=gate.begin(range(WORKERS), 0)))
        self.newest = WORKERS

    def both(self, ask: Callable[[Any], Verdict | list[Verdict]]) -> None:
        answer, expected = map(ask, self.gates)
        assert answer == expected
        assert self.gates[0].log_state() == self.gates[1].log_state()
        for verdict in answer if isinstance(answer, list) else [answer]:
            self.busy.update(verdict.go)

    def members(self) -> list[int]:
        return [worker for worker in range(self.newest) if worker not in self.away | self.gone]

    def step(self, change: Callable[[Any], list[Verdict]]) -> None:
        draw, here = self.draw, sorted(self.busy - self.away)
        match draw.choice(["deliver"] * 8 + ["crash", "return", "leave", "enter", "change"]):
            case "deliver" if here:
                worker = draw.choice(here)
                self.busy.discard(worker)
                self.count += 1
                grad = Grad(
                    id=self.count, worker=worker, incarnation=0, iteration=0, version=0, samples=1, assigned_samples=1
                )
                self.both(lambda gate: gate.arrived(grad))
            case "crash" if here:
                worker = draw.choice(here)
                self.away.add(worker)
                self.both(lambda gate: gate.lost(worker, True))
            case "return" if self.away:
                worker = draw.choice(sorted(self.away))
                self.away.discard(worker)
                self.both(lambda gate: gate.joined(worker))
            case "leave" if len(members := self.members()) > 1:
                worker = draw.choice(members)  # whose gradient may be waiting
                self.busy.discard(worker)
                self.gone.add(worker)
                self.both(lambda gate: gate.lost(worker, False))
            case "enter":
                worker = draw.choice([self.newest, *sorted(self.gone)])
                self.newest += worker == self.newest
                self.gone.discard(worker)
                self.both(lambda gate: gate.joined(worker))
            case "change":
                self.both(change)


@pytest.mark.parametrize("seed", range(60))
def test_modes(seed: int) -> None:
    draw = random.Random(seed)
    gate, oracle = ModalGate(), ScanningModal()
    twins = Twins(gate, oracle, draw)
    for _ in range(STEPS):
        mode = draw.choice(MODES)
        twins.step(lambda gate, mode=mode: gate.switch(mode))  # type: ignore[misc]
        assert (gate.at.computing, [*gate.at.buffer.values()]) == (oracle.computing, oracle.buffer)


def test_a_place_that_miscounts_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a Compute in progress does not move with its worker."""
    divide = Places.divide

    def forgets(self: Places, of: dict[int, int]) -> None:
        before = getattr(self, "_coming", None)
        divide(self, of)
        self._coming = before or self._coming

    monkeypatch.setattr(Places, "divide", forgets)
    with pytest.raises(AssertionError):
        test_modes(0)


def test_clusters() -> None:
    """Many values are equal, so that ties decide."""
    draw = random.Random(0)
    for _ in range(1000):
        values = [draw.choice([1.0, 1.5, 2.0, 3.0, draw.uniform(1, 4)]) for _ in range(draw.randrange(12))]
        ratio, at_most = draw.choice([1.0, 1.1, 1.5, 2.0]), draw.choice([None, 1, 2, 5])
        assert cluster_by_ratio(values, ratio, at_most) == scanned_clusters(values, ratio, at_most)
