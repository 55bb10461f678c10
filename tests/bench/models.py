"""The two models of the step benchmarks: one dominated by communication, one by computation. Deterministic.

``build`` gives every process the same parameters, ``batch`` gives every rank its own fixed batch; there is no data
loader, so that nothing but computation and communication is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

BATCH = 32
LEARNING_RATE = 0.01


class MLP(nn.Sequential):
    """784-1024-200-10 with biases: 1,010,850 parameters, 4.04 MB per gradient for some 2 ms of computation.

    Of another width it has 985 width + 2,210 parameters.
    """

    def __init__(self, width: int = 1024) -> None:
        super().__init__(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 200), nn.ReLU(), nn.Linear(200, 10))


class Block(nn.Module):
    """Two 3x3 convolutions and an identity shortcut without parameters (option A of the paper)."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.stride = fan_out // fan_in
        self.extra = fan_out - fan_in
        self.conv1 = nn.Conv2d(fan_in, fan_out, 3, stride=self.stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(fan_out)
        self.conv2 = nn.Conv2d(fan_out, fan_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(fan_out)

    def forward(self, x: Tensor) -> Tensor:
        out = functional.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.extra:
            x = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.extra))
        return functional.relu(out + x)


class ResNet20(nn.Sequential):
    """He et al., "Deep residual learning for image recognition", 2015, section 4.2, n=3: 269,722 parameters."""

    def __init__(self) -> None:
        widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
        blocks = [Block(fan_in, fan_out) for fan_in, fan_out in pairwise(widths)]
        stem = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
        super().__init__(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (MLP, (784,)),
    "mlp 1 MB": (partial(MLP, 251), (784,)),
    "mlp 10 MB": (partial(MLP, 2536), (784,)),
    "resnet20": (ResNet20, (3, 32, 32)),
}
"""Name -> (how to build it, shape of one sample)."""


def build(name: str) -> nn.Module:
    """The model in training mode, the same parameters in every process; one intra-op thread from here on."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return MODELS[name][0]()


def batch(name: str, rank: int) -> tuple[Tensor, Tensor]:
    """Random inputs (float32 [BATCH, ...]) and labels (int64 [BATCH]) of one rank."""
    generator = torch.Generator().manual_seed(1000 + rank)
    inputs = torch.randn(BATCH, *MODELS[name][1], generator=generator)
    return inputs, torch.randint(0, 10, (BATCH,), generator=generator)


def backward(model: nn.Module, inputs: Tensor, labels: Tensor) -> None:
    """One forward and backward pass into the parameters' ``grad``."""
    model.zero_grad()
    functional.cross_entropy(model(inputs), labels).backward()
