"""A worker's own parameters between two common updates, and the update that makes them common again.

Worker k moves its own w_k from the common w by its own optimizer. An update takes the moves w - w_k as gradients: the
outer optimizer steps w by the sum of factor_k (w - w_k), the factors summing to 1. With outer SGD at rate 1 that is the
average of the parameters. The states of workers' optimizers are never averaged.

Between two updates the own parameters of some workers may become their mean, which keeps the mean of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from runtime.core.vectors import FloatVector, aligned_vector
from runtime.training.optimizers import Optimizer, make_optimizer


@final
class Outer:
    """The optimizer of :attr:`strategies.protocol.Strategy.outer`, whose rate each update gives.

    Where the workers' optimizer, ``inner``, counts samples, the moves are added, so that all are counted once.
    """

    def __init__(self, fields: Mapping[str, Any], inner: Optimizer) -> None:
        self._counts = inner.rule.sums
        given = {} if self._counts else {name: fields[name] for name in fields if name != "lr"}
        name = "tally" if self._counts else "sgd"
        self.optimizer: Optimizer = make_optimizer(name, inner.num_elements, **given)

    def step(self, common: FloatVector, moves: Sequence[FloatVector], lr: float, samples: int) -> None:
        """Update the common parameters by the sum of :meth:`OwnSteps.move` of all workers."""
        weight = -1.0 / samples if self._counts else 1.0
        self.optimizer.step(common, moves, [weight] * len(moves), lr, samples)


@final
class OwnSteps:
    """``params`` are the worker's own, float32 [P]; ``kept`` is its optimizer as of the last common update."""

    def __init__(self, common: FloatVector, kept: Optimizer, fresh: Callable[[], Optimizer]) -> None:
        self.params = aligned_vector(len(common))
        self.kept, self.optimizer = kept, fresh()
        self.undo(common)

    def step(self, grad: FloatVector, samples: int, lr: float) -> None:
        """Step by the mean of a gradient sum."""
        self.optimizer.step(self.params, [grad], [1.0 / samples], lr, samples)

    def move(self, common: FloatVector, factor: float, out: FloatVector) -> None:
        """Write ``factor`` times the move from the common parameters, as a gradient, to ``out``; counts without it."""
        np.subtract(common, self.params, out=out)
        if not self.optimizer.rule.sums:
            np.multiply(out, np.float32(factor), out=out)

    def average(self, total: FloatVector, workers: int) -> None:
        """Continue from the mean, given the sum of the parameters of so many workers.

        A rule that counts samples keeps its whole counts, whose sum is exact.
        """
        if not self.optimizer.rule.sums:
            np.multiply(total, np.float32(1.0 / workers), out=self.params)

    def settle(self, common: FloatVector) -> None:
        """Continue from common parameters, after an update by moves."""
        self.params[:] = common
        self.kept.load_state(self.optimizer.state())

    def undo(self, common: FloatVector) -> None:
        """Return to common parameters, and to the optimizer as of then."""
        self.params[:] = common
        self.optimizer.load_state(self.kept.state())
