"""PyTorch's own ``DistributedDataParallel``: gradients are summed bucket by bucket within the backward pass.

It averages the members' gradients. Ours are sums over samples, so the mean times the number of members is the sum over
all samples: exact for batches of any size, accumulated or not. Every member must take part in every backward pass; one
without samples of its own computes a loss of weight 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.backends.base import MicroBatch
from runtime.backends.torch import TorchModel
from runtime.core.vectors import FloatVector
from runtime.live.tasks.collectives.torch_groups import MEETING_DEADLINE_S, TorchGroup
from runtime.live.transport.messages import Peer


class NativeGroup(TorchGroup):
    """A collective whose sum is already in the gradient, except for the factor of the number of members.

    ``on_formed`` is called when all members have joined.
    """

    on_formed: Callable[[], None] = staticmethod(lambda: None)

    def form(self, generation: int, peers: Sequence[Peer]) -> None:
        """Set the members, which join at once."""
        import torch.distributed as dist

        super().form(generation, peers)
        store = self.meeting_place(timedelta(seconds=MEETING_DEADLINE_S))
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=len(self.peers))
        self.on_formed()

    def close(self) -> None:
        """Nothing to do: the group ends with its process."""

    def all_reduce(self, vector: FloatVector) -> None:
        """Turn the mean over members, which the vector holds, into the sum."""
        np.multiply(vector, np.float32(len(self.peers)), out=vector)


class NativeModel:
    """A torch model whose backward passes are collective; all else is delegated to the model."""

    def __init__(self, model: TorchModel, group: NativeGroup) -> None:
        self.model = model
        self.num_parameters = model.num_parameters
        self.stage_s = 0.0
        self._module: Any = None
        group.on_formed = self._wrap

    def _wrap(self) -> None:
        from torch.nn.parallel import DistributedDataParallel

        warnings.simplefilter("ignore")  # torch 2.13 renames broadcast_buffers; older ones know no other name
        self._module = DistributedDataParallel(self.model.module, broadcast_buffers=False)

    def initial_parameters(self) -> FloatVector:
        return self.model.initial_parameters()

    def attach(self, params: FloatVector, grad: FloatVector) -> None:
        """Attach the vectors; autograd itself leaves gradients in ``grad``."""
        self.model.attach(params, grad)
        for parameter, view in zip(self.model.parameters, self.model.grads, strict=True):
            parameter.grad = view

    def batch(self, indices: NDArray[np.int64], epochs: NDArray[np.int64] | None = None) -> Any:
        return self.model.batch(indices, epochs)

    def gradient(self, batch: Any, micro: Iterable[MicroBatch]) -> float:
        """The mean over members of the gradient sums, in the gradient vector; our own loss, summed over the batch.

        Coefficients are 1 here: parts are only ever sent to servers.
        """
        inputs, targets = batch
        return self._backward([(inputs[rows], targets[rows]) for rows, *_ in micro], 1.0)

    def expect_weights(self) -> None:
        self.model.expect_weights()

    def take_part(self) -> None:
        """Take part with a backward pass of weight 0."""
        self._backward([self.batch(np.zeros(1, dtype=np.int64))], 0.0)

    def _backward(self, batches: list[Any], factor: float) -> float:
        """One backward pass; only the last micro-batch's pass communicates."""
        total = 0.0
        for parameter in self.model.parameters:
            assert parameter.grad is not None
            parameter.grad.zero_()
        for index, (inputs, targets) in enumerate(batches, start=1):
            self._module.require_backward_grad_sync = index == len(batches)
            self.model.masks.draw(inputs)
            loss = self.model.task.torch_loss(self._module, inputs, targets) * factor
            loss.backward()
            total += float(loss.detach())
        return total

    def evaluate(self) -> dict[str, float]:
        return self.model.evaluate()
