"""First-K against what it is the control for: LGC (Xu et al., INFOCOM 2021) and backup workers (Chen et al., 2016)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.basic.backup_workers import BackupWorkers
from strategies.basic.bsp import BSP
from strategies.basic.first_k import FirstK
from strategies.protocol import Apply
from tests.support.harness import HeapRun, make_job
from tests.support.laws import dead, unconserved, unlawful
from tests.support.rough import leaving, parted, rough


def test_the_first_k_make_the_update_and_the_rest_is_dropped() -> None:
    """Xu et al., abstract, without its compensation: 1, 1, 1 and 4 s, K = 3. An update every second from 120 fresh
    gradients; the ten of the fourth are dropped. By default it waits for three quarters of the workers.
    """
    run = HeapRun(FirstK(), make_job(), [1, 1, 1, 4]).run()
    assert [t for t, _, _ in run.applied] == [float(k) for k in range(1, 41)]
    assert (len(run.used), len(run.dropped), set(run.staleness)) == (120, 10, {0})


def test_the_batch_shrinks_and_with_it_the_step() -> None:
    """Departure from Chen et al., Algorithm 4: workers keep B / N. Three of four with two samples each are a mean over
    6, at 3/4 of the rate.
    """
    run = HeapRun(FirstK(k=3), make_job(global_batch_samples=8), [1, 1, 1, 4]).run()
    assert {grad.assigned_samples for grad in run.grads.values()} == {2}
    applies = [command for command in run.commands if isinstance(command, Apply)]
    assert {(command.weights, command.lr_scale) for command in applies} == {((1 / 6,) * 3, 0.75)}


@pytest.mark.long(like="test_k_of_all_workers_is_bsp_also_when_workers_leave")
@given(seed=st.integers(0, 10_000), num_workers=st.integers(1, 6), data=st.sampled_from(["dynamic", "even"]))
def test_k_of_all_workers_is_bsp(seed: int, num_workers: int, data: str) -> None:
    """Chen et al., Algorithm 3 with b = 0."""
    one = rough(FirstK(k=num_workers, data=data), seed, num_workers)
    assert parted(one, rough(BSP(data=data), seed, num_workers)) == ""


@given(seed=st.integers(0, 10_000), num_workers=st.integers(2, 6))
def test_k_of_all_workers_is_bsp_also_when_workers_leave(seed: int, num_workers: int) -> None:
    """Beyond the paper: the same with workers that leave for good."""
    one = rough(FirstK(k=num_workers), seed, num_workers, leaving)
    assert parted(one, rough(BSP(), seed, num_workers, leaving)) == ""


@given(seed=st.integers(0, 10_000), num_workers=st.integers(2, 6), data=st.data())
def test_it_equals_backup_workers_with_nominal_batches(seed: int, num_workers: int, data: st.DataObject) -> None:
    """Chen et al., Algorithm 4: all but K are backups; only the size of the batches differs."""
    k = data.draw(st.integers(1, num_workers))
    backups = BackupWorkers(num_backup=num_workers - k, enlarge=False)
    assert parted(rough(FirstK(k=k), seed, num_workers), rough(backups, seed, num_workers)) == ""


def test_with_enlarged_batches_it_differs_from_backup_workers() -> None:
    """Negative control of the comparison."""
    assert parted(rough(FirstK(k=2), 0, 3), rough(BackupWorkers(num_backup=1), 0, 3))


@pytest.mark.long(like="test_k_of_all_workers_is_bsp_also_when_workers_leave")
@given(seed=st.integers(0, 10_000), num_workers=st.integers(2, 6), data=st.data())
def test_no_sample_is_lost_and_no_job_hangs(seed: int, num_workers: int, data: st.DataObject) -> None:
    """Beyond the paper: any K, with crashes and restores."""
    run = rough(FirstK(k=data.draw(st.integers(1, num_workers))), seed, num_workers, leaving)
    assert unlawful(run) + dead(run) + unconserved(run) == []
    assert set(run.staleness) == {0}


@pytest.mark.parametrize("k", [0, 5])
def test_k_out_of_range_is_refused(k: int) -> None:
    """Beyond the paper: K is from 1 to the number of workers."""
    with pytest.raises(ValueError, match=f"k={k}: must be"):
        FirstK(k=k).validate(4)
