"""BSP against its source: Valiant, "A bridging model for parallel computation", CACM 1990."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.basic.bsp import BSP
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
    it. Workers that need 1, 1, 1 and 4 s: one update every 4 s, 40 gradients in 40 s, none of them stale."""
    run = HeapRun(BSP(), make_job(), [1, 1, 1, 4]).run()
    assert [t for t, _, _ in run.applied] == [4.0 * k for k in range(1, 11)]
    assert len(run.used) == 40
    assert set(run.staleness) == {0}


@settings(max_examples=15)
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
    workers and servers: equal to the bit."""
    size = {"num_samples": num_samples, "data": data, "batches_per_shard": batches_per_shard}
    calm = three_epochs(seed, num_workers, faults=[], **size).run()
    rough = three_epochs(seed, num_workers, **size).run()
    assert work_of_updates(rough) == work_of_updates(calm)
