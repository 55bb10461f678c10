"""Initial parameters in parts: of tasks that offer them, and of all others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.backends.initial import Initial, Part, wrong_part

WHOLE = np.arange(10, dtype=np.float32)


class Whole:
    """A task that draws all of them."""

    def initial_parameters(self, seed: int) -> NDArray[np.float32]:
        return WHOLE + seed


class InParts(Whole):
    """A task that can draw a part; whose sign is another one here."""

    num_parameters = len(WHOLE)

    def initial_part(self, seed: int, lo: int, out: NDArray[np.float32]) -> None:
        out[:] = -self.initial_parameters(seed)[lo : lo + len(out)]


class Redrawn(InParts):
    """A class of one's own that overrides the whole and knows of no parts."""

    def initial_parameters(self, seed: int) -> NDArray[np.float32]:
        return WHOLE * 10


class OfTheFramework(InParts):
    initial_parameters = None  # type: ignore[assignment]


class Uncounted(InParts):
    num_parameters = None  # type: ignore[assignment]


class Right(InParts):
    def initial_part(self, seed: int, lo: int, out: NDArray[np.float32]) -> None:
        out[:] = self.initial_parameters(seed)[lo : lo + len(out)]


class TooShort(Right):
    num_parameters = 9


class Backend:
    """Like any that asks the task."""

    def initial_parameters(self, task: Any, seed: int) -> NDArray[np.float32]:
        drawn: NDArray[np.float32] = task.initial_parameters(seed) if task.initial_parameters else -WHOLE
        return drawn


@pytest.mark.parametrize(("task", "sign"), [(Whole(), 1), (InParts(), -1)])
def test_a_part_as_often_as_needed(task: Any, sign: int) -> None:
    values, kept = np.ones(3, np.float32), np.zeros(3, np.float32)
    copied = Part.of(values)
    values[:] = 5
    copied.fill(kept)
    assert kept.tolist() == [1, 1, 1], "values are kept whatever becomes of them"
    initial = Initial(Backend(), task, 2)  # type: ignore[arg-type]
    assert initial.num_parameters == len(WHOLE)
    part = initial.part(3, 7)
    assert part.size == 4
    for _ in range(2):
        out = np.full(4, np.nan, np.float32)
        part.fill(out)
        assert out.tolist() == [sign * value for value in (5, 6, 7, 8)]


def test_a_class_that_overrides_the_whole_has_no_part_of_it() -> None:
    out = np.empty(4, np.float32)
    for task, values in ((Redrawn(), WHOLE * 10), (OfTheFramework(), -WHOLE), (Uncounted(), WHOLE + 2)):
        initial = Initial(Backend(), task, 2)  # type: ignore[arg-type]
        initial.part(3, 7).fill(out)
        assert out.tolist() == values[3:7].tolist()
        assert initial.num_parameters == len(WHOLE)


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (Right(), ""),
        (Redrawn(), ""),
        (Whole(), ""),
        (InParts(), "initial_part: of [0, 3) has other values than initial_parameters; make them equal to the bit"),
        (TooShort(), "initial_parameters: returns 10 values, and num_parameters=9"),
    ],
)
def test_what_is_wrong_with_a_part(task: Any, said: str) -> None:
    assert wrong_part(task, 2) == said
