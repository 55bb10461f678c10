"""The checkers that only virtual runs have find what is planted for them; the others: ``test_checkers.py``."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import pytest

from runtime.virtual.clock import Clock
from runtime.virtual.tasks.iteration import Iteration
from tests.contract.test_checkers import Sound
from tests.contract.test_virtual import (
    otherwise_disturbed,
    too_early,
    unfair,
    world_of,
)
from tests.support.virtual_runs import Line, VirtualRun, draw_world, still_world


class ClockByWorker(Clock):
    """Ties go to the lowest worker."""

    def at(self, when_s: float, priority: int, action: Callable[..., None], *args: Any) -> None:
        worker = next((arg.order.worker for arg in args if isinstance(arg, Iteration)), 0)
        timeline, when_s = self.timeline, max(when_s, self.now)
        timeline.sequence += 1
        order = (worker << 40) + timeline.sequence
        heapq.heappush(timeline._heap, (when_s, 0.0, priority, order, self, when_s, action, args))


def test_a_wrong_clock_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [unfair(VirtualRun(still_world(4, seed), Sound())) for seed in range(2)] == [[]] * 2
    monkeypatch.setattr("runtime.virtual.control.session.new_clock", ClockByWorker)
    assert any(unfair(VirtualRun(still_world(4, seed), Sound())) for seed in range(4))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("kind", "spoil"),
    [
        ("Restored", lambda lines, at: lines[at]["event"].update(version=lines[at]["version"] + 1)),
        ("Joined", lambda lines, at: lines[at].update(t=lines[at]["t"] - 0.001)),
        ("Joined", lambda lines, at: lines.insert(at, lines[at])),
    ],
)
def test_an_impossible_return_is_found(kind: str, spoil: Callable[[list[Line], int], None]) -> None:
    """Without delays of decisions, whoever is away is back at the first possible moment."""
    drawn = (VirtualRun(draw_world(2, seed), Sound()) for seed in range(99))
    run = next(run for run in drawn if run.events(kind) and run.world.costs.decision_s == 0)
    lines = run.lines
    spoil(lines, next(at for at, line in enumerate(lines) if line.get("event", {}).get("type") == kind))
    assert too_early(lines, run.world)


def test_another_plan_is_found() -> None:
    world = world_of(4, 0)
    assert otherwise_disturbed(VirtualRun(world, Sound(), plan=world_of(4, 1).plan))
