"""PyTorch on flat vectors: parameters are views, gradients are copied once into the flat sum.

On a device (``runtime/backends/devices/``) both vectors are the device's, and copied from and to the data plane's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from runtime.backends.base import (
    MicroBatch,
    augmentation_key,
    batch_inputs_of,
    check_counts,
    checked_parameters,
    coupled_samples,
    task_parameters,
)
from runtime.backends.devices.buckets import Buckets, Write
from runtime.backends.devices.choice import CPU, DEVICES, make_device, preload
from runtime.backends.devices.graphs import Batch, Graphs
from runtime.backends.devices.staging import Staging
from runtime.backends.torch_evaluation import TorchEvaluation
from runtime.backends.torch_masks import Masks
from runtime.core.vectors import FloatVector

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@final
class TorchModel:
    """A task's ``torch_module`` with its loss summed over samples.

    Buffers (batch-norm statistics) stay local to each process; see :mod:`runtime.backends.torch_evaluation`.
    """

    def __init__(
        self,
        task: Any,
        seed: int,
        num_threads: int,
        eval_batch_samples: int = 512,
        recalibrate_samples: int = 1024,
        device: str = CPU,
        exact: bool = True,
        graphs: bool = False,
    ) -> None:
        import torch

        torch.set_num_threads(num_threads)
        torch.manual_seed(seed)
        self.task = task
        self.seed = seed
        self.data = task.load()
        self.batch_inputs = batch_inputs_of(task)
        self.module: torch.nn.Module = task.torch_module()
        self.parameters: list[Tensor] = list(self.module.parameters())
        self.num_parameters = sum(parameter.numel() for parameter in self.parameters)
        self.masks = Masks(self.module, seed)
        self.coupling = _coupling(self.module, self.masks)
        self.stage_s = 0.0
        self.staging = self._on(device, exact)
        self.evaluation = TorchEvaluation(task, self.module, eval_batch_samples, recalibrate_samples, self.place)
        self.grads: list[Tensor] = []
        self.buckets: Buckets | None = None
        self.graphs = self._graphs() if graphs else None
        self._views: dict[int, list[Tensor]] = {}
        self._place = 0

    def _on(self, name: str, exact: bool) -> Staging | None:
        """Move the module to a device; None: it stays in the host's memory."""
        if (device := make_device(name, exact=exact)) is None:
            return None
        from runtime.backends.devices.host_masks import draw_on_host

        draw_on_host(self.module, device.place)
        self.module.to(device.torch_name)
        return Staging(device, self.num_parameters)

    def _graphs(self) -> Graphs | None:
        """None: masks are drawn on the host for every batch, so no kernels can be launched without it."""
        if self.masks.active:
            return None
        assert self.staging is not None, "there are no graphs on the CPU"
        return Graphs(self.staging.device, self._whole_passes, list(self.module.buffers()))

    def place(self, values: Tensor) -> Tensor:
        """Inputs where the model computes."""
        return values if self.staging is None else self.staging.device.place(values)

    def initial_parameters(self) -> FloatVector:
        """The parameters that the task draws, if it does; else the module's own."""
        if (drawn := task_parameters(self.task, self.seed)) is not None:
            return checked_parameters(drawn, self.num_parameters)
        parts = [parameter.detach().cpu().numpy().ravel() for parameter in self.parameters]
        return np.concatenate(parts, dtype=np.float32)

    def attach(self, params: FloatVector, grad: FloatVector) -> None:
        """Make the module's parameters views of ``params``; the views of each vector are cached.

        On a device they are views of the device's, to which ``params`` is on its way.
        """
        if self.staging is not None:
            if not self.grads:
                self._use(self._cut(self.staging.params), self._cut(self.staging.grad))
                self.buckets = Buckets(self.staging, self.parameters, self.grads)
            self.staging.bring(params, grad)
            return
        self.grads = self._views_of(grad)
        place = params.ctypes.data
        if place != self._place:
            self._place = place
            self._use(self._views_of(params), self.grads)

    def _use(self, params: list[Tensor], grads: list[Tensor]) -> None:
        self.grads = grads
        for parameter, view in zip(self.parameters, params, strict=True):
            parameter.data = view

    def _views_of(self, vector: FloatVector) -> list[Tensor]:
        import torch

        place = vector.ctypes.data
        if place not in self._views:
            self._views[place] = self._cut(torch.from_numpy(vector))
        return self._views[place]

    def _cut(self, vector: Tensor) -> list[Tensor]:
        """Views of a flat vector in the parameters' shapes."""
        import torch

        sizes = [parameter.numel() for parameter in self.parameters]
        parts = torch.split(vector, sizes)
        return [part.view(parameter.shape) for part, parameter in zip(parts, self.parameters, strict=True)]

    def batch(self, indices: NDArray[np.int64], epochs: NDArray[np.int64] | None = None) -> tuple[Tensor, Tensor]:
        """Copy the samples from the memory-mapped arrays and apply the task's pre-processing."""
        import torch

        inputs, targets = self.data.train
        seen = self.batch_inputs(inputs[indices], augmentation_key(self.seed, indices, epochs))
        return self.place(torch.from_numpy(seen)), self.place(torch.from_numpy(targets[indices]))

    def gradient(self, batch: tuple[Tensor, Tensor], micro: Iterable[MicroBatch]) -> float:
        """Forward and backward pass of the summed loss."""
        if isinstance(micro, Sequence):
            losses = self.graphs.launch(batch, micro) if self.graphs is not None else None
            if losses is None:
                overlaps = self.buckets is not None and self.buckets.several
                losses = self._passes(batch, micro, last=len(micro) - 1 if overlaps else None)
        else:
            losses = self._passes(batch, micro)
        if self.staging is None:
            return sum(map(float, losses), 0.0)
        self.stage_s, found = self.staging.take(losses)
        return sum(found, 0.0)

    def _whole_passes(self, batch: Batch, micro: Sequence[MicroBatch]) -> list[Tensor]:
        return self._passes(batch, micro)

    def _passes(self, batch: Batch, micro: Iterable[MicroBatch], *, last: int | None = None) -> list[Tensor]:
        """Compute the gradient where the model is; while the ``last`` micro-batch is computed, copy what is final."""
        import torch

        inputs, targets = batch
        losses: list[Tensor] = []
        for index, one in enumerate(micro):
            rows, coefficient, pieces = one
            part = inputs[rows]
            self.masks.draw(part)
            if pieces:
                loss, weighted = self._weigh(part, targets[rows], one)
            else:
                loss = weighted = self.task.torch_loss(self.module, part, targets[rows])
            if index == last:
                assert self.buckets is not None
                with self.buckets.overlapping(_adding(coefficient) if index else _putting(coefficient)):
                    torch.autograd.grad(weighted, self.parameters)
            else:
                self._collect(torch.autograd.grad(weighted, self.parameters), coefficient, first=not index)
            losses.append(loss.detach())
            if not isinstance(micro, Sequence):
                losses[-1].item()  # waits for the device: its caller looks at the time next
        return losses

    def _collect(self, grads: tuple[Tensor, ...], coefficient: float, *, first: bool) -> None:
        """Add the gradients of a micro-batch; the first replaces what was there."""
        import torch

        if not first:
            torch._foreach_add_(self.grads, grads, alpha=coefficient)
            return
        torch._foreach_copy_(self.grads, grads)
        if coefficient != 1.0:
            torch._foreach_mul_(self.grads, coefficient)

    def expect_weights(self) -> None:
        """Do nothing: eager PyTorch needs no preparation for weights."""

    def _weigh(self, inputs: Tensor, targets: Tensor, micro: MicroBatch) -> tuple[Tensor, Tensor]:
        """(sum of the losses, sum of the weighted losses); the gradient is taken of the second."""
        import torch

        if self.coupling:
            raise coupled_samples(self.coupling)
        losses = self.task.torch_losses(self.module, inputs, targets)
        return losses.detach().sum(), torch.dot(losses, self.place(torch.from_numpy(micro.weights)))

    def evaluate(self) -> dict[str, float]:
        """The task's metrics, without gradients."""
        metrics = self.evaluation.evaluate(self.data.train, self.data.test)
        if self.staging is not None:
            self.staging.settle()
        return metrics


def _adding(coefficient: float) -> Write:
    """One parameter's part of :meth:`TorchModel._collect`."""
    return lambda place, gradient: place.add_(gradient, alpha=coefficient)


def _putting(coefficient: float) -> Write:
    """Likewise, of a first micro-batch."""
    if coefficient == 1.0:
        return lambda place, gradient: place.copy_(gradient)
    return lambda place, gradient: place.copy_(gradient).mul_(coefficient)


def _coupling(module: torch.nn.Module, masks: Masks) -> str:
    """Say what makes a sample's loss depend on other samples of its micro-batch; empty if nothing does."""
    from torch.nn.modules.batchnorm import _BatchNorm

    if any(isinstance(one, _BatchNorm) for one in module.modules()):
        return "batch normalisation"
    return "dropout" if masks.active else ""


@final
@dataclass(frozen=True, kw_only=True)
class TorchBackend:
    """PyTorch. ``num_threads`` is the intra-op thread count of every process.

    ``device`` is where workers, evaluator and scorer compute: ``cpu``, ``cuda``, or ``fake``, which behaves like a
    device with memory of its own and needs none (docs/gpus.md). ``exact`` (``cuda``): deterministic kernels in full
    float32; else torch chooses (TF32 in convolutions, sums in any order), and runs are not equal to the bit. ``graphs``
    (not on the CPU): all kernels of a gradient are launched at once, which is of use where they are small.

    Parameters are evaluated ``eval_batch_samples`` at a time; with batch normalisation, after its statistics were
    measured on ``recalibrate_samples`` training samples (docs/workloads.md).
    """

    computes: ClassVar[bool] = True
    framework: ClassVar[str] = "torch"
    fork_safe: ClassVar[bool] = True

    device: str = CPU
    exact: bool = True
    graphs: bool = False
    num_threads: int = 1
    eval_batch_samples: int = 512
    recalibrate_samples: int = 1024

    def __post_init__(self) -> None:
        check_counts(self, "num_threads", "eval_batch_samples", "recalibrate_samples")
        if self.device not in DEVICES:
            raise ValueError(f"device={self.device}: must be one of {', '.join(DEVICES)}")
        if not self.exact and self.device == CPU:
            raise ValueError(
                f"exact=false: changes nothing on device={CPU}, whose kernels are exact; needs device=cuda"
            )
        if self.graphs and self.device == CPU:
            raise ValueError(f"graphs=true: device={CPU} launches no kernels; needs device=cuda")

    def preload(self) -> list[str]:
        import torch
        import torch.nn.functional  # noqa: F401

        preload(self.device)
        return ["torch"]

    def prepare(self, task: Any, seed: int, *, only_scores: bool = False) -> TorchModel:
        fields = self.num_threads, self.eval_batch_samples, self.recalibrate_samples
        return TorchModel(task, seed, *fields, self.device, self.exact, self.graphs)

    def initial_parameters(self, task: Any, seed: int) -> FloatVector:
        """The model's initial parameters; builds no model if the task draws them itself, and none on a device."""
        drawn = task_parameters(task, seed)
        return TorchModel(task, seed, self.num_threads).initial_parameters() if drawn is None else drawn
