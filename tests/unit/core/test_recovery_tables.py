"""The tables of transitions: no other step is let through."""

from __future__ import annotations

from itertools import product

import pytest

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


@pytest.mark.parametrize(
    ("table", "states", "steps"), [(TASK_TABLE, TaskState, TaskStep), (PHASE_TABLE, Phase, PhaseStep)]
)
def test_what_the_table_does_not_have_is_refused(table: object, states: object, steps: object) -> None:
    for state, step in product(states, steps):  # type: ignore[call-overload]
        if step in table[state]:  # type: ignore[index]
            assert after(table, state, step, "it", ()) in states  # type: ignore[type-var, arg-type, operator]
            continue
        for before, said in ((("a", "b"), "a; b"), ((), "nothing")):
            with pytest.raises(ImpossibleTransitionError, match=rf"it is {state}: {step} is impossible .*: {said}\)$"):
                after(table, state, step, "it", before)  # type: ignore[type-var, arg-type]
