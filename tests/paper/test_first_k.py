"""First-K against what it is the control for: LGC (Xu et al., INFOCOM 2021) and backup workers (Chen et al., 2016)."""

from __future__ import annotations

import pytest

from strategies.basic.first_k import FirstK
from tests.support.harness import HeapRun, make_job


def test_the_first_k_make_the_update_and_the_rest_is_dropped() -> None:
    """Xu et al., abstract, without its compensation: 1, 1, 1 and 4 s, K = 3. An update every second from 120 fresh
    gradients; the ten of the fourth are dropped. By default it waits for three quarters of the workers."""
    run = HeapRun(FirstK(), make_job(), [1, 1, 1, 4]).run()
    assert [t for t, _, _ in run.applied] == [float(k) for k in range(1, 41)]
    assert (len(run.used), len(run.dropped), set(run.staleness)) == (120, 10, {0})


@pytest.mark.parametrize("k", [0, 5])
def test_k_out_of_range_is_refused(k: int) -> None:
    """Beyond the paper: K is from 1 to the number of workers."""
    with pytest.raises(ValueError, match=f"k={k}: must be"):
        FirstK(k=k).validate(4)
