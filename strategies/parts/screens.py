"""The interface of a screen, which accepts or rejects gradients before the gate."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from strategies.parts.gates.base import Verdict
from strategies.protocol import Grad, Score, Scored


class Judged(NamedTuple):
    """The verdict on a scored gradient: applied with its weight times ``factor``, or dropped."""

    verdict: Verdict
    factor: float = 1.0
    requeue: bool = True


@runtime_checkable
class Screen(Protocol):
    """Judges every gradient by itself, so it needs a gate that applies every gradient by itself."""

    validation_samples: int
    """Samples that are held out of the training data for the reference gradient."""

    rescale: bool
    """Whether accepted gradients are multiplied by a factor."""

    def asks(self, grad: Grad, version: int) -> Score | None:
        """The ``Score`` for a gradient that arrived at ``version``; None: it is not screened."""

    def judged(self, scored: Scored) -> Judged: ...
