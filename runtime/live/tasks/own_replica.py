"""A replica's copy where replicas also step parameters of their own, between updates of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

from runtime.core.job import ApplyOrder, FragmentOrder, PushOrder, StepOrder
from runtime.core.vectors import FloatVector, aligned_vector
from runtime.live.tasks.replica_state import ReplicaState
from runtime.live.tasks.worker import Links
from runtime.live.transport.auth import Identity
from runtime.training.optimizers import make_optimizer
from runtime.training.own_steps import Factors, Fragments, Outer, OwnSteps

OUTER = "outer."
"""Prefix of the outer optimizer's state in checkpoints."""


def replica_state(
    initial: FloatVector, optimizer: dict[str, Any], identity: Identity, outer: Mapping[str, Any]
) -> ReplicaState:
    """The state of a replica, with parameters of its own if there is an ``outer`` optimizer."""
    return OwnReplicaState(initial, optimizer, identity, outer) if outer else ReplicaState(initial, optimizer, identity)


@final
class OwnLinks(Links):
    """A worker's links to parameters of its own, and to a place for its gradient."""

    def __init__(self, copy: OwnReplicaState) -> None:
        self.copy, self.identity = copy, copy.identity

    @property
    def params(self) -> FloatVector:
        return self.copy.own.debiased

    @property
    def grad(self) -> FloatVector:
        return self.copy.grad

    @property
    def received_s(self) -> float:
        return self.copy.received_s

    def receive_params(self, ticket: int) -> int:
        return self.copy.receive_params(ticket)

    def push(self, ticket: int) -> None:
        self.copy.push(ticket)


@final
class OwnReplicaState(ReplicaState):
    """``params`` and ``optimizer`` are as of the last update, and others read them; the worker has ``own`` ones."""

    def __init__(
        self, initial: FloatVector, optimizer: dict[str, Any], identity: Identity, outer: Mapping[str, Any]
    ) -> None:
        self._outer_fields = outer
        super().__init__(initial, optimizer, identity)

    @property
    def links(self) -> Links:
        return OwnLinks(self)

    def reset(self) -> None:
        super().reset()
        self.outer = Outer(self._outer_fields, self.optimizer)
        fields = self._outer_fields
        self.fragments = Fragments(self.params, fields, self.optimizer) if "fragments" in fields else None
        make = {"num_elements": self.size, "threads": self._threads, **self._optimizer_fields}
        self.own = OwnSteps(self.params, self.optimizer, lambda: make_optimizer(**make))

    def void(self) -> None:
        super().void()
        self._undo()

    def _undo(self) -> None:
        """Return to what is common as of the last update."""
        self.own.undo(self.params)
        if self.fragments is not None:
            self.fragments.begin(self.params, self.outer)

    # ---- steps -------------------------------------------------------------------------------------------------------

    def step_alone(self, order: StepOrder) -> None:
        grad = self._take(order.grad_id)
        self.own.step(grad, order.samples, order.lr)
        self._free(order.grad_id, grad)

    def average(self, sum_all: Callable[[FloatVector], None], workers: int) -> None:
        total = self.buffer()
        total[:] = self.own.params
        try:
            sum_all(total)
            self.own.average(total, workers)
        finally:
            self.release(total)

    def push_half(self, order: PushOrder, pass_on: Callable[[FloatVector, int, int], None]) -> None:
        if self.identity.id == order.to:
            half = aligned_vector(self.size + 1)
            pass_on(half, order.worker, order.to)
            self.own.put_aside(order.worker, half)
            return
        if order.to is not None:
            pass_on(self.own.halve(), order.worker, order.to)
        for source in order.adds:
            self.own.add(source)

    def sum_fragment(self, order: FragmentOrder, sum_all: Callable[[FloatVector], None]) -> None:
        assert self.fragments is not None
        me, part, common = self.identity.id, self.fragments.parts[order.fragment], self.fragments.common
        if me in order.offer:
            self.own.offer(part)
        if order.moves:
            total = self.buffer()
            try:
                self._share(order.moves, part, total, self.own.offered)
                sum_all(total[part])
                self.fragments.step(order.fragment, [total[part]], order.lr, order.samples)
            finally:
                self.release(total)
        if me in order.mix:
            self.own.mix(part, common, order.kept_frac)

    def _share(self, factors: Factors, part: slice, total: FloatVector, move: Callable[..., None]) -> None:
        """Write this replica's term of a fragment's sum; it is zero where others have moved alone."""
        assert self.fragments is not None
        if self.identity.id in dict(factors):
            move(self.fragments.common, dict(factors)[self.identity.id], total[part], part)
        else:
            total[part].fill(0.0)

    def share(self, order: ApplyOrder) -> FloatVector:
        """The own move, where the update is of moves; a replica without one has not moved."""
        if not order.moves:
            return super().share(order)
        total = self.buffer()
        if self.fragments is None:
            if self.identity.id in (mine := dict(order.moves)):
                self.own.move(self.params, mine[self.identity.id], total)
            else:
                total.fill(0.0)
            return total
        for part, factors in zip(self.fragments.parts, order.fragments, strict=True):
            self._share(factors, part, total, self.own.move)
        return total

    def step(self, order: ApplyOrder, total: FloatVector) -> None:
        if not order.moves:
            super().step(order, total)
            self.own.undo(self.params)
            return
        stays = self.identity.id in order.stays
        if stays:
            self.own.stay(self.params)
        if self.fragments is None:
            self.outer.step(self.params, [total], order.lr, order.samples)
        else:
            for number, part in enumerate(self.fragments.parts):
                if order.fragments[number]:
                    self.fragments.step(number, [total[part]], order.lr, order.samples)
            self.fragments.end(self.params, self.outer)
        if not stays:
            self.own.settle(self.params)
        self.version = order.version

    # ---- copying -----------------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        return {**super().dump(), **{OUTER + name: value for name, value in self.outer.optimizer.state().items()}}

    def load(self, version: int, state: dict[str, Any]) -> None:
        super().load(version, state)
        self.outer.optimizer.load_state({name[len(OUTER) :]: state[name] for name in state if name.startswith(OUTER)})
        self._undo()

    def vectors(self) -> list[FloatVector]:
        state = self.outer.optimizer.state()
        common = [*super().vectors(), *(state[name] for name in self.outer.optimizer.rule.slots)]
        if self.fragments is None:
            return common  # type: ignore[return-value]
        newer = self.fragments.outer.optimizer
        return [*common, self.fragments.common, *(newer.state()[name] for name in newer.rule.slots)]  # type: ignore[list-item]

    def taken_over(self, version: int, steps: int) -> None:
        super().taken_over(version, steps)
        self.outer.optimizer.load_state(
            {**self.outer.optimizer.state(), "step": version}
        )  # each update is one, if it counts
        self.own.undo(self.params)
