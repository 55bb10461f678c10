"""Gradients that an aggregator has, and the sums that wait for some of them (no sockets)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from runtime.core.vectors import PARAMETER_BYTES, FloatVector, aligned_vector
from runtime.live.transport.messages import Gather


class Sum(msgspec.Struct, eq=False):
    """``parts`` are the gradients of ``members`` in their order, once all are here; it was ordered at ``since_s``."""

    grad_id: int
    members: list[int]
    since_s: float
    parts: list[FloatVector] = []


class ReduceBuffer:
    """A :class:`runtime.live.tasks.datalink.Sink` of whole gradients; ``complete`` gets a sum whose members are here.

    A gradient may come before the order that names it. One that is left out is discarded, also if it comes later.
    """

    shares_memory = False

    def __init__(self, num_floats: int, complete: Callable[[Sum], None]) -> None:
        self.num_floats, self.complete = num_floats, complete
        self.here: dict[int, FloatVector] = {}
        self.sums: dict[int, Sum] = {}
        """By member; a sum that is complete is not here any more."""
        self._left_out: set[int] = set()
        self._spare: list[FloatVector] = []

    @property
    def num_bytes(self) -> int:
        """Size of a gradient."""
        return PARAMETER_BYTES * self.num_floats

    def buffer(self) -> FloatVector:
        return self._spare.pop() if self._spare else aligned_vector(self.num_floats)

    def release(self, buffer: FloatVector) -> None:
        self._spare.append(buffer)

    def hold(self, grad_id: int, grad: FloatVector) -> None:
        if grad_id in self._left_out:
            self._left_out.discard(grad_id)
            self.release(grad)
            return
        self.here[grad_id] = grad
        if grad_id in self.sums:
            self._look(self.sums[grad_id])

    def compute_reference(self, ticket: int, reference: FloatVector) -> None:
        """Never called: nobody brings one here."""
        raise ConnectionError("an aggregator compares nothing")

    def gather(self, order: Gather) -> None:
        """These gradients will come, or are here, and make a sum."""
        made = Sum(order.grad_id, list(order.members), time.perf_counter())
        self.sums |= dict.fromkeys(order.members, made)
        self._look(made)

    def exclude(self, grads: Iterable[int]) -> None:
        """Nobody waits for these; of a sum that is complete none is left out any more."""
        for grad_id in grads:
            made = self.sums.pop(grad_id, None)
            if (vector := self.here.pop(grad_id, None)) is not None:
                self.release(vector)
            elif made is not None:
                self._left_out.add(grad_id)
            if made is not None:
                made.members.remove(grad_id)
                self._look(made)

    def reset(self) -> None:
        """Forget all gradients and sums: the parameters are of another generation."""
        for vector in self.here.values():
            self.release(vector)
        self.here.clear()
        self.sums.clear()
        self._left_out.clear()

    def _look(self, made: Sum) -> None:
        if made.members and all(member in self.here for member in made.members):
            for member in made.members:
                del self.sums[member]
            made.parts = [self.here.pop(member) for member in made.members]
            self.complete(made)
