"""Dropout in PyTorch, whose masks are drawn from a key of the micro-batch (:mod:`runtime.backends.masks`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from runtime.backends.masks import mask_key

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@final
class Masks:
    """The random state for ``module``'s dropout; without dropout nothing is seeded."""

    def __init__(self, module: torch.nn.Module, seed: int) -> None:
        self.active = any(_drops(one) for one in module.modules())
        self.seed = seed

    def draw(self, inputs: Tensor) -> None:
        """Seed the masks of the next forward pass."""
        import torch

        if self.active:
            torch.manual_seed(mask_key(self.seed, inputs.cpu().numpy()))


def _drops(module: torch.nn.Module) -> bool:
    """Whether the module uses dropout: ``p`` of dropout layers, ``dropout`` of recurrent and attention layers."""
    fractions = (getattr(module, "p", 0.0), getattr(module, "dropout", 0.0))
    return any(isinstance(frac, float) and frac > 0 for frac in fractions)
