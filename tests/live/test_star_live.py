"""STAR-H with real processes: a worker is slow by turns, the mode changes, a process dies meanwhile."""

from __future__ import annotations

import pytest

from stragglab.vouching.replaying import build_strategy
from strategies.star import Star
from tests.live.test_faults import ENDLESS
from tests.support.exact import assert_sound, assert_uses_are_exact
from tests.support.leaks import Start
from tests.support.runs import Run

pytestmark = pytest.mark.live

BY_TURNS = (
    "straggler=on_off",
    "straggler.kind=slowdown",
    "straggler.magnitude=5",
    "straggler.on_s=0.6",
    "straggler.off_s=0.4",
)
STAR = ("strategy=star_h", "strategy.decision_s=0.01")


def reached(run: Run, name: str) -> int:
    """The latest number of that name in what the strategy logs."""
    states = (line["state"] for line in reversed(run.lines()) if line.get("state"))
    return next((int(state[name]) for state in states if name in state), 0)


def test_a_worker_dies_while_the_mode_changes(start: Start) -> None:
    run = start("run", *ENDLESS, *BY_TURNS, *STAR)
    run.await_that(lambda: reached(run, "switches") >= 1, "a first change of the mode")
    assert run.unregister(("worker", 1))
    (joined,) = run.await_events("Joined")
    assert (joined["worker"], joined["incarnation"]) == (1, 1)
    before = reached(run, "switches")
    run.await_that(lambda: reached(run, "switches") >= before + 2, "changes of the mode with the new process")
    run.interrupt()
    assert isinstance(build_strategy(run.run_dir), Star)
    assert reached(run, "decisions") >= 2
    assert [event["worker"] for event in run.events("Lost")] == [1]
    assert_uses_are_exact(run)
    assert_sound(run)
