"""Gradient coding as a strategy, against Tandon et al. (ICML 2017) and Wang et al. (ICDCS 2019).

The matrices themselves: ``test_gradient_coding_matrices.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from runtime.core.job import ComputeOrder
from strategies.gradient_coding import GradientCoding
from strategies.protocol import Apply, Compute, Partition
from tests.support.faults import Crash
from tests.support.harness import HeapRun, Rig, make_job, samples_of
from tests.support.laws import dead, miscounted, unconserved, unlawful
from tests.support.long_tests import long_after

UNIT_SAMPLES = 840
"""Global batch: divides into the parts of all schemes here."""
SPEEDS = [1.0, 2.0, 3.0, 4.0, 4.0]
NEVER_S = 1e6


def worked(speeds: list[float], late: dict[int, float]) -> Callable[[int, ComputeOrder], float]:
    """Seconds in which a worker computes its samples; one unit of speed does a whole batch in a second."""

    def seconds(worker: int, order: ComputeOrder) -> float:
        own = samples_of(order)
        return own / UNIT_SAMPLES / speeds[worker] + late.get(worker, 0.0)

    return seconds


def played(
    scheme: str,
    s: int = 1,
    late: dict[int, float] | None = None,
    speeds: list[float] = SPEEDS,
    rounds: int = 20,
    **changes: Any,
) -> HeapRun:
    known = {} if scheme in ("naive", "fractional_repetition", "cyclic") else {"throughputs": speeds}
    strategy = GradientCoding(scheme=scheme, s=s, **{**known, **changes})
    job = make_job(
        num_workers=len(speeds),
        global_batch_samples=UNIT_SAMPLES,
        num_samples=rounds * UNIT_SAMPLES,
        epochs=1,
        max_time_s=1e9,
    )
    return HeapRun(strategy, job, worked(speeds, late or {})).run()


def round_s(run: HeapRun) -> float:
    """Seconds of a round, once it has settled."""
    ends = [t for t, _, _ in run.applied]
    return (ends[-1] - ends[4]) / (len(ends) - 5)


def test_heter_aware_workers_all_finish_together_at_the_optimum() -> None:
    """Theorem 5. Throughputs 1, 2, 3, 4, 4 and s = 1: (s + 1) / 14 = 1/7 s of each, the least that any code can do."""
    assert round_s(played("heter_aware", k=7)) == pytest.approx(1 / 7, rel=1e-3)
    assert round_s(played("naive", s=0)) == pytest.approx(0.2, rel=1e-3)
    assert round_s(played("cyclic")) == pytest.approx(0.2, rel=1e-3)


@pytest.mark.parametrize("scheme", ["cyclic", "heter_aware", "group_based"])
@pytest.mark.parametrize("delay_s", long_after([4.0, 0.5, NEVER_S], always=1))
def test_the_time_of_a_round_does_not_depend_on_one_workers_delay(scheme: str, delay_s: float) -> None:
    """Figure 2a: flat in the delay, and so with a worker that never answers."""
    for late in range(5):
        delayed = played(scheme, late={late: delay_s})
        assert dead(delayed) == []
        assert round_s(delayed) <= round_s(played(scheme, late={late: NEVER_S})) * (1 + 1e-9)


def test_cyclic_with_two_stragglers_rises_to_the_slow_workers_bound() -> None:
    """Figure 2b, cluster A: with s = 2 and two fast workers gone, one of the slowest counts."""
    speeds = [2.0, 2.0, 4.0, 4.0, 8.0, 8.0, 8.0, 12.0]
    calm, struck = (played("cyclic", 2, late, speeds) for late in ({}, {6: NEVER_S, 7: NEVER_S}))
    assert round_s(struck) == pytest.approx(2 * round_s(calm), rel=0.1)
    ours = played("heter_aware", 2, {6: NEVER_S, 7: NEVER_S}, speeds, k=8)
    assert round_s(struck) == pytest.approx(3 * round_s(ours), rel=0.1)


@pytest.mark.few(4)
@pytest.mark.parametrize("scheme", ["fractional_repetition", "cyclic", "heter_aware", "group_based"])
@pytest.mark.parametrize("s", [1, 2])
@pytest.mark.parametrize("first", long_after(range(3), always=1))
def test_every_update_is_the_full_gradient_whoever_is_missing(scheme: str, s: int, first: int) -> None:
    """Theorem 4: robust to any s stragglers."""
    speeds = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    for missing in [*combinations(range(6), s)][first::3]:
        run = played(scheme, s, dict.fromkeys(missing, NEVER_S), speeds)
        updates = [command for command in run.commands if isinstance(command, Apply)]
        assert len(updates) == 20
        assert not any(miscounted(run, update) for update in updates)
        assert not {run.grads[grad].worker for update in updates for grad in update.grads} & set(missing)
        assert unconserved(run) == []


def test_measured_throughputs_lead_to_the_code_of_given_ones_and_who_never_answers_counts_as_the_mean() -> None:
    """Departure from Wang et al., section IV (sampling beforehand): it begins with equal shares; after ten rounds
    all speeds are known, and all workers finish together. Departure from Wang et al., section IV: a worker that
    never delivers counts as the mean of the others, whose shares are then in proportion to their speeds."""
    run = played("heter_aware", throughputs=None, estimate_iters=3, k=7)
    assert {command.num_parts for command in run.commands if isinstance(command, Partition)} == {7}
    last = [command for command in run.commands if isinstance(command, Compute)][-5:]
    assert sorted(len(command.parts) for command in last) == [1, 2, 3, 4, 4]
    run = played("heter_aware", throughputs=None, estimate_iters=3, k=14, late={0: NEVER_S}, rounds=40)
    last = [command for command in run.commands if isinstance(command, Compute)][-4:]
    assert {command.worker: len(command.parts) for command in last} == {1: 3, 2: 5, 3: 7, 4: 7}


def test_few_samples_make_few_parts() -> None:
    """Beyond the paper: four samples a round are at most four parts, so none is left for a worker that is fifty
    times slower. Theorem 4 holds for any k: a batch of 8 samples for 8 workers of different speeds has 8 parts, not
    16."""
    strategy = GradientCoding(scheme="heter_aware", s=1, throughputs=[1.0, 50.0, 50.0, 50.0])
    job = make_job(num_workers=4, global_batch_samples=4, num_samples=40, epochs=1)
    run = HeapRun(strategy, job, [50.0, 1.0, 1.0, 1.0]).run()
    assert dead(run) == []
    assert {command.worker for command in run.commands if isinstance(command, Compute)} == {1, 2, 3}
    strategy = GradientCoding(s=2, throughputs=[2.0, 2.0, 4.0, 4.0, 8.0, 8.0, 8.0, 12.0])
    job = make_job(num_workers=8, global_batch_samples=8, num_samples=80, epochs=1)
    run = HeapRun(strategy, job, np.ones(8)).run()
    assert dead(run) == []


@pytest.mark.parametrize("gone", [1, 2, 3, 4])
def test_more_than_s_may_leave_for_good(gone: int) -> None:
    """Departure from Theorem 4: the round begins again with a code for the remaining workers; none waits, every sample
    counts once."""
    strategy = GradientCoding(scheme="cyclic", s=1)
    job = make_job(num_workers=5, global_batch_samples=10, num_samples=100, epochs=2)
    faults = [Crash(3.0 + worker, worker, None) for worker in range(gone)]
    run = HeapRun(strategy, job, [1.0, 1.1, 1.2, 1.3, 1.4], faults).run()
    assert [*dead(run), *unlawful(run), *unconserved(run)] == []
    # one that leaves is what a code is for, two are not
    assert run.core.strategy.log_state()["codes"] == 1 + gone // 2


def test_a_worker_that_returns_after_its_row_does_not_compute_it_again() -> None:
    """Beyond the paper: the row is at the servers, so the round ends with it and those of two others."""
    rig = Rig(GradientCoding(scheme="cyclic", s=1), make_job(num_workers=4, global_batch_samples=8)).start()
    rig.arrive(0)
    rig.lose(0)
    rig.join(0)
    assert rig.busy_workers() == [1, 2, 3]
    rig.arrive(1)
    rig.arrive(2)
    ((_, _, grads),) = rig.applied
    assert [grad.worker for grad in grads] == [0, 1, 2]
    assert rig.busy_workers() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "workers", "why"),
    [
        ({"s": 4}, 4, "s=4: must be below the number of workers, 4"),
        ({"scheme": "fractional_repetition", "s": 2}, 4, r"s=2: fractional repetition needs s \+ 1 = 3 to divide"),
        ({"scheme": "cyclic", "k": 5}, 4, "k=5: cyclic has one part per worker, 4; leave k out"),
        ({"scheme": "naive", "s": 1}, 4, "s=1: naive tolerates no straggler"),
        ({"throughputs": [1.0, 2.0]}, 4, r"throughputs=\[1.0, 2.0\]: must be one number for each of the 4 workers"),
        ({"throughputs": [0.0, 1.0]}, 2, r"throughputs=\[0.0, 1.0\]: must be a list of positive numbers"),
        ({"throughputs": "fast"}, 2, "throughputs=fast: must be a list of positive numbers"),
        ({"scheme": "cyclic", "s": 4, "draws": 1}, 16, "max_amplification=500: the best of 1 draws of cyclic"),
        ({"k": 1, "throughputs": [1.0, 1.0, 1.0]}, 3, None),
    ],
)
def test_a_setting_without_a_code_is_refused_by_name(changes: dict[str, Any], workers: int, why: str | None) -> None:
    """Tandon et al., section 3.1 and Wang et al., Lemma 1: what the schemes require."""
    if why is None:
        GradientCoding(**changes).validate(workers)
        return
    with pytest.raises(ValueError, match=f"^{why}"):
        GradientCoding(**changes).validate(workers)


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"k": 9}, "k=9: makes 9 parts of a global batch of 8"), ({"scheme": "cyclic"}, "scheme=cyclic: makes 9 parts")],
)
def test_parts_without_samples_are_refused(changes: dict[str, Any], why: str) -> None:
    """Beyond the paper: k is at most the samples of a round."""
    with pytest.raises(ValueError, match=why):
        GradientCoding(**changes).validate_batch(9, 8)
