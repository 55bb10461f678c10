"""BSP against its source: Valiant, "A bridging model for parallel computation", CACM 1990."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.basic.bsp import BSP
from strategies.protocol import Apply, Arrived, Restored
from tests.support.faults import random_seconds, restarts
from tests.support.harness import HeapRun, make_job


def work_of_updates(run: HeapRun) -> list[list[object]]:
    """Who computed what, in the order in which it was summed, for every update that counts."""
    return [[(run.orders[grad].worker, run.orders[grad].ranges) for grad in update.grads] for update in run.effective]


def three_epochs(seed: int, num_workers: int, data: str = "dynamic", **changes: object) -> HeapRun:
    """A job that ends by epochs, with restarting workers and servers unless ``faults`` says otherwise."""
    faults = changes.pop("faults", restarts(seed, num_workers))
    job = make_job(
        num_workers=num_workers,
        global_batch_samples=2 * num_workers,
        epochs=3,
        max_time_s=2000.0,
        checkpoint_every_s=4.0,
        **changes,
    )
    return HeapRun(BSP(data=data), job, random_seconds(seed), faults)  # type: ignore[arg-type]


def test_a_superstep_lasts_as_long_as_its_slowest_component() -> None:
    """Valiant, section "The BSP model": a global check after each superstep waits until all components have finished
    it. Workers that need 1, 1, 1 and 4 s: one update every 4 s, 40 gradients in 40 s, none of them stale.
    """
    run = HeapRun(BSP(), make_job(), [1, 1, 1, 4]).run()
    assert [t for t, _, _ in run.applied] == [4.0 * k for k in range(1, 11)]
    assert len(run.used) == 40
    assert set(run.staleness) == {0}


@pytest.mark.parametrize("num_workers", [1, 2, 3, 5, 7])
def test_an_update_is_the_gradient_of_the_whole_batch(num_workers: int) -> None:
    """Dean et al. (2012), section 3, data parallelism: an update is what one machine would compute, the mean gradient
    over the global batch, however that is split (30 samples over 7 workers: 5, 5, 4, 4, 4, 4, 4). Float32, relative
    error 1e-6.
    """
    job = make_job(num_workers=num_workers, num_samples=100, global_batch_samples=30, epochs=1)
    run = HeapRun(BSP(), job, [1.0] * num_workers).run()
    per_sample = np.random.default_rng(0).normal(size=(100, 16)).astype(np.float32)
    for _, order, _ in run.applied:
        ranges = [run.orders[grad].ranges for grad in order.grads]
        rows = [np.concatenate([_rows(run, work) for work in works]) for works in ranges]
        update = sum(weight * per_sample[own].sum(axis=0) for weight, own in zip(order.weights, rows, strict=True))
        whole = per_sample[np.concatenate(rows)].astype(np.float64).mean(axis=0)
        assert np.abs(update - whole).max() <= 1e-6 * np.abs(per_sample).max()
    assert sum(order.samples for _, order, _ in run.applied) == 100


def _rows(run: HeapRun, work: object) -> np.ndarray:
    return run.core.cut.offset(work.shard) + np.arange(work.start, work.stop)  # type: ignore[attr-defined]


@given(seed=st.integers(0, 10_000), num_workers=st.integers(1, 6))
def test_every_update_stands_for_the_global_batch(seed: int, num_workers: int) -> None:
    """Valiant, section "The BSP model": between two updates every worker reports exactly once (without samples where
    the epoch has none left), and the assigned samples sum to the global batch, also with workers that restart and
    parameters that are restored.
    """
    run = three_epochs(seed, num_workers, num_samples=10 * num_workers + 3).run()
    waiting: dict[int, int] = {}
    for line in run.lines:
        if isinstance(line.event, Arrived):
            waiting[line.event.grad.worker] = line.event.grad.assigned_samples
        elif isinstance(line.event, Restored):
            waiting.clear()
        if any(isinstance(command, Apply) for command in line.commands):
            assert sum(waiting.values()) == run.job.global_batch_samples
            waiting.clear()
    assert run.core.shards.finished


@given(
    seed=st.integers(0, 10_000),
    num_workers=st.integers(1, 5),
    num_samples=st.integers(10, 70),
    batches_per_shard=st.integers(1, 3),
    data=st.sampled_from(["dynamic", "even"]),
)
def test_crashes_do_not_change_one_bit(
    seed: int, num_workers: int, num_samples: int, batches_per_shard: int, data: str
) -> None:
    """Beyond the paper. Every update is the same sum of the same terms in the same order, with and without crashes of
    workers and servers: equal to the bit.
    """
    size = {"num_samples": num_samples, "data": data, "batches_per_shard": batches_per_shard}
    calm = three_epochs(seed, num_workers, faults=[], **size).run()
    rough = three_epochs(seed, num_workers, **size).run()
    assert work_of_updates(rough) == work_of_updates(calm)
