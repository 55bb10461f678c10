"""Backup workers against their source: Chen et al., "Revisiting distributed synchronous SGD", 2016, with AntDT's rule
that the samples of a dropped gradient are computed again."""

from __future__ import annotations

from collections import Counter

from strategies.basic.backup_workers import BackupWorkers
from tests.support.harness import HeapRun, make_job
from tests.support.laws import dead, unconserved


def five_workers(**changes: object) -> HeapRun:
    """One backup for four; the fifth takes 4 s instead of 1. The global batch of 4 belongs to the four waited for."""
    job = make_job(**{"num_workers": 5, "global_batch_samples": 5, "max_time_s": 40.0, **changes})
    return HeapRun(BackupWorkers(num_backup=1), job, [1, 1, 1, 1, 4])


def uses_of_samples(run: HeapRun) -> Counter[tuple[int, int, int]]:
    """How often each sample was handed out."""
    handed: Counter[tuple[int, int, int]] = Counter()
    for order in run.orders.values():
        for work in order.ranges:
            handed.update((work.epoch, work.shard, position) for position in range(work.start, work.stop))
    return handed


def test_an_update_waits_for_the_first_n_of_n_plus_b() -> None:
    """Chen et al., Algorithms 3 and 4: the parameters are updated as soon as any N of the N + b gradients have arrived,
    and the slowest b are discarded on arrival. With 1, 1, 1, 1 and 4 s and b = 1: updates at 1, 2, ..., 40 s from 160
    gradients of the current parameters; the fifth worker's ten are dropped."""
    run = five_workers(global_batch_samples=8).run()
    assert [t for t, _, _ in run.applied] == [float(k) for k in range(1, 41)]
    assert len(run.used) == 160
    assert set(run.staleness) == {0}
    assert {grad.worker for grad in run.used} == {0, 1, 2, 3}
    assert [run.grads[grad].worker for grad in run.dropped] == [4] * 10


def test_the_end_of_an_epoch_does_not_wait_for_the_straggler() -> None:
    """Beyond the paper. Eleven updates of 12 samples an epoch, eight epochs that overlap, a straggler of 4.5 s: 87
    whole updates a second apart. Only at the job's end somebody waits for what the straggler has. (It used to draw its
    own late samples again and held every other epoch open: 10 short updates, 3 of them late, in the first seven
    epochs.)"""
    job = make_job(num_samples=132, global_batch_samples=12, epochs=8, epoch_overlap=True, max_time_s=1000.0)
    run = HeapRun(BackupWorkers(), job, [1, 1, 1, 4.5]).run()
    whole = run.applied[:87]
    assert [(t, order.samples) for t, order, _ in whole] == [(float(k), 12) for k in range(1, 88)]
    assert sum(order.samples for _, order, _ in run.applied[87:]) == 12
    assert unconserved(run) == []


def test_without_requeue_dropped_samples_are_lost() -> None:
    """Chen et al., Algorithm 4 discards late gradients: the epoch ends without their samples."""
    job = make_job(num_workers=5, global_batch_samples=8, num_samples=200, epochs=2, max_time_s=400.0)
    run = HeapRun(BackupWorkers(num_backup=1, requeue=False), job, [1, 1, 1, 1, 4]).run()
    lost = sum(run.grads[grad].samples for grad in run.dropped)
    assert dead(run) == []
    assert lost > 0
    assert sum(order.samples for order in run.effective) == 400 - lost
    assert set(uses_of_samples(run).values()) == {1}
