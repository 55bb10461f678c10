"""Gradient coding with throughputs that are measured: what is estimated, when a new code is built, and when it is not.

Wang et al. (ICDCS 2019) sample throughputs beforehand and let workers be as fast as their samples are many; an
iteration of ours also takes what it takes whatever its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import floor
from typing import Any

import pytest

from runtime.core.job import ComputeOrder
from strategies.gradient_coding import GradientCoding
from strategies.gradient_coding.speeds import Pace, Speeds, fit_pace
from strategies.protocol import Arrived, Compute, Timings
from tests.support.grads import make_grad
from tests.support.harness import HeapRun, make_job, samples_of
from tests.support.laws import dead, unconserved, unlawful

BATCH = 1024
FACTORS = [1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.2, 4.0]
BASE_S, PER_SAMPLE_S = 0.02, 0.0002

Seconds = Callable[[int, ComputeOrder], float]


def machines(factors: list[float], late: Callable[[int, int], float] = lambda worker, turn: 0.0) -> Seconds:
    """Each takes a factor longer for base and samples; ``late(worker, its how manieth iteration)`` comes on top."""
    turns = [0] * len(factors)

    def seconds(worker: int, order: ComputeOrder) -> float:
        turns[worker] += 1
        own_s = BASE_S + PER_SAMPLE_S * samples_of(order)
        return factors[worker] * own_s + late(worker, turns[worker])

    return seconds


def played(seconds: Seconds, workers: int, rounds: int = 120, **changes: Any) -> HeapRun:
    strategy = GradientCoding(**{"estimate_iters": 5, **changes})
    job = make_job(
        num_workers=workers, global_batch_samples=BATCH, num_samples=rounds * BATCH, epochs=1, max_time_s=1e9
    )
    return HeapRun(strategy, job, seconds).run()


def last_round_s(run: HeapRun, rounds: int = 20) -> float:
    ends = [t for t, _, _ in run.applied]
    return (ends[-1] - ends[-1 - rounds]) / rounds


def optimum_s(factors: list[float], copies: int, part: int) -> float:
    """The least time in which all of them together compute every part so many times, by bisection."""
    low_s, high_s = 0.0, 10.0
    for _ in range(60):
        middle_s = (low_s + high_s) / 2
        parts = [
            min(BATCH // part, floor(max(0.0, (middle_s / factor - BASE_S) / PER_SAMPLE_S) / part))
            for factor in factors
        ]
        low_s, high_s = (low_s, middle_s) if sum(parts) >= copies * BATCH // part else (middle_s, high_s)
    return high_s


def test_shares_reach_the_optimum_of_machines_with_a_fixed_cost() -> None:
    """Theorem 5, with a fixed cost in every iteration: base and slope are fitted to the sizes that the first
    measurement leads to. In proportion to samples per second at even shares, the slowest would take 1.2 times as long.
    """
    run = played(machines(FACTORS), len(FACTORS))
    best_s = optimum_s(FACTORS, copies=2, part=BATCH // (4 * len(FACTORS)))
    assert last_round_s(run) <= best_s * 1.1  # rebuild_frac: nearer is not worth a new code
    assert [*dead(run), *unlawful(run), *unconserved(run)] == []
    last = [command for command in run.commands if isinstance(command, Compute)][-len(FACTORS) :]
    speeds = [1 / factor for factor in FACTORS]
    in_proportion = [2 * BATCH * speed / sum(speeds) for speed in speeds]
    proportional_s = max(
        factor * (BASE_S + PER_SAMPLE_S * samples) for factor, samples in zip(FACTORS, in_proportion, strict=True)
    )
    assert proportional_s > 1.15 * best_s, "negative control"
    assert len({len(command.parts) for command in last}) > 3


def test_a_temporary_delay_builds_no_new_code() -> None:
    """Beyond the paper. Windows of 12 late iterations, of one worker or two at a time: less than half of what a
    measurement takes."""

    def codes(**changes: Any) -> int:
        late = machines([1.0] * 8, lambda worker, turn: 1.0 if turn // 12 % 8 == worker else 0.0)
        return int(played(late, 8, **changes).core.strategy.log_state()["codes"])

    assert codes(estimate_iters=GradientCoding().estimate_iters) == 1
    assert codes(estimate_iters=5) > 1, "negative control"


def arrivals(worker: int, times_s: dict[int, list[float]]) -> Iterator[Arrived]:
    for size, own in times_s.items():
        for seconds in own:
            yield Arrived(t=0.0, grad=make_grad(worker, size), timings=Timings(compute_s=seconds, pull_s=9.0))


def test_two_sizes_determine_base_and_slope() -> None:
    """Beyond the paper: 3 s at 10 samples and 5 s at 20 are 1 s and 0.2 s a sample. Waiting for parameters does not
    count."""
    assert fit_pace({10: 3.0, 20: 5.0}) == pytest.approx((1.0, 0.2))
    assert fit_pace({20: 5.0, 10: 3.0}) == pytest.approx((1.0, 0.2))
    assert fit_pace({10: 3.0}) is None
    assert fit_pace({10: 5.0, 20: 5.0}) is None, "more samples in no more time tell nothing"
    assert fit_pace({10: 3.0, 12: 3.4}) is None, "too near to each other"
    assert fit_pace({10: 1.0, 20: 4.0}) == (0.0, 0.2), "no base is below nothing"
    speeds = Speeds([0, 1], None, 2)
    for event in [*arrivals(0, {10: [7.0] * 3 + [3.0, 3.0]}), *arrivals(1, {10: [8.0] * 3 + [6.0, 6.0]})]:
        speeds.tell(event)
    assert [speeds.current_times({0: 10, 1: 10}, 0) for _ in range(2)] == [None, {0: (3.0, 3.0), 1: (6.0, 6.0)}]
    assert speeds.of([0, 1]) == {0: Pace(0.0, 0.3), 1: Pace(0.0, 0.6)}, "one size: in proportion, as the paper does"
    speeds.renew({0: 20, 1: 5})
    for event in [*arrivals(0, {20: [5.0, 5.0]}), *arrivals(1, {5: [4.0, 4.0]})]:
        speeds.tell(event)
    assert [speeds.current_times({0: 20, 1: 5}, 0) for _ in range(2)] == [None, {0: (5.0, 5.0), 1: (4.0, 4.0)}]
    assert speeds.of([0])[0] == pytest.approx((1.0, 0.2))
    assert speeds.of([1])[1] == pytest.approx((2.0, 0.4))


def test_late_workers_are_left_out_only_after_some_patience() -> None:
    """Beyond the paper: worker 1 delivers nothing. Two iterations are asked for, after three of warm-up: for three
    times as many rounds, 15, its time is waited for although one worker may be missing."""
    speeds = Speeds([0, 1], None, 2)
    for event in arrivals(0, {10: [7.0] * 3 + [3.0, 3.0]}):
        speeds.tell(event)
    found = [speeds.current_times({0: 10, 1: 10}, 1) for _ in range(16)]
    assert found == [None] * 15 + [{0: (3.0, 3.0)}]


def test_a_code_that_would_amplify_too_much_is_refused_and_the_old_one_kept() -> None:
    """Beyond the paper: the current code tolerates three stragglers, one for the measured shares would amplify too
    much, which the record reports. Attempts become rarer."""
    run = played(machines(FACTORS), len(FACTORS), s=3, max_amplification=20.0, draws=5, rounds=60)
    state = run.core.strategy.log_state()
    assert (state["tolerated"], state["codes"]) == (3, 1)
    assert 1 <= int(state["refused"]) <= 6
    free_run = played(machines(FACTORS), len(FACTORS), s=3, max_amplification=500.0, draws=5, rounds=60)
    free = free_run.core.strategy.log_state()
    assert (free["tolerated"], free["refused"]) == (3, 0)
    assert int(free["codes"]) > 1, "negative control: only the amplification was in the way"


def test_the_code_that_is_checked_is_the_one_that_is_built() -> None:
    """Beyond the paper: speeds 1 to 7 of 100 workers need 395 parts, which amplify too much; a batch of 128 samples has
    at most 128."""
    strategy = GradientCoding(s=1, throughputs=[float(1 + worker % 7) for worker in range(100)])
    strategy.validate(100)
    strategy.validate_batch(100, 128)
    with pytest.raises(ValueError, match=r"^max_amplification=500: the best of 50 draws of heter_aware with s=1"):
        strategy.validate_batch(100, 3200)


@pytest.mark.parametrize("scheme", ["fractional_repetition", "heter_aware", "group_based"])
def test_eager_decodes_with_fewer_than_all_but_s(scheme: str) -> None:
    """Wang et al., section V, taken further: two of four workers never deliver, in different pairs; the other two have
    computed everything."""
    strategies = [GradientCoding(scheme=scheme, s=1, eager=eager) for eager in (True, False)]
    job = make_job(num_workers=4, global_batch_samples=16, num_samples=160, epochs=1, max_time_s=1e5)
    ends = []
    for strategy in strategies:
        run = HeapRun(strategy, job, lambda worker, order: 1e6 if worker < 2 else 1.0).run()
        ends.append([t for t, _, _ in run.applied])
    assert ends[0] == pytest.approx(list(range(1, 11)))
    assert not ends[1] or ends[1][0] >= 1e5 or scheme == "group_based", (
        "negative control: the papers wait for all but s"
    )
