"""The interface of a screen: it stands before the gate, and lets a gradient through or not."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from strategies.gates.base import Verdict
from strategies.protocol import Grad, Score, Scored


class Judged(NamedTuple):
    """What is done with a gradient that was scored: applied with its weight times ``factor``, or dropped."""

    verdict: Verdict
    factor: float = 1.0
    requeue: bool = True


@runtime_checkable
class Screen(Protocol):
    """Judges every gradient by itself, so it stands before a gate that applies every gradient by itself."""

    validation_samples: int
    """Samples that are held out of the training data for the reference gradient."""

    @property
    def rescale(self) -> bool:
        """Whether accepted gradients are multiplied by something."""
        ...

    def asks(self, grad: Grad, version: int) -> Score | None:
        """How a gradient that arrived at ``version`` is to be scored; None: it is not screened."""
        ...

    def judged(self, scored: Scored) -> Judged: ...
