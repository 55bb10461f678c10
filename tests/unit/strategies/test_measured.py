"""What is measured of iterations: which count, and clusters of values by ratio."""

from __future__ import annotations

import random

from strategies.parts.monitoring.base import Warmup, cluster_by_ratio
from strategies.protocol import Arrived, Timings
from tests.support.grads import make_grad
from tests.support.scanning import scanned_clusters


def arrived(incarnation: int = 0, samples: int = 4, compute_s: float = 1.0) -> Arrived:
    grad = make_grad(samples=samples, incarnation=incarnation, assigned_samples=4)
    return Arrived(t=1.0, grad=grad, timings=Timings(compute_s=compute_s), loss=None, sqr_norm=None)


def test_which_iterations_tell_how_fast_a_worker_is() -> None:
    warmup = Warmup(2)
    received = [warmup.tells(arrived(incarnation)) for incarnation in (0, 0, 0, 0, 1, 1, 1)]
    assert received == [False, False, True, True, False, False, True]
    warmup = Warmup(0)
    assert warmup.tells(arrived())
    assert not warmup.tells(arrived(samples=3))
    assert not warmup.tells(arrived(samples=0))
    assert not warmup.tells(arrived(compute_s=0.0))


def test_clusters() -> None:
    """Many values are equal, so that ties decide."""
    draw = random.Random(0)
    for _ in range(1000):
        values = [draw.choice([1.0, 1.5, 2.0, 3.0, draw.uniform(1, 4)]) for _ in range(draw.randrange(12))]
        ratio, at_most = draw.choice([1.0, 1.1, 1.5, 2.0]), draw.choice([None, 1, 2, 5])
        assert cluster_by_ratio(values, ratio, at_most) == scanned_clusters(values, ratio, at_most)
