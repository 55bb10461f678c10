"""The pace of a job: which intervals count, and what they say."""

from __future__ import annotations

import pytest

from runtime.core.jumping.pace import Pace


def measured(together: bool, *, warm_up: int = 1, rounds: int = 3) -> Pace:
    pace = Pace(warm_up, rounds, together=together)
    pace.reset((0, 1), 0.0)
    return pace


def arrive(pace: Pace, worker: int, *times_s: float, samples: int = 8) -> None:
    for at_s in times_s:
        pace.arrived(worker, at_s, samples, 8)


def test_each_worker_has_its_own_mean_after_the_warm_up() -> None:
    pace = measured(together=False)
    arrive(pace, 0, 5.0, 6.0, 7.0, 8.0, 9.5)
    assert not pace.settled  # nothing is known of the other
    arrive(pace, 1, 1.0, 4.0, 6.0, 8.0)
    assert not pace.settled
    arrive(pace, 1, 10.0)
    assert pace.settled
    assert pace.periods_s == {0: pytest.approx(3.5 / 3), 1: 2.0}


def test_workers_that_are_kept_together_have_the_mean_round() -> None:
    """Rounds are complete at 2, 4, 6, 8 and 11 s, by whoever is last; the first interval does not count."""
    pace = measured(together=True)
    for first_s, last_s in ((1.0, 2.0), (3.9, 4.0), (5.0, 6.0), (7.0, 8.0), (10.5, 11.0)):
        arrive(pace, 1, first_s)
        arrive(pace, 0, last_s)
    assert pace.settled
    assert pace.periods_s == dict.fromkeys((0, 1), pytest.approx((11.0 - 4.0) / 3))


def test_waiting_for_data_and_short_batches_do_not_count() -> None:
    pace = measured(together=False, rounds=2)
    arrive(pace, 0, 1.0, 2.0, 3.0)
    pace.waits((0,))
    arrive(pace, 0, 50.0, 51.0)
    arrive(pace, 0, 51.2, samples=2)
    arrive(pace, 0, 52.2)
    arrive(pace, 1, 1.0, 2.0, 3.0, 4.0)
    assert pace.periods_s[0] == pytest.approx(1.0)


def test_a_round_in_which_somebody_waited_for_data_does_not_count() -> None:
    pace = measured(together=True, warm_up=0, rounds=1)
    for at_s in (1.0, 2.0, 3.0):
        arrive(pace, 0, at_s)
        arrive(pace, 1, at_s)
    pace.waits((1,))
    for at_s in (30.0, 31.0):
        arrive(pace, 0, at_s)
        arrive(pace, 1, at_s)
    assert pace.periods_s[0] == pytest.approx(1.0)


def test_a_round_of_short_batches_does_not_count() -> None:
    """Nor does one in which only one of both had less data."""
    pace = measured(together=True, warm_up=0, rounds=1)
    for at_s, first, last in ((1.0, 8, 8), (2.0, 8, 8), (2.3, 2, 2), (3.3, 8, 8), (3.7, 3, 8), (4.7, 8, 8)):
        arrive(pace, 0, at_s, samples=first)
        arrive(pace, 1, at_s, samples=last)
    assert pace.known == 3
    assert pace.periods_s[0] == pytest.approx(1.0)


def test_an_update_is_as_large_as_the_largest_since_the_change() -> None:
    pace = measured(together=False)
    for num_grads in (1, 4, 2):
        pace.applied(num_grads)
    assert pace.grads_per_update == 4
    pace.reset((0, 1), 3.0)
    assert pace.grads_per_update == 1


def test_what_is_owed_are_samples_beyond_half_an_iteration() -> None:
    """Worker 0 is a quarter of an iteration behind and worker 1 as much ahead, of 8 and 4 samples."""
    pace = measured(together=False)
    pace.batches, pace.credits = {0: 8, 1: 4}, {0: 0.75, 1: 0.25}
    assert pace.owed == 0.25 * 8 - 0.25 * 4


def test_another_batch_is_a_change() -> None:
    pace = measured(together=False)
    assert not pace.arrived(0, 1.0, 8, 8)
    assert not pace.arrived(0, 2.0, 3, 8)  # the end of an epoch is none
    assert pace.arrived(0, 3.0, 4, 4)


def test_after_a_change_nothing_is_known() -> None:
    pace = measured(together=False, rounds=1)
    for worker in (0, 1):
        arrive(pace, worker, 1.0, 2.0, 3.0)
    assert pace.settled
    pace.reset((0, 1), 3.0)
    assert (pace.settled, pace.known) == (False, 0)


def test_more_is_asked_for_than_is_known() -> None:
    pace = measured(together=False, warm_up=0, rounds=2)
    for worker in (0, 1):
        arrive(pace, worker, 1.0, 2.0, 3.0, 4.0)
    pace.ask_for_more()
    assert (pace.known, pace.needed, pace.settled) == (3, 5, False)
