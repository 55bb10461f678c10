"""What the runtime asks of a framework."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

FloatVector = NDArray[np.float32]


class Model(Protocol):
    """A model whose parameters and gradient live in two flat vectors that belong to the runtime."""

    num_parameters: int

    def initial_parameters(self) -> FloatVector:
        """Float32 [num_parameters], the same for the same seed in every process."""
        ...

    def attach(self, params: FloatVector, grad: FloatVector) -> None:
        """Compute from now on with the parameters in ``params`` and leave gradients in ``grad``.

        Called before every iteration, mostly with the same vectors or with few in turns.
        """
        ...

    def batch(self, indices: NDArray[np.int64]) -> Any:
        """Load the training samples of these indices (the data time of an iteration)."""
        ...

    def gradient(self, batch: Any, accum: int) -> float:
        """Leave the gradient **sum** over the batch in the gradient vector; return the loss summed over the batch.

        It is computed in ``accum`` micro-batches of near-equal size.
        """
        ...

    def evaluate(self) -> dict[str, float]:
        """Metrics on held-out data."""
        ...


class Backend(Protocol):
    """One framework. Constructing it imports nothing."""

    computes: ClassVar[bool]
    """Whether there are gradients."""
    framework: ClassVar[str]
    """What models are written in; empty: nothing."""
    topologies: ClassVar[frozenset[str]]
    """Where its models' parameters may live: ``ps``, ``allreduce``."""

    def preload(self) -> list[str]:
        """Import the framework (import only, run no operation); returns the names of what was imported."""
        ...

    def prepare(self, task: Any, seed: int) -> Model:
        """Build the task's model in this process."""
        ...


def micro_batches(num_samples: int, accum: int) -> list[slice]:
    """``accum`` near-equal consecutive parts, larger ones first."""
    share, rest = divmod(num_samples, accum)
    bounds = [0]
    for part in range(accum):
        bounds.append(bounds[-1] + share + (part < rest))
    return [slice(lo, hi) for lo, hi in pairwise(bounds)]
