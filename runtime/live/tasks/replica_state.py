"""A replica's copy of the parameters: a server's store of the whole vector, on which its worker computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from runtime.core.job import ApplyOrder, FragmentOrder, PushOrder, StepOrder
from runtime.core.vectors import FloatVector
from runtime.live.tasks.children import ParentLink
from runtime.live.tasks.store import ParameterStore
from runtime.live.tasks.worker import Links
from runtime.live.transport.auth import Identity
from runtime.training.norms import sum_sqr_norm


class ReplicaState(ParameterStore):
    """Parameters, optimizer and unused gradients of one replica; the worker's own gradients only."""

    def __init__(self, initial: FloatVector, optimizer: dict[str, Any], identity: Identity) -> None:
        super().__init__(initial, optimizer)
        self.identity = identity
        self.grad = self.buffer()
        self.parent: ParentLink | None = None
        """Where the parameters of the current gradient come from, and the gradient goes; None: they are here."""
        self.received_s = 0.0

    @property
    def links(self) -> Links:
        """The vectors on which the worker computes."""
        return self

    # ---- as a worker's links -----------------------------------------------------------------------------------------

    def receive_params(self, ticket: int) -> int:
        self.received_s = 0.0
        if self.parent is not None:
            self.version = self.parent.pull(ticket, self.params)
            self.received_s = self.parent.received_s
        return self.version

    def push(self, ticket: int) -> None:
        """Keep the gradient here until it is used or dropped; a child's is kept by its parent."""
        if self.parent is not None:
            self.parent.push(ticket, self.grad)
            return
        self.hold(ticket, self.grad)
        self.grad = self.buffer()

    def void(self) -> None:
        """Forget work in progress: all replicas halt."""
        self.drop(tuple(self.grads))

    def step_alone(self, order: StepOrder) -> None:
        """Move this replica's own parameters; only a replica that has some is ordered to."""
        raise RuntimeError(f"{order}: this replica has no parameters of its own")

    def average(self, sum_all: Callable[[FloatVector], None], workers: int) -> None:
        """Continue from the mean of so many replicas' own parameters, which ``sum_all`` sums in place; likewise."""
        raise RuntimeError(f"a mean of {workers} replicas: this replica has no parameters of its own")

    def push_half(self, order: PushOrder, pass_on: Callable[[FloatVector, int, int], None]) -> None:
        """Send half of the own parameters and add others' halves, or put one aside that is sent here; likewise.

        ``pass_on`` copies a vector from one replica to another, on both.
        """
        raise RuntimeError(f"{order}: this replica has no parameters of its own")

    def sum_fragment(self, order: FragmentOrder, sum_all: Callable[[FloatVector], None]) -> None:
        """Offer, sum and mix a fragment; likewise."""
        raise RuntimeError(f"{order}: this replica has no parameters of its own")

    # ---- an update ---------------------------------------------------------------------------------------------------

    def share(self, order: ApplyOrder) -> FloatVector:
        """This replica's term of the sum, with its children's, in a buffer for the sum, which :meth:`step` needs.

        Equal weights are left to the step, as on a server; others are applied here, with the
        optimizer's step scale and in double precision (see ``runtime.training.optimizers``).
        """
        own = [
            (grad_id, weight) for grad_id, weight in zip(order.grads, order.weights, strict=True) if self._has(grad_id)
        ]
        step_scale = None if is_uniform(order) else self.optimizer.rule.step_scale(order.lr, order.samples)
        total: FloatVector | None = None
        for grad_id, weight in own:
            grad = self._take(grad_id)
            if step_scale is not None:
                np.multiply(grad, np.float32(step_scale * weight), out=grad)
            if total is None:
                total = grad
                self._own.discard(grad_id)
            else:
                np.add(total, grad, out=total)
                self._free(grad_id, grad)
        if total is None:
            total = self.buffer()
            total.fill(0.0)
        return total

    def shares_only(self, order: ApplyOrder, grad_id: int | None) -> bool:
        """Whether :meth:`share` will be this gradient as it was computed: unweighted, and no other with it."""
        return is_uniform(order) and [one for one in order.grads if self._has(one)] == [grad_id]

    def _has(self, grad_id: int) -> bool:
        return grad_id in self.grads

    def step(self, order: ApplyOrder, total: FloatVector) -> None:
        """Update the parameters by the sum over all replicas."""
        self.optimizer.step(self.params, [total], [self._weight(order)], order.lr, order.samples)
        self.version = order.version

    def sqr_norm(self, order: ApplyOrder, total: FloatVector) -> float:
        """The squared norm of the weighted sum, which the sum over all replicas is but for a factor."""
        return sum_sqr_norm([total], [self._weight(order)])

    def _weight(self, order: ApplyOrder) -> float:
        """Return the factor that the sum over all replicas lacks: the weight, or the inverse of its step scale."""
        if is_uniform(order):
            return order.weights[0]
        step_scale = self.optimizer.rule.step_scale(order.lr, order.samples)
        return 1.0 / step_scale if step_scale else 1.0  # times the step scale, this is exactly 1 in float32

    # ---- copying -----------------------------------------------------------------------------------------------------

    def vectors(self) -> list[FloatVector]:
        """Parameters and the optimizer's vectors, in an order that is the same in every replica."""
        state = self.optimizer.state()
        return [self.params, *(state[name] for name in self.optimizer.rule.slots)]  # type: ignore[list-item]

    def taken_over(self, version: int, steps: int) -> None:
        """Accept :meth:`vectors`, which now contain ``version``, after ``steps`` of the optimizer."""
        self.optimizer.load_state({**self.optimizer.state(), "step": steps})
        self.version = version


def is_uniform(order: ApplyOrder) -> bool:
    """Whether all gradients have the same weight."""
    return all(weight == order.weights[0] for weight in order.weights)
