"""How a task of a large model begins: ResNet-101's 44.5 million parameters, as a server and as a worker need them.

Each is compared with the obvious way to the same result. Seconds of one try in a fresh process, imports left out.
"""

from __future__ import annotations

import time

from runtime.containment.process import keep_freed_memory
from runtime.core.vectors import aligned_vector, server_range
from workloads.models.images import image_model
from workloads.models.initial import draw, draw_part
from workloads.models.layers import Layers, count, initializers

SHAPE = (3, 224, 224)
SERVERS = 2


def _layers() -> Layers:
    keep_freed_memory()  # as in every task
    return image_model("resnet101", SHAPE, 1000)


def parts_of_the_whole() -> float:
    """Both servers' parts, one after the other: all parameters are drawn for each, and its part is copied twice, to be
    kept and to be trained."""
    layers = _layers()
    begun = time.perf_counter()
    for server in range(SERVERS):
        lo, hi = server_range(count(layers, SHAPE), SERVERS, server)
        kept = draw(0, initializers(layers, SHAPE))[lo:hi].copy()
        aligned_vector(hi - lo)[:] = kept
    return time.perf_counter() - begun


def parts_in_place() -> float:
    """The same, drawn where they are trained."""
    layers = _layers()
    begun = time.perf_counter()
    for server in range(SERVERS):
        lo, hi = server_range(count(layers, SHAPE), SERVERS, server)
        draw_part(0, initializers(layers, SHAPE), lo, aligned_vector(hi - lo))
    return time.perf_counter() - begun


def filled_module() -> float:
    """The network with PyTorch's own initial values, which parameters from servers replace."""
    from workloads.models.torch.images import build

    layers = _layers()
    begun = time.perf_counter()
    build(layers, SHAPE)
    return time.perf_counter() - begun


def unfilled_module() -> float:
    """The same without them."""
    from workloads.models.torch.images import build
    from workloads.models.torch.unfilled import Unfilled

    layers = _layers()
    begun = time.perf_counter()
    with Unfilled():
        build(layers, SHAPE)
    return time.perf_counter() - begun
