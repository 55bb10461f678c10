"""LGC against its sources: Xu et al., "Live gradient compensation for evading stragglers in distributed learning",
INFOCOM 2021 (abstract), and STAR, section V-A."""

from __future__ import annotations

import pytest

from strategies.lgc import LGC
from tests.support.harness import HeapRun, Rig, make_job


def of_four(fourth_s: float, delay: int = 1, **changes: object) -> HeapRun:
    """K = 3 of four workers, of which three need a second, for 20 s."""
    strategy = LGC(k_fastest=3, max_delay_versions=delay)
    return HeapRun(strategy, make_job(**{"max_time_s": 20.0, **changes}), [1, 1, 1, fourth_s]).run()


def test_gradients_of_stragglers_are_one_step_delayed_and_used() -> None:
    """Abstract: delayed gradients compensate. The fourth worker needs 1.8 s, and an update comes every second all the
    same; it delivers between two updates and is part of the second one: 70 gradients, 10 of them one version old. A
    gate that drops what is one version old uses 60."""
    run = of_four(1.8)
    assert [t for t, _, _ in run.applied] == [float(k) for k in range(1, 21)]
    assert (len(run.used), len(run.dropped)) == (70, 0)
    late = [grad for grad, age in zip(run.used, run.staleness, strict=True) if age]
    assert {grad.worker for grad in late} == {3}
    assert (len(late), max(run.staleness)) == (10, 1)
    without = of_four(1.8, delay=0)
    assert (len(without.used), len(without.dropped)) == (60, 11)


def test_a_slightly_late_worker_begins_again_at_once() -> None:
    """Beyond the paper: the fourth needs 1.2 s. It delivers at 1.2, 2.4, 3.6 and 4.8 and would be two versions late by
    6 s, so it waits for the update at 5: four gradients in 5 s, 16 in 20. Always waiting for the next update, it brings
    one in 2 s."""
    run = of_four(1.2)
    assert (run.updates, len(run.used), len(run.dropped), max(run.staleness)) == (20, 60 + 16, 0, 1)
    waiting = LGC(k_fastest=3, late_begin="next_update")
    job = make_job(max_time_s=20.0)
    assert len(HeapRun(waiting, job, [1, 1, 1, 1.2]).run().used) == 60 + 10


def in_blocks(num_blocks: int) -> HeapRun:
    """As ``of_four`` with 2.5 s, in parts; the fourth is late for 5 s by a hair. Batches of four."""
    seconds = [1.0 / num_blocks] * 3 + [2.5 / num_blocks + 1e-9]
    strategy = LGC(k_fastest=3, blocks=num_blocks)
    return HeapRun(strategy, make_job(global_batch_samples=16, max_time_s=12.0), seconds).run()


def test_what_a_straggler_has_finished_is_used() -> None:
    """STAR, section V-B: "LGC's partial gradient aggregation". In four parts nothing is two updates late: of its
    first 16 parts 6 are fresh and 10 one version old."""
    run = in_blocks(4)
    ages = [age for grad, age in zip(run.used, run.staleness, strict=True) if grad.worker == 3][:16]
    assert (ages.count(0), ages.count(1)) == (6, 10)
    assert not run.dropped
    assert in_blocks(1).dropped, "negative control: whole gradients are too late"
    assert [t for t, _, _ in run.applied] == [float(t) for t in range(1, 13)], "when three have brought four parts each"
    for _, _, grads in run.applied:
        assert [sum(grad.samples for grad in grads if grad.worker == worker) for worker in range(3)] == [4, 4, 4]


def test_parts_of_a_batch_that_does_not_divide() -> None:
    """Beyond the paper. Five samples in three parts are 2, 2 and 1; every part needs one."""
    rig = Rig(LGC(k_fastest=2, blocks=3), make_job(num_workers=2, global_batch_samples=10)).start()
    for _ in range(3):
        rig.arrive(0)
    assert [grad.samples for grad in rig.grads.values()] == [2, 2, 1]
    assert rig.busy_workers() == [1]
    with pytest.raises(ValueError, match=r"blocks=5: must be at most the samples of the smallest batch \(4\)"):
        LGC(blocks=5).validate_batch(4, 16)


@pytest.mark.parametrize(("num_workers", "fresh"), [(4, 4), (12, 5)])
@pytest.mark.parametrize("blocks", [1, 2])
def test_k_of_star_in_jobs_of_4_to_12_workers(num_workers: int, fresh: int, blocks: int) -> None:
    """STAR, section V-A: "we set K = 5", in jobs of 4 to 12 workers; of fewer than 5 workers, all."""
    job = make_job(num_workers=num_workers, global_batch_samples=12 * num_workers)
    rig = Rig(LGC(k_fastest=5, blocks=blocks), job).start()
    for worker in range(fresh - 1):
        for _ in range(blocks):
            rig.arrive(worker)
    assert rig.applied == []
    for _ in range(blocks):
        rig.arrive(fresh - 1)
    assert len(rig.applied) == 1
