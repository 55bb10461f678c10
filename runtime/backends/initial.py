"""Initial parameters for tasks that need nothing else of a model: servers and aggregators.

A task that draws its own may offer a part of them (``initial_part(seed, lo, out)``, with ``num_parameters``): then
nobody needs the memory and the time of the others' parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from runtime.backends.base import Backend
from runtime.core.vectors import FloatVector


class Part(NamedTuple):
    """A part of the parameters, and how to write its initial values to a vector of that size, as often as needed."""

    size: int
    fill: Callable[[FloatVector], object]

    @classmethod
    def of(cls, values: FloatVector) -> Part:
        """These values, of which it keeps a copy."""
        kept = values.copy()
        return cls(len(kept), lambda out: np.copyto(out, kept))


@final
class Initial:
    """The initial parameters of ``task``, of which there are ``num_parameters``."""

    def __init__(self, backend: Backend, task: Any, seed: int) -> None:
        self._draw = partial(task.initial_part, seed) if hasattr(task, "initial_part") else None
        self._whole: FloatVector | None = None
        if self._draw is None:
            self._whole = backend.initial_parameters(task, seed)
        self.num_parameters: int = task.num_parameters if self._whole is None else len(self._whole)

    def part(self, lo: int, hi: int) -> Part:
        """[lo, hi) of them."""
        if self._draw is None:
            assert self._whole is not None
            return Part.of(self._whole[lo:hi])
        return Part(hi - lo, partial(self._draw, lo))
