"""Clusters of values by ratio, as a look at everything finds them."""

from __future__ import annotations

import random

from strategies.parts.monitoring.base import cluster_by_ratio
from tests.support.scanning import scanned_clusters


def test_clusters() -> None:
    """Many values are equal, so that ties decide."""
    draw = random.Random(0)
    for _ in range(1000):
        values = [draw.choice([1.0, 1.5, 2.0, 3.0, draw.uniform(1, 4)]) for _ in range(draw.randrange(12))]
        ratio, at_most = draw.choice([1.0, 1.1, 1.5, 2.0]), draw.choice([None, 1, 2, 5])
        assert cluster_by_ratio(values, ratio, at_most) == scanned_clusters(values, ratio, at_most)
