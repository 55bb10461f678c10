"""Scores without gradients: ``compute_reference`` and ``inner_products`` of a Port, answered by tests or by chance."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from random import Random
from typing import Any

from runtime.core import inputs
from runtime.core.coordinator import Coordinator
from runtime.core.scoring import Products
from strategies.protocol import Grad

Cosine = Callable[[int], tuple[float, float]]
"""Of a gradient: its cosine with the reference, and how many seconds its score takes."""


def at_once(grad_id: int) -> tuple[float, float]:
    """All point the same way."""
    return 1.0, 0.0


def random_scores(seed: int, accepted: float = 0.7) -> Cosine:
    """Some point the other way."""

    def draw(grad_id: int) -> tuple[float, float]:
        chance = Random(f"{seed}/{grad_id}")
        return (1.0 if chance.random() < accepted else -1.0), chance.choice((0.0, 0.25, 1.5))

    return draw


class Scores:
    """A mixin of a rig: keeps requested scores; with :attr:`cosine` and a clock it answers them."""

    core: Coordinator
    t: float
    grads: dict[int, Grad]
    references: list[tuple[int, int]]
    weighings: list[tuple[int, int]]
    cosine: Cosine = staticmethod(at_once)
    push: Any = None

    def at(self, t: float | None) -> float:
        raise NotImplementedError

    def compute_reference(self, number: int, version: int) -> None:
        self.references.append((number, version))
        if self.push:
            ready = inputs.ReferenceReady(number)
            self.push(self.t + 0.5 * self.cosine(-number)[1], 0, lambda t: self.core.receive(t, ready))

    def inner_products(self, grad_id: int, reference: int) -> None:
        self.weighings.append((grad_id, reference))
        if self.push:
            self.push(self.t + self.cosine(grad_id)[1], 0, lambda t: self._answer(t, grad_id, reference))

    def _answer(self, t: float, grad_id: int, reference: int) -> None:
        samples, held_out = self.grads[grad_id].samples, self.core.job.validation_samples
        for server in range(self.core.job.num_servers):
            self.score_parts(grad_id, reference, self.cosine(grad_id)[0], samples**2, held_out**2, server, t)

    def reference_ready(self) -> None:
        """The servers hold the reference requested last."""
        self.core.receive(self.t, inputs.ReferenceReady(self.references[-1][0]))

    def score_parts(
        self,
        grad_id: int,
        reference: int,
        cosine: float,
        sqr_grad: float,
        sqr_ref: float,
        server: int = 0,
        t: float | None = None,
    ) -> None:
        """A server's part: squared norms are those of sums."""
        part = Products(dot=cosine * sqrt(sqr_grad * sqr_ref), sqr_grad=sqr_grad, sqr_ref=sqr_ref)
        self.core.receive(self.at(None) if t is None else t, inputs.ScorePart(server, grad_id, reference, part))
