"""Gradients with a pending score, and the reference gradient to which they are compared (pure).

Two orders go to the port: ``compute_reference`` (the scorer computes the gradient of the validation samples on the
current parameters, and pushes it to all servers) and ``inner_products`` (every server multiplies its part of a gradient
with its part of the reference). They are ordered one after another, so a server never holds a reference other than the
requested one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from runtime.core.job import Port
from runtime.core.vectors import FloatVector, inner_products
from strategies.protocol import Grad


class Products(msgspec.Struct, frozen=True, gc=False):
    """Inner products of parts of two gradient **sums** (or of the whole), in double precision."""

    dot: float
    sqr_grad: float
    sqr_ref: float


def products(grad: FloatVector, reference: FloatVector) -> Products:
    """Inner products of two vectors of equal length."""
    return Products(*inner_products(grad, reference))


class Reference(NamedTuple):
    """A reference gradient; numbers grow with every order to compute one."""

    number: int
    version: int


class Comparison(NamedTuple):
    """Inner products of per-sample means, the values of :class:`strategies.protocol.Scored`."""

    dot: float
    sqr_grad: float
    sqr_ref: float


class _Weighing(NamedTuple):
    grad: Grad
    reference: Reference
    parts: dict[int, Products]


class Scoring:
    """``version()``: updates applied; ``servers()``: holders of parameters, in the order in which parts are summed."""

    def __init__(
        self, port: Port, servers: Callable[[], Sequence[int]], validation_samples: int, version: Callable[[], int]
    ) -> None:
        self.port, self.servers, self.validation_samples = port, servers, validation_samples
        self.version = version
        self.reference: Reference | None = None
        """The reference that all servers hold."""
        self.under_way: Reference | None = None
        self._waiting: deque[tuple[Grad, bool]] = deque()
        self._weighed: dict[int, _Weighing] = {}
        self._next_number = 0

    @property
    def asked(self) -> set[int]:
        """Gradients whose score is pending."""
        return {grad.id for grad, _ in self._waiting} | self._weighed.keys()

    def ask(self, grad: Grad, *, refresh: bool) -> None:
        """Score a gradient, against a new reference if requested."""
        self._waiting.append((grad, refresh))
        self._advance()

    def _advance(self) -> None:
        while self._waiting and self.under_way is None:
            grad, refresh = self._waiting[0]
            if refresh or self.reference is None:
                self._waiting[0] = (grad, False)
                self._refer()
                return
            self._waiting.popleft()
            self._weighed[grad.id] = _Weighing(grad, self.reference, {})
            self.port.inner_products(grad.id, self.reference.number)

    def _refer(self) -> None:
        self.under_way = Reference(self._next_number, self.version())
        self._next_number += 1
        self.port.compute_reference(*self.under_way)

    def repeat(self) -> None:
        """Order the pending reference again from a new scorer."""
        if self.under_way is not None:
            self._refer()

    def reference_ready(self, number: int) -> None:
        """All servers hold a reference; only reports of the last requested one count."""
        if self.under_way is not None and self.under_way.number == number:
            self.reference, self.under_way = self.under_way, None
            self._advance()

    def score_parts(
        self, server: int, grad_id: int, number: int, part: Products
    ) -> tuple[Grad, int, Comparison] | None:
        """Add a server's part. The last one completes the score: (gradient, version of the reference, comparison)."""
        weighing = self._weighed.get(grad_id)
        if weighing is None or weighing.reference.number != number:
            return None
        weighing.parts[server] = part
        servers = self.servers()
        if not weighing.parts.keys() >= set(servers):
            return None
        del self._weighed[grad_id]
        parts = [weighing.parts[number] for number in servers]
        return weighing.grad, weighing.reference.version, self._compare(parts, weighing.grad.samples)

    def _compare(self, parts: list[Products], samples: int) -> Comparison:
        """Convert sums over samples to means; a reference that is not finite becomes zero."""
        sqr_grad = sum(part.sqr_grad for part in parts) / samples**2
        dot = sum(part.dot for part in parts) / (samples * self.validation_samples)
        sqr_ref = sum(part.sqr_ref for part in parts) / self.validation_samples**2
        if not (math.isfinite(dot) and math.isfinite(sqr_ref)):
            return Comparison(0.0, sqr_grad, 0.0)
        return Comparison(dot, sqr_grad, sqr_ref)

    def forget(self, grads: tuple[int, ...]) -> None:
        """Cancel the scores of gradients that were used or dropped."""
        if not self._waiting and not self._weighed:
            return
        self._waiting = deque(wanted for wanted in self._waiting if wanted[0].id not in grads)
        for grad_id in grads:
            self._weighed.pop(grad_id, None)

    def void(self) -> None:
        """The servers roll back: all pending scores and the reference are void."""
        self.reference = self.under_way = None
        self._waiting.clear()
        self._weighed.clear()
