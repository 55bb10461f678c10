"""The tables of transitions: all of them happen, no other is let through."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from random import Random

import pytest

from runtime.core.recovery import state as state_module
from runtime.core.recovery import task as task_module
from runtime.core.recovery.states import (
    PHASE_TABLE,
    TASK_TABLE,
    ImpossibleTransitionError,
    Phase,
    PhaseStep,
    TaskState,
    TaskStep,
    after,
)
from tests.support.recovery_world import World
from tests.unit.core.test_recovery import SIZES, begun, explore, play, rules

TABLES = {"tasks": (TASK_TABLE, TaskState, TaskStep), "phases": (PHASE_TABLE, Phase, PhaseStep)}


def rows(table: Mapping[object, Mapping[object, object]]) -> set[tuple[str, str]]:
    return {(str(state), str(step)) for state, ways in table.items() for step in ways}


@pytest.fixture(scope="module")
def taken() -> set[tuple[str, str]]:
    """Steps of random worlds, and of every restart: there chance too often has something go wrong meanwhile."""
    found: set[tuple[str, str]] = set()

    def watched(table: object, state: object, step: object, *about: object) -> object:
        found.add((str(state), str(step)))
        return after(table, state, step, *about)  # type: ignore[type-var, arg-type]

    with pytest.MonkeyPatch.context() as patch:
        for module in (state_module, task_module):
            patch.setattr(module, "after", watched)
        for seed in range(150):
            random = Random(seed)
            kind, size = random.choice(("live", "virtual")), random.choice(list(SIZES))
            chosen = rules(kind, random.choice(("shards", "checkpoint")), random.choice((None, 2)))
            play(World(chosen, *SIZES[size]), [random.randrange(10**6) for _ in range(60)])
        for workers, servers in ((1, 1), (2, 0)):
            explore(begun(rules("live", "shards"), workers, servers), ("restart",))
        explore(begun(rules("live", "shards"), 2, 1), ("hold", "dismiss"))
    return found


@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_reached(name: str, taken: set[tuple[str, str]]) -> None:
    assert rows(TABLES[name][0]) <= taken  # type: ignore[arg-type]


@pytest.mark.parametrize("name", TABLES)
def test_what_the_table_does_not_have_is_refused(name: str) -> None:
    table, states, steps = TABLES[name]
    for state, step in product(states, steps):
        if step in table[state]:  # type: ignore[index]
            assert after(table, state, step, "it", ()) in states  # type: ignore[type-var, arg-type, operator]
        else:
            with pytest.raises(ImpossibleTransitionError, match=f"it is {state}: {step} is impossible .*before: a; b"):
                after(table, state, step, "it", ("a", "b"))  # type: ignore[type-var, arg-type]
            with pytest.raises(ImpossibleTransitionError, match=r"before: nothing\)$"):
                after(table, state, step, "it", ())  # type: ignore[type-var, arg-type]
