"""Dropout on a device with masks that are drawn on the host, so that a run on the CPU has the same masks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

Place = Callable[[Tensor], Tensor]


def draw_on_host(module: nn.Module, place: Place) -> None:
    """Let all dropout layers draw on the host; raises ``ValueError`` for a layer whose masks a device would draw.

    ``place`` brings masks to the device, without waiting for the kernels that are in its queue.
    """
    for name, one in module.named_modules():
        if isinstance(one, nn.Dropout):
            one.forward = partial(_drop_out, one, place)  # type: ignore[method-assign]
        elif _draws_inside(one):
            raise ValueError(
                f"backend.device: {name or 'the model'} ({type(one).__name__}) draws dropout masks on the device "
                "itself, which would not be those of the CPU; set its dropout to 0, or backend.device=cpu"
            )


def _drop_out(layer: nn.Dropout, place: Place, inputs: Tensor) -> Tensor:
    """As torch's own dropout on the CPU, to the bit."""
    if not layer.training or not layer.p:
        return inputs
    if layer.p == 1:
        return inputs * torch.zeros((), device=inputs.device)
    kept = torch.empty_like(inputs, device="cpu").bernoulli_(1 - layer.p).div_(1 - layer.p)  # in the inputs' own layout
    return inputs * place(kept)


def _draws_inside(module: nn.Module) -> bool:
    """Whether its own kernels draw masks: between recurrent layers, within attention, of whole channels."""
    if isinstance(module, nn.RNNBase):
        return bool(module.dropout) and module.num_layers > 1
    if isinstance(module, nn.MultiheadAttention):
        return bool(module.dropout)
    return isinstance(module, _DropoutNd) and bool(module.p)
