"""A worker's own parameters between two common updates, and the update that makes them common again.

Worker k moves its own w_k from the common w by its own optimizer. An update takes the moves w - w_k as gradients: the
outer optimizer steps w by the sum of factor_k (w - w_k), the factors summing to 1. With outer SGD at rate 1 that is the
average of the parameters. The states of workers' optimizers are never averaged.

Between two updates the own parameters of some workers may become their mean, which keeps the mean of all; or halves of
them go to other workers, with halves of a weight v_k, which keeps the sums (push-sum): then gradients are of w_k / v_k;
or fragments of w are stepped by themselves, each at other times.
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
    """``params`` are the worker's own, float32 [P]; ``kept`` is its optimizer as of the last common update.

    ``weight`` goes with the parameters where halves of them go to others: see :attr:`debiased`.
    """

    def __init__(self, common: FloatVector, kept: Optimizer, fresh: Callable[[], Optimizer]) -> None:
        self.params = aligned_vector(len(common))
        self.kept, self.optimizer = kept, fresh()
        self._offered = self.params
        """Fragments as they were offered; a vector of its own from the first offer on."""
        self._halves: list[tuple[int, FloatVector]] = []
        """Halves of other workers that are not added yet, in order: the source, and parameters with weight [P + 1]."""
        self._debiased: FloatVector | None = None
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

    # ---- push-sum ----------------------------------------------------------------------------------------------------

    @property
    def debiased(self) -> FloatVector:
        """The parameters divided by their weight, float32 [P], of which gradients are; not to be changed."""
        if self.weight == 1.0:
            return self.params
        if self._debiased is None:
            self._debiased = aligned_vector(len(self.params))
        np.divide(self.params, np.float32(self.weight), out=self._debiased)
        return self._debiased

    def halve(self) -> FloatVector:
        """Keep half of the parameters and of their weight; return the other half, the weight last, float32 [P + 1].

        A rule that counts samples keeps its whole counts, and the half is of zeros.
        """
        half = aligned_vector(len(self.params) + 1)
        if not self.optimizer.rule.sums:
            np.multiply(self.params, np.float32(0.5), out=self.params)
            self.weight /= 2
            half[:-1], half[-1] = self.params, self.weight
        return half

    def put_aside(self, source: int, half: FloatVector) -> None:
        """Keep a half that a worker has sent until it is added."""
        self._halves.append((source, half))

    def add(self, source: int) -> None:
        """Add the earliest half of a worker that is put aside."""
        half = self._halves.pop([sender for sender, _ in self._halves].index(source))[1]
        np.add(self.params, half[:-1], out=self.params)
        self.weight += float(half[-1])

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
        self._begin(common)
        self.kept.load_state(self.optimizer.state())

    def undo(self, common: FloatVector) -> None:
        """Return to common parameters, and to the optimizer as of then."""
        self._begin(common)
        self.optimizer.load_state(self.kept.state())

    def _begin(self, common: FloatVector) -> None:
        self.params[:] = common
        self._base = None
        self.weight = 1.0
        self._halves.clear()
