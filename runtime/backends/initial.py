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

NEEDED = ("initial_part", "initial_parameters", "num_parameters")
"""Attributes that a task must have so that a part of its parameters can be drawn alone."""


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
        self._draw = partial(task.initial_part, seed) if draws_parts(task) else None
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


def draws_parts(task: Any) -> bool:
    """Whether ``task`` has all of :data:`NEEDED`, and its ``initial_part`` is of its own ``initial_parameters``.

    A class that defines only the latter inherits a part of other values.
    """
    if any(getattr(task, name, None) is None for name in NEEDED):
        return False
    for names in (getattr(task, "__dict__", {}), *map(vars, type(task).__mro__)):
        if "initial_part" in names:
            return True
        if "initial_parameters" in names:
            return False
    return True  # a wrapped task has both


def wrong_part(task: Any, seed: int) -> str:
    """Say how ``initial_part`` differs from ``initial_parameters``; empty if it does not, or is not used."""
    if not draws_parts(task):
        return ""
    whole = np.asarray(task.initial_parameters(seed))
    if len(whole) != task.num_parameters:
        return f"initial_parameters: returns {len(whole)} values, and num_parameters={task.num_parameters}"
    for lo, hi in ((0, len(whole) // 3), (len(whole) // 3, len(whole))):
        out = np.full(hi - lo, np.nan, np.float32)
        task.initial_part(seed, lo, out)
        if out.tobytes() != whole[lo:hi].astype(np.float32).tobytes():
            return f"initial_part: of [{lo}, {hi}) has other values than initial_parameters; make them equal to the bit"
    return ""
