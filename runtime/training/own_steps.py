"""A worker's own parameters between two common updates, and the update that makes them common again.

Worker k moves its own w_k from the common w by its own optimizer. An update takes the moves w - w_k as gradients: the
outer optimizer steps w by the sum of factor_k (w - w_k), the factors summing to 1. With outer SGD at rate 1 that is the
average of the parameters. The states of workers' optimizers are never averaged.

Between two updates the own parameters of some workers may become their mean, which keeps the mean of all; or fragments
of w are stepped by themselves, each at other times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from runtime.core.vectors import FloatVector, aligned_vector, server_range
from runtime.training.delayed_nesterov import DelayedNesterov
from runtime.training.optimizers import Optimizer, make_optimizer

WHOLE = slice(None)
Factors = Sequence[tuple[int, float]]
"""(worker, factor of its move)."""


@final
class Outer:
    """The optimizer of :attr:`strategies.protocol.Strategy.outer`, whose rate each update gives.

    Where the workers' optimizer, ``inner``, counts samples, the moves are added, so that all are counted once.
    """

    def __init__(self, fields: Mapping[str, Any], inner: Optimizer) -> None:
        self._counts = inner.rule.sums
        self.optimizer = self._made(fields, inner.num_elements)

    def _made(self, fields: Mapping[str, Any], num_elements: int) -> Optimizer:
        if self._counts:
            return make_optimizer("tally", num_elements)
        given = {name: fields[name] for name in fields if name not in ("lr", "fragments")}
        if "every" in given:
            return Optimizer(DelayedNesterov(**given), num_elements)
        return make_optimizer("sgd", num_elements, **given)

    def step(
        self,
        common: FloatVector,
        moves: Sequence[FloatVector],
        lr: float,
        samples: int,
        optimizer: Optimizer | None = None,
    ) -> None:
        """Update common parameters by the sum of :meth:`OwnSteps.move` of all workers; ``optimizer``: of a part."""
        weight = -1.0 / samples if self._counts else 1.0
        (optimizer or self.optimizer).step(common, moves, [weight] * len(moves), lr, samples)


@final
class Fragments:
    """``common`` are the common parameters with all sums of fragments since the last update, ``outer`` their optimizer.

    ``parts`` are where each fragment lies.
    """

    def __init__(self, common: FloatVector, fields: Mapping[str, Any], inner: Optimizer) -> None:
        count = fields["fragments"]
        self.parts = [slice(*server_range(len(common), count, part)) for part in range(count)]
        self.common, self.outer = aligned_vector(len(common)), Outer(fields, inner)
        self._optimizers = [self.outer.optimizer.part(part) for part in self.parts]
        self.common[:] = common

    def begin(self, common: FloatVector, outer: Outer) -> None:
        """Continue from the parameters and the optimizer as of an update."""
        self.common[:] = common
        self.outer.optimizer.load_state(outer.optimizer.state())

    def step(self, fragment: int, moves: Sequence[FloatVector], lr: float, samples: int) -> None:
        """Update one fragment by the sum of its moves, which have its length."""
        self.outer.step(self.common[self.parts[fragment]], moves, lr, samples, self._optimizers[fragment])

    def end(self, common: FloatVector, outer: Outer) -> None:
        """Make all sums an update."""
        common[:] = self.common
        outer.optimizer.load_state(self.outer.optimizer.state())


@final
class OwnSteps:
    """``params`` are the worker's own, float32 [P]; ``kept`` is its optimizer as of the last common update."""

    def __init__(self, common: FloatVector, kept: Optimizer, fresh: Callable[[], Optimizer]) -> None:
        self.params = aligned_vector(len(common))
        self.kept, self.optimizer = kept, fresh()
        self._offered = self.params
        """Fragments as they were offered; a vector of its own from the first offer on."""
        self._base: FloatVector | None = None
        """The common parameters that it has moved from, if there has been an update since; None: the present ones."""
        self.undo(common)

    def step(self, grad: FloatVector, samples: int, lr: float) -> None:
        """Step by the mean of a gradient sum."""
        self.optimizer.step(self.params, [grad], [1.0 / samples], lr, samples)

    def move(self, common: FloatVector, factor: float, out: FloatVector, part: slice = WHOLE) -> None:
        """Write ``factor`` times the move from the common parameters, as a gradient, to ``out``; counts without it.

        Of a part, ``out`` has its length.
        """
        self._move(self.params, common if self._base is None else self._base, factor, out, part)

    def _move(self, own: FloatVector, common: FloatVector, factor: float, out: FloatVector, part: slice) -> None:
        np.subtract(common[part], own[part], out=out)
        if not self.optimizer.rule.sums:
            np.multiply(out, np.float32(factor), out=out)

    def average(self, total: FloatVector, workers: int) -> None:
        """Continue from the mean, given the sum of the parameters of so many workers.

        A rule that counts samples keeps its whole counts, whose sum is exact.
        """
        if not self.optimizer.rule.sums:
            np.multiply(total, np.float32(1.0 / workers), out=self.params)

    # ---- fragments ---------------------------------------------------------------------------------------------------

    def offer(self, part: slice) -> None:
        """Keep a fragment as it is now for its next sum."""
        if self._offered is self.params:
            self._offered = aligned_vector(len(self.params))
        self._offered[part] = self.params[part]

    def offered(self, common: FloatVector, factor: float, out: FloatVector, part: slice) -> None:
        """As :meth:`move`, of what was offered."""
        self._move(self._offered, common, factor, out, part)

    def mix(self, part: slice, common: FloatVector, kept_frac: float) -> None:
        """Continue with a fragment of the common parameters and, by ``kept_frac``, the own one.

        A rule that counts samples keeps its counts since the offer, so that all are counted once.
        """
        own, summed = self.params[part], common[part]
        if self.optimizer.rule.sums:
            np.subtract(own, self._offered[part], out=own)
            np.add(own, summed, out=own)
            return
        np.multiply(own, np.float32(kept_frac), out=own)
        np.add(own, np.float32(1.0 - kept_frac) * summed, out=own)

    def stay(self, common: FloatVector) -> None:
        """Go on from own parameters, before an update changes the common ones."""
        if self._base is None:
            self._base = common.copy()

    def settle(self, common: FloatVector) -> None:
        """Continue from common parameters, after an update by moves."""
        self.params[:] = common
        self._base = None
        self.kept.load_state(self.optimizer.state())

    def undo(self, common: FloatVector) -> None:
        """Return to common parameters, and to the optimizer as of then."""
        self.params[:] = common
        self._base = None
        self.optimizer.load_state(self.kept.state())
