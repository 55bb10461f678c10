"""Image models against torchvision's, which nobody here wrote: what those gave for the same parameters and images.

Stored once, from torchvision 0.28.0 with torch 2.13.0 (then equal to the bit, the gradients and statistics, too):
``draw(0, initializers(...))`` as its parameters, in its order; training mode without dropout, so that batches are
normalised by their own statistics. Its GoogLeNet differs (kernels, pooling, an epsilon of 0.001).
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

from tests.support.long_tests import long_after
from workloads.models.images import image_model
from workloads.models.initial import draw
from workloads.models.layers import initializers
from workloads.models.torch.images import build

OUTPUTS = {
    "resnet34": (96, [[-0.392687, 0.386647, 0.687606, 0.382028], [-0.279447, -0.008253, 1.012111, 0.23432]], 158.162),
    "alexnet": (224, [[-0.157534, -0.239503, 0.520665, 0.48182], [-0.147961, -0.447053, 0.523531, 0.491486]], 87.0811),
    "densenet121": (
        96,
        [[-0.069662, 0.030598, -0.053719, 0.092337], [0.000133, 0.186814, -0.079413, 0.186047]],
        62.461,
    ),
    "resnet101": (96, [[0.109576, -0.144138, -0.413311, 0.645339], [0.20738, -0.261613, -0.669159, 0.386009]], 5532.64),
    "vgg13": (224, [[0.14578, -0.043924, -0.07324, -0.144533], [0.211451, -0.069235, 0.060626, -0.121199]], 50.721),
    "vgg16": (224, [[-0.184678, 0.047282, -0.003072, 0.058694], [-0.077095, 0.079674, 0.067411, 0.048775]], 65.5738),
}
"""Image side (pixels), scores [2 images, 4 classes], norm of the gradient of the summed loss for classes 0 and 3."""


@pytest.mark.parametrize("name", long_after(list(OUTPUTS), always=1))
def test_outputs_and_gradient_are_torchvision_s(name: str) -> None:
    side, wanted, norm = OUTPUTS[name]
    shape = (3, side, side)
    layers = image_model(name, shape, 4)
    module = build(layers, shape)
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    parameters = list(module.parameters())
    vector_to_parameters(torch.from_numpy(draw(0, initializers(layers, shape))), parameters)
    images = torch.from_numpy(np.random.default_rng(1).standard_normal((2, *shape), dtype=np.float32))
    scores = module(images)
    np.testing.assert_allclose(scores.detach().numpy(), wanted, rtol=1e-3, atol=1e-3)
    grads = torch.autograd.grad(cross_entropy(scores, torch.tensor([0, 3]), reduction="sum"), parameters)
    assert float(torch.cat([grad.ravel() for grad in grads]).norm()) == pytest.approx(norm, rel=1e-2)
