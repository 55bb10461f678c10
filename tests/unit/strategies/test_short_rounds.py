"""The short last round of an epoch: the mean is over what there is, and the rate is that of a whole round."""

from __future__ import annotations

import pytest

from strategies.protocol import Apply, Arrived, Started, Timings
from tests.contract.catalogue import make
from tests.support.grads import make_grad


def arrived(worker: int, samples: int) -> Arrived:
    grad = make_grad(worker, samples, assigned_samples=4)
    return Arrived(t=1.0, grad=grad, timings=Timings(compute_s=1.0), loss=None, sqr_norm=None)


@pytest.mark.parametrize("name", ["bsp", "ssp", "static_x", "first_k", "lgc"])
def test_a_short_round_keeps_the_rate_of_a_whole_one(name: str) -> None:
    """Of four samples each worker found three and one; an update of one whole batch of two has half of the rate."""
    settings = {"ssp": {"bound": 0}, "static_x": {"x": 2}, "first_k": {"k": 2}, "lgc": {"k_fastest": 2}}.get(name, {})
    strategy = make(name, **settings)
    strategy.handle(Started(t=0.0, workers=(0, 1), batch_samples=(4, 4), num_servers=1))
    strategy.handle(arrived(0, 3))
    [update] = [command for command in strategy.handle(arrived(1, 1)) if isinstance(command, Apply)]
    assert (update.grads, update.weights, update.lr_scale) == ((0, 1), (0.25, 0.25), 1.0)
