"""The interface between the runtime and a framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from runtime.core.job import ComputeOrder, Piece
from runtime.core.vectors import FloatVector
from strategies.protocol import split_evenly

AugmentationKey = tuple[int, NDArray[np.int64], NDArray[np.int64]]
"""(seed, epoch of each, index of each) of training samples: all that random pre-processing may depend on. Held-out
samples have None instead. Written twice: workloads get it from here and may import nothing of the runtime."""


class MicroBatch(NamedTuple):
    """Rows of a batch that are computed together; their gradient sum counts ``coefficient`` times.

    With ``pieces``, each sample is weighted by the coefficient of the piece that it is in, and ``coefficient`` is 1.
    """

    rows: slice
    coefficient: float = 1.0
    pieces: tuple[Piece, ...] = ()

    @property
    def weights(self) -> FloatVector:
        """Weight of every sample, float32 [rows]; defined only with pieces."""
        coefficients = np.array([piece.coefficient for piece in self.pieces], dtype=np.float32)
        return np.repeat(coefficients, [piece.samples for piece in self.pieces])


class Model(Protocol):
    """A model whose parameters and gradient live in two flat vectors owned by the runtime."""

    num_parameters: int
    stage_s: float
    """Seconds of the last gradient in which vectors were copied to a device and back; 0 without one."""

    def initial_parameters(self) -> FloatVector:
        """Float32 [num_parameters], identical for the same seed in every process."""

    def attach(self, params: FloatVector, grad: FloatVector) -> None:
        """Use ``params`` as the parameters and ``grad`` as the destination of gradients from now on.

        Called before every iteration, usually with the same vectors or alternating between a few.
        """

    def batch(self, indices: NDArray[np.int64], epochs: NDArray[np.int64] | None = None) -> Any:
        """Load and pre-process the training samples of these indices (the data time of an iteration).

        ``epochs`` gives the epoch of each sample, for random pre-processing; None means the first epoch.
        """

    def gradient(self, batch: Any, micro: Iterable[MicroBatch]) -> float:
        """Leave the gradient **sum** over the batch in the gradient vector; return the loss summed over the batch.

        The gradient (not the loss) is the sum of the micro-batches' gradients weighted by their coefficients, or of the
        samples' gradients weighted by ``pieces``. Raises ``ValueError`` for weights if a sample's loss depends on other
        samples of its micro-batch. Of an iterator each is taken when the one before has been computed, on any device.
        """

    def expect_weights(self) -> None:
        """Prepare for micro-batches with ``pieces``, so that slow set-up happens now and not in the first iteration."""

    def evaluate(self) -> dict[str, float]:
        """Metrics on held-out data."""


class Backend(Protocol):
    """One framework. Its constructor imports nothing."""

    computes: ClassVar[bool]
    """Whether it computes gradients."""
    framework: ClassVar[str]
    """The framework that models are written in; empty: none."""
    fork_safe: ClassVar[bool]
    """Whether a process that has imported the framework may be forked. If not, tasks that compute start cold."""

    def preload(self) -> list[str]:
        """Import the framework (import only, run no operation); returns the names of the imported modules."""

    def prepare(self, task: Any, seed: int, *, only_scores: bool = False) -> Model:
        """Build the task's model in this process; ``only_scores``: it will evaluate, and compute no gradients."""

    def initial_parameters(self, task: Any, seed: int) -> FloatVector:
        """The model's initial parameters, for tasks that need nothing else of it (servers)."""


MAX_THREADS = 1024
"""Upper bound on the threads of one process; anything larger is assumed to be a typo."""


def supports_sample_weights(task: Any, framework: str) -> bool:
    """Whether the gradient of weighted samples can be computed in one pass: no sample's loss depends on the others.

    The task declares that (``independent_samples``) and offers per-sample losses in this framework (``torch_losses``)
    or a gradient of weighted samples (``numpy_weighted_gradient``). Without a framework, the declaration suffices.
    """
    offered = {"": "independent_samples", "numpy": "numpy_weighted_gradient"}.get(framework, f"{framework}_losses")
    return bool(getattr(task, "independent_samples", False)) and hasattr(task, offered)


def coupled_samples(what: str) -> ValueError:
    """The error of a task that declares independent samples although its model couples them."""
    return ValueError(
        f"independent_samples: the model has {what}, so samples cannot be weighted in one pass; leave it out"
    )


def check_on_cpu(backend: Any) -> None:
    """Raise ``ValueError`` for a device other than the CPU."""
    if backend.device != "cpu":
        raise ValueError(
            f"device={backend.device}: only PyTorch and TensorFlow compute on devices; use backend=torch, or device=cpu"
        )


def check_counts(backend: object, *names: str) -> None:
    """Raise ``ValueError`` naming the first of these fields that is not an integer of at least 1."""
    for name in names:
        value = getattr(backend, name)
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}={value}: must be at least 1")
    if (threads := getattr(backend, "num_threads", 1)) > MAX_THREADS:
        raise ValueError(f"num_threads={threads}: must be at most {MAX_THREADS}; more than there are cores only harm")


def batch_inputs_of(task: Any) -> Callable[[NDArray[Any], AugmentationKey | None], NDArray[Any]]:
    """The task's numpy pre-processing of a batch of inputs (``batch_inputs``); the identity if it has none."""
    own: Callable[[NDArray[Any], AugmentationKey | None], NDArray[Any]] = getattr(task, "batch_inputs", _as_stored)
    return own


def _as_stored(inputs: NDArray[Any], key: AugmentationKey | None) -> NDArray[Any]:
    return inputs


def task_parameters(task: Any, seed: int) -> FloatVector | None:
    """Initial parameters drawn by the task (``initial_parameters(seed)``), equal in all frameworks; None without."""
    draw: Callable[[int], FloatVector] | None = getattr(task, "initial_parameters", None)
    return None if draw is None else draw(seed)


def checked_parameters(drawn: FloatVector, num_parameters: int) -> FloatVector:
    """``drawn``, after checking; raises ``ValueError`` unless it is float32 [num_parameters]."""
    if drawn.shape != (num_parameters,) or drawn.dtype != np.float32:
        raise ValueError(f"initial_parameters: {drawn.dtype} {drawn.shape}, and the model has float32 {num_parameters}")
    return drawn


def augmentation_key(seed: int, indices: NDArray[np.int64], epochs: NDArray[np.int64] | None) -> AugmentationKey:
    """Build the key (:data:`AugmentationKey`) of training samples; ``epochs=None`` means the first epoch."""
    return seed, np.zeros(len(indices), dtype=np.int64) if epochs is None else epochs, indices


def micro_batches(num_samples: int, accum: int) -> list[MicroBatch]:
    """``accum`` near-equal consecutive parts, larger ones first."""
    return [MicroBatch(rows) for rows in _consecutive(split_evenly(num_samples, accum))]


def ordered_batches(order: ComputeOrder) -> list[MicroBatch]:
    """The micro-batches of a compute order: equal parts, or parts weighted by the order's pieces."""
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
