"""No framework: the task computes its own gradient in numpy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from runtime.backends.base import MicroBatch, check_on_cpu
from runtime.core.vectors import FloatVector


@final
class NumpyModel:
    """A task with ``numpy_gradient(params, indices, grad) -> loss sum``, which adds its gradient sum to ``grad``.

    If it also has ``numpy_weighted_gradient(params, indices, weights, grad)``, its samples may be weighted: ``weights``
    (float32 [samples]) apply to the gradients and not to the losses.
    """

    def __init__(self, task: Any, seed: int) -> None:
        self.task, self.seed = task, seed
        self.num_parameters: int = task.num_parameters
        self.stage_s = 0.0
        self.params = np.zeros(0, dtype=np.float32)
        self.grad = np.zeros(0, dtype=np.float32)

    def initial_parameters(self) -> FloatVector:
        initial: FloatVector = self.task.initial_parameters(self.seed)
        return initial

    def attach(self, params: FloatVector, grad: FloatVector) -> None:
        self.params, self.grad = params, grad

    def batch(self, indices: NDArray[np.int64], epochs: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The indices themselves, since the task loads its samples itself."""
        return indices

    def gradient(self, batch: NDArray[np.int64], micro: Iterable[MicroBatch]) -> float:
        self.grad[:] = 0
        return float(sum(self._add(batch[one.rows], one) for one in micro))

    def expect_weights(self) -> None:
        """Do nothing: weights need no preparation in numpy."""

    def _add(self, indices: NDArray[np.int64], one: MicroBatch) -> float:
        coefficient = one.coefficient
        if one.pieces:
            return float(self.task.numpy_weighted_gradient(self.params, indices, one.weights, self.grad))
        if coefficient == 1.0:
            return float(self.task.numpy_gradient(self.params, indices, self.grad))
        own = np.zeros_like(self.grad)
        loss = float(self.task.numpy_gradient(self.params, indices, own))
        self.grad += np.float32(coefficient) * own
        return loss

    def evaluate(self) -> dict[str, float]:
        metrics: dict[str, float] = self.task.numpy_metrics(self.params)
        return metrics


@final
@dataclass(frozen=True, kw_only=True)
class NumpyBackend:
    """For tasks that need no framework, such as the ``ledger`` workload."""

    computes: ClassVar[bool] = True
    framework: ClassVar[str] = "numpy"
    fork_safe: ClassVar[bool] = True

    device: str = "cpu"

    def __post_init__(self) -> None:
        check_on_cpu(self)

    def preload(self) -> list[str]:
        return ["numpy"]

    def prepare(self, task: Any, seed: int, *, only_scores: bool = False) -> NumpyModel:
        return NumpyModel(task, seed)

    def initial_parameters(self, task: Any, seed: int) -> FloatVector:
        return self.prepare(task, seed).initial_parameters()
