"""Every checker of virtual runs finds what is planted for it, and nothing where nothing is wrong."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import pytest

from runtime.virtual.clock import Clock
from runtime.virtual.tasks.iteration import Iteration
from tests.contract.test_checkers import AppliesTwice, ForgetsLostInItsMin, LosesASample, Sound, ThrowsDice
from tests.contract.test_virtual import (
    Make,
    dead,
    different,
    host_world_of,
    otherwise_disturbed,
    too_early,
    unconserved,
    unfair,
    unlawful,
    world_of,
)
from tests.support.invariants import replay
from tests.support.virtual_runs import Line, VirtualRun, World, draw_world, still_world


class ClockByWorker(Clock):
    """Ties go to the lowest worker."""

    def at(self, when_s: float, priority: int, action: Callable[..., None], *args: Any) -> None:
        worker = next((arg.order.worker for arg in args if isinstance(arg, Iteration)), 0)
        timeline, when_s = self.timeline, max(when_s, self.now)
        timeline.sequence += 1
        order = (worker << 40) + timeline.sequence
        heapq.heappush(timeline._heap, (when_s, 0.0, priority, order, self, when_s, action, args))


DRAW: dict[str, Callable[[int, int], World]] = {"plain": world_of, "still": still_world, "hosts": host_world_of}


def found(cls: Make, kind: str, wanted: set[str] | None = None) -> set[str]:
    """The checkers that complain about a strategy; those are enough that are ``wanted``."""
    complaining: set[str] = set()
    for seed in range(2 if wanted is None else 4):
        world = DRAW[kind](4, seed)
        run, again = VirtualRun(world, cls()), VirtualRun(world, cls())
        results = {
            "lawful": unlawful(run),
            "alive": dead(run),
            "conserving": unconserved(run),
            "deterministic": different(run, again),
            "replayable": replay(run.lines, cls()),
            "disturbed": otherwise_disturbed(run),
            "fair": unfair(run) if kind == "still" else [],
        }
        complaining |= {name for name, complaints in results.items() if complaints}
        if wanted is not None and complaining >= wanted:
            break
    return complaining


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", DRAW)
def test_nothing_is_found_where_nothing_is_wrong(kind: str) -> None:
    assert found(Sound, kind) == set()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("cls", "checkers"),
    [
        (ThrowsDice, {"deterministic", "replayable"}),
        (AppliesTwice, {"lawful", "alive"}),
        (LosesASample, {"conserving"}),
        (ForgetsLostInItsMin, {"alive"}),
    ],
)
def test_a_planted_fault_is_found(cls: Make, checkers: set[str]) -> None:
    assert found(cls, "plain", checkers) >= checkers


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
