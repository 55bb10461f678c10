"""What the runtime asks of a framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from runtime.core.job import ComputeOrder, Piece
from runtime.core.vectors import FloatVector
from strategies.protocol import split_evenly

Drawn = tuple[int, NDArray[np.int64], NDArray[np.int64]]
"""(seed, epoch of each, index of each) of training samples: all that random pre-processing may depend on. Held-out
samples have None instead. Written twice: workloads get it from here and may import nothing of the runtime."""


class MicroBatch(NamedTuple):
    """Rows of a batch that are computed together; their gradient sum counts ``coefficient`` times.

    With ``pieces`` each sample counts as the piece of the rows that it is in, and the coefficient is 1.
    """

    rows: slice
    coefficient: float = 1.0
    pieces: tuple[Piece, ...] = ()

    @property
    def weights(self) -> FloatVector:
        """Of every sample, float32 [rows]; only with pieces."""
        coefficients = np.array([piece.coefficient for piece in self.pieces], dtype=np.float32)
        return np.repeat(coefficients, [piece.samples for piece in self.pieces])


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

    def batch(self, indices: NDArray[np.int64], epochs: NDArray[np.int64] | None = None) -> Any:
        """Load and pre-process the training samples of these indices (the data time of an iteration).

        ``epochs`` says for each of them in which epoch it is drawn, for pre-processing that is random; None: the first.
        """
        ...

    def gradient(self, batch: Any, micro: Sequence[MicroBatch]) -> float:
        """Leave the gradient **sum** over the batch in the gradient vector; return the loss summed over the batch.

        It is computed micro-batch by micro-batch, and the gradient (not the loss) is the sum with their coefficients or
        the weights of their samples. Raises ``ValueError`` for weights where a sample's loss depends on other samples
        of its micro-batch.
        """
        ...

    def expect_weights(self) -> None:
        """Micro-batches with ``pieces`` will come: what that takes time for is done now."""
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
    fork_safe: ClassVar[bool]
    """Whether a process that has imported it may be forked. If not, whoever computes with it starts cold."""

    def preload(self) -> list[str]:
        """Import the framework (import only, run no operation); returns the names of what was imported."""
        ...

    def prepare(self, task: Any, seed: int) -> Model:
        """Build the task's model in this process."""
        ...

    def initial_parameters(self, task: Any, seed: int) -> FloatVector:
        """Those of the model, for who needs nothing else of it: a server."""
        ...


MAX_THREADS = 1024
"""Of one process; more would be a slip of the pen."""


def weighs_samples(task: Any, framework: str) -> bool:
    """Whether the gradient of weighted samples can be computed in one pass: nothing that ties samples to each other.

    A task says so (``samples_apart``), and has the losses of single samples in this framework (``torch_losses``), or a
    gradient of weighted samples (``numpy_weighted_gradient``). Without a framework its word is enough.
    """
    offered = {"": "samples_apart", "numpy": "numpy_weighted_gradient"}.get(framework, f"{framework}_losses")
    return bool(getattr(task, "samples_apart", False)) and hasattr(task, offered)


def tied(what: str) -> ValueError:
    """A task promised too much."""
    return ValueError(f"samples_apart: the model has {what}, so samples cannot be weighted in one pass; leave it out")


def check_counts(backend: object, *names: str) -> None:
    """Raise ``ValueError`` naming the first of these fields that is no number of at least 1."""
    for name in names:
        value = getattr(backend, name)
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}={value}: must be at least 1")
    if (threads := getattr(backend, "num_threads", 1)) > MAX_THREADS:
        raise ValueError(f"num_threads={threads}: must be at most {MAX_THREADS}; more than there are cores only harm")


def batch_inputs_of(task: Any) -> Callable[[NDArray[Any], Drawn | None], NDArray[Any]]:
    """What the task does to the inputs of a batch in numpy before its model sees them: ``batch_inputs``, or nothing."""
    own: Callable[[NDArray[Any], Drawn | None], NDArray[Any]] = getattr(task, "batch_inputs", _as_stored)
    return own


def _as_stored(inputs: NDArray[Any], drawn: Drawn | None) -> NDArray[Any]:
    return inputs


def drawn_parameters(task: Any, seed: int) -> FloatVector | None:
    """What the task draws by itself (``initial_parameters(seed)``), the same in every framework; None: it does not."""
    draw: Callable[[int], FloatVector] | None = getattr(task, "initial_parameters", None)
    return None if draw is None else draw(seed)


def fitting(drawn: FloatVector, num_parameters: int) -> FloatVector:
    """The same; raises ``ValueError`` unless it is float32 [num_parameters]."""
    if drawn.shape != (num_parameters,) or drawn.dtype != np.float32:
        raise ValueError(f"initial_parameters: {drawn.dtype} {drawn.shape}, and the model has float32 {num_parameters}")
    return drawn


def drawn_samples(seed: int, indices: NDArray[np.int64], epochs: NDArray[np.int64] | None) -> Drawn:
    """See :data:`Drawn`."""
    return seed, np.zeros(len(indices), dtype=np.int64) if epochs is None else epochs, indices


def micro_batches(num_samples: int, accum: int) -> list[MicroBatch]:
    """``accum`` near-equal consecutive parts, larger ones first."""
    return [MicroBatch(rows) for rows in _consecutive(split_evenly(num_samples, accum))]


def ordered_batches(order: ComputeOrder) -> list[MicroBatch]:
    """How an order is to be computed."""
    num_samples = sum(part.samples for part in order.ranges)
    if not order.pieces:
        return micro_batches(num_samples, order.accum)
    if order.accum == 1:
        first, *others = (piece.coefficient for piece in order.pieces)
        if all(coefficient == first for coefficient in others):
            return [MicroBatch(slice(0, num_samples), first)]
        return [MicroBatch(slice(0, num_samples), pieces=order.pieces)]
    rows = _consecutive([piece.samples for piece in order.pieces])
    return [MicroBatch(own, piece.coefficient) for own, piece in zip(rows, order.pieces, strict=True)]


def _consecutive(sizes: Sequence[int]) -> list[slice]:
    return [slice(lo, hi) for lo, hi in pairwise(accumulate(sizes, initial=0))]
