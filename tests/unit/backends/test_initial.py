"""Initial parameters in parts: of tasks that offer them, and of all others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.backends.initial import Initial, Part

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


class Backend:
    """Like any that asks the task."""

    def initial_parameters(self, task: Any, seed: int) -> NDArray[np.float32]:
        drawn: NDArray[np.float32] = task.initial_parameters(seed)
        return drawn


@pytest.mark.parametrize(("task", "sign"), [(Whole(), 1), (InParts(), -1)])
def test_a_part_as_often_as_needed(task: Any, sign: int) -> None:
    initial = Initial(Backend(), task, 2)  # type: ignore[arg-type]
    assert initial.num_parameters == len(WHOLE)
    part = initial.part(3, 7)
    assert part.size == 4
    for _ in range(2):
        out = np.full(4, np.nan, np.float32)
        part.fill(out)
        assert out.tolist() == [sign * value for value in (5, 6, 7, 8)]


def test_values_are_kept_whatever_becomes_of_them() -> None:
    values, out = np.ones(3, np.float32), np.zeros(3, np.float32)
    part = Part.of(values)
    values[:] = 5
    part.fill(out)
    assert out.tolist() == [1, 1, 1]
