"""Closed forms: known values, identities, and simulations that need no clock of ours."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import cache
from math import gamma, inf, nan, pi, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.measures import theory
from tests.support.long_tests import rows_long_after

EXACT = 1e-9
"""Relative tolerance of the integrals."""
TIMES = {
    "exponential": stats.expon(loc=0.02, scale=0.1),
    "uniform": stats.uniform(0.1, 0.4),
    "normal": stats.norm(1.0, 0.05),
    "lognormal": stats.lognorm(0.5, scale=0.2),
    "heavy lognormal": stats.lognorm(3.0),
    "almost zero": stats.gamma(0.01),
    "two ends": stats.beta(0.1, 0.1),
    "power law": stats.pareto(1.5),
}
Kth = Callable[[Any, int, int], float]
KTH: Kth = cache(theory.kth_of_n_s)
"""Once for each place: the cases share some."""


# ---- order statistics -----------------------------------------------------------------------------------------------


@pytest.mark.few(2)
@pytest.mark.parametrize("n", [1, 2, 4, 60, 1000])
def test_exponential_times_give_harmonic_numbers(n: int) -> None:
    """The k-th of n ends after 1/n + 1/(n-1) + ... + 1/(n-k+1) means; k = n: H_n."""
    for k in {1, (n + 1) // 2, n}:
        expected = 0.5 + 0.1 * sum(1 / i for i in range(n - k + 1, n + 1))
        assert theory.kth_of_n_s(stats.expon(loc=0.5, scale=0.1), k, n) == pytest.approx(expected, rel=EXACT)


@pytest.mark.few(1)
@pytest.mark.parametrize("n", [1, 3, 64])
def test_uniform_times_divide_their_range_evenly(n: int) -> None:
    """On (2, 5): 2 + 3 k / (n + 1)."""
    for k in range(1, n + 1, 7):
        assert theory.kth_of_n_s(stats.uniform(2, 3), k, n) == pytest.approx(2 + 3 * k / (n + 1), rel=EXACT)


@pytest.mark.long(like="test_uniform_times_divide_their_range_evenly")
def test_normal_times() -> None:
    """Of two, the larger lies sigma / sqrt(pi) above the mean; of three, the largest 3 / (2 sqrt(pi)) sigma."""
    assert theory.bsp_round_s(stats.norm(1.0, 0.1), 2) == pytest.approx(1 + 0.1 / sqrt(pi), rel=EXACT)
    assert theory.bsp_round_s(stats.norm(1.0, 0.1), 3) == pytest.approx(1 + 0.15 / sqrt(pi), rel=EXACT)
    far = theory.bsp_round_s(stats.norm(1e6, 1e-3), 2)
    assert far - 1e6 == pytest.approx(1e-3 / sqrt(pi), abs=1e-9), "a narrow peak far from zero is not missed"


@pytest.mark.few(4)
@pytest.mark.parametrize("alpha", [1.05, 1.5, 4.0])
@pytest.mark.parametrize("n", [1, 8, 64])
def test_power_laws_whose_mean_is_all_tail(alpha: float, n: int) -> None:
    """Pareto: n B(n, 1 - 1 / alpha), that is a product of i / (i - 1 / alpha)."""
    expected = np.prod([i / (i - 1 / alpha) for i in range(1, n + 1)])
    assert theory.bsp_round_s(stats.pareto(alpha), n) == pytest.approx(expected, rel=EXACT)


def test_the_fastest_of_weibull_times_is_weibull() -> None:
    """n times of shape c: the least has the same shape and n^(-1/c) times the scale."""
    expected = 0.3 * 8 ** (-1 / 0.5) * gamma(1 + 1 / 0.5)
    assert theory.kth_of_n_s(stats.weibull_min(0.5, scale=0.3), 1, 8) == pytest.approx(expected, rel=EXACT)


@pytest.mark.few(1)
@pytest.mark.parametrize(("k", "n"), [(1, 4), (3, 4), (4, 4), (60, 64)])
def test_lognormal_times_against_chance(k: int, n: int) -> None:
    """100,000 draws, seed 7; five standard errors, which are below 0.3 % here."""
    draws = np.sort(stats.lognorm(0.5, scale=0.2).rvs((100_000, n), random_state=np.random.default_rng(7)), axis=1)
    error = float(draws[:, k - 1].std()) / sqrt(len(draws))
    expected = theory.kth_of_n_s(stats.lognorm(0.5, scale=0.2), k, n)
    assert error < 0.003 * expected
    assert draws[:, k - 1].mean() == pytest.approx(expected, abs=5 * error)


@pytest.mark.long(like="test_uniform_times_divide_their_range_evenly")
def test_of_one_time_it_is_the_mean() -> None:
    for name, times in TIMES.items():
        assert KTH(times, 1, 1) == pytest.approx(times.mean(), rel=EXACT), name


def broken_identities(kth: Kth, times: Any, k: int, n: int) -> list[str]:
    """David and Nagaraja, section 3.4: k E(k+1 of n) + (n - k) E(k of n) = n E(k of n - 1); places are in order; and
    of two, the places add up to two means."""
    at, after, fewer = kth(times, k, n), kth(times, k + 1, n), kth(times, k, n - 1)
    found = [] if at <= after else [f"place {k} is later than the next"]
    if k * after + (n - k) * at != pytest.approx(n * fewer, rel=EXACT):
        found.append(f"recurrence: {k * after + (n - k) * at} and {n * fewer}")
    if kth(times, 1, 2) + kth(times, 2, 2) != pytest.approx(2 * times.mean(), rel=EXACT):
        found.append("the two of two do not add up to two means")
    return found


PLACES = [(7, 8, name) for name in ("two ends", "power law", "heavy lognormal", "almost zero")]
PLACES += [(k, n, name) for k, n in ((7, 8), (1, 2), (3, 8), (31, 60)) for name in TIMES if (k, n, name) not in PLACES]


@pytest.mark.few(1)
@pytest.mark.parametrize(("k", "n", "name"), rows_long_after(PLACES, always=4))
def test_identities_between_places(k: int, n: int, name: str) -> None:
    assert broken_identities(KTH, TIMES[name], k, n) == []


def test_an_approximation_is_caught() -> None:
    """The quantile k / (n + 1) is right for uniform times only."""
    wrong: Kth = lambda times, k, n: float(times.ppf(k / (n + 1)))  # noqa: E731
    assert broken_identities(wrong, TIMES["uniform"], 3, 8) == []
    assert broken_identities(wrong, TIMES["lognormal"], 3, 8) != []


def test_slower_clocks_and_later_starts() -> None:
    """Scaling and shifting the times scales and shifts the expectation."""
    for scale in (1e-6, 1e6):
        at, one = (theory.kth_of_n_s(stats.gamma(2.0, scale=each), 3, 5) for each in (scale, 1.0))
        assert at == pytest.approx(scale * one, rel=EXACT)
    shifted = theory.kth_of_n_s(stats.gamma(2.0, loc=10.0), 3, 5)
    assert shifted == pytest.approx(10 + theory.kth_of_n_s(stats.gamma(2.0), 3, 5), rel=EXACT)


def test_backup_workers_wait_for_the_fastest() -> None:
    """Four exponential workers with mean 0.1 s. Without backup 0.1 (1/4 + 1/3 + 1/2 + 1), with one 1 less in it."""
    times = stats.expon(scale=0.1)
    assert theory.backup_round_s(times, 4, 1) == pytest.approx(0.1 * (1 / 4 + 1 / 3 + 1 / 2), rel=EXACT)
    assert theory.backup_round_s(times, 4, 3) == pytest.approx(0.1 / 4, rel=EXACT)
    assert theory.backup_round_s(times, 4, 0) == theory.bsp_round_s(times, 4) == theory.kth_of_n_s(times, 4, 4)


def test_one_backup_can_make_an_infinite_expectation_finite() -> None:
    """Pareto with alpha = 1 has no mean; place k of n has n / (n - k)."""
    times = stats.pareto(1.0)
    assert theory.backup_round_s(times, 4, 1) == pytest.approx(4.0, rel=EXACT)
    with pytest.raises(ValueError, match=r"iteration_s: .* place 4 of 4 does not converge"):
        theory.bsp_round_s(times, 4)
    with pytest.raises(ValueError, match=r"iteration_s: .* place 1 of 4 does not converge"):
        theory.kth_of_n_s(stats.cauchy(), 1, 4)


# ---- constant times -------------------------------------------------------------------------------------------------


def test_throughput_of_asynchronous_workers() -> None:
    """32 / 0.1 + 32 / 0.4 = 320 + 80; with equal batches 2 * 32 over the harmonic mean, 0.16 s."""
    assert theory.asp_samples_per_s([32, 32], [0.1, 0.4]) == pytest.approx(400) == pytest.approx(64 / 0.16)


def test_job_completion_time_of_bsp() -> None:
    """1437 samples in batches of 4 x 32 = 128: 12 iterations (the last of 29 samples) of the slowest's 0.4 s."""
    assert theory.bsp_jct_s(1437, [32] * 4, [0.1, 0.1, 0.2, 0.4]) == 12 * 0.4
    assert theory.bsp_jct_s(1280, [32] * 4, [0.1, 0.1, 0.2, 0.4]) == 10 * 0.4
    assert theory.bsp_jct_s(0, [32], [0.1]) == 0.0


WORKERS = st.lists(st.tuples(st.integers(1, 64), st.floats(0.01, 10)), min_size=1, max_size=8)


def draw_and_return(num_samples: int, workers: list[tuple[int, float]], idle_s: float = 0.0) -> float:
    """The last arrival, by simulation: whoever is back draws at once (or after ``idle_s``), until nothing is left."""
    back = [(0.0, k) for k in range(len(workers))]
    last = 0.0
    while num_samples > 0:
        t, k = heapq.heappop(back)
        batch, time_s = workers[k]
        num_samples -= batch
        last = max(last, t + time_s)
        heapq.heappush(back, (t + time_s + idle_s, k))
    return last


@settings(max_examples=60)
@given(st.integers(0, 3000), WORKERS)
def test_the_last_arrival_of_asp_lies_within_one_iteration(num_samples: int, workers: list[tuple[int, float]]) -> None:
    low, high = theory.asp_jct_bounds_s(num_samples, *zip(*workers, strict=True))
    assert low * (1 - EXACT) <= draw_and_return(num_samples, workers) <= high * (1 + EXACT)


def test_bounds_of_asp_by_hand_and_waiting_is_caught() -> None:
    """4000 samples at 400 a second: 10 s to 10.4 s. Who idles 0.1 s each time, or waits as BSP does, is later."""
    low, high = theory.asp_jct_bounds_s(4000, [32, 32], [0.1, 0.4])
    assert (low, high) == pytest.approx((10.0, 10.4))
    assert draw_and_return(4000, [(32, 0.1), (32, 0.4)], idle_s=0.1) > high
    assert theory.bsp_jct_s(4000, [32, 32], [0.1, 0.4]) > high


# ---- networks -------------------------------------------------------------------------------------------------------


def test_ring_all_reduce() -> None:
    """4 MB, four workers, 1 Gbit/s: 1.5 times 32 ms and six latencies."""
    assert theory.ring_all_reduce_s(4, 4e6, 125e6) == pytest.approx(0.048)
    assert theory.ring_all_reduce_s(4, 4e6, 125e6, 1e-4) == pytest.approx(0.0486)
    assert theory.ring_all_reduce_s(1, 4e6, 125e6, 1e-4) == 0.0


@pytest.mark.parametrize(
    ("num_workers", "num_servers", "up", "down", "seconds"),
    [
        (1, 1, 125e6, 125e6, 0.032),
        (4, 1, 125e6, 125e6, 0.128),
        (4, 2, 125e6, 125e6, 0.064),
        (4, 8, 125e6, 125e6, 0.032),  # the workers' own links
        (4, 8, 125e6, 12.5e6, 0.16),
        (4, 1, 125e6, 1.25e9, 0.032),
    ],
)
def test_pushes(num_workers: int, num_servers: int, up: float, down: float, seconds: float) -> None:
    """4 MB: n S / (m down) or S / up, whichever is longer."""
    links = {"uplink_bytes_per_s": up, "downlink_bytes_per_s": down}
    assert theory.push_s(4e6, num_workers, num_servers, **links) == pytest.approx(seconds)
    assert theory.push_s(4e6, num_workers, num_servers, latency_s=0.5, **links) == pytest.approx(seconds + 0.5)


def test_a_message_of_nothing_takes_its_latency() -> None:
    assert theory.push_s(0, 4, 2, uplink_bytes_per_s=1.0, downlink_bytes_per_s=1.0, latency_s=0.1) == 0.1


# ---- bad input ------------------------------------------------------------------------------------------------------

ONE = stats.expon()
LINKS = {"uplink_bytes_per_s": 1.0, "downlink_bytes_per_s": 1.0}


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: theory.kth_of_n_s(ONE, 0, 4), "k=0"),
        (lambda: theory.kth_of_n_s(ONE, 5, 4), "k=5"),
        (lambda: theory.kth_of_n_s(ONE, True, 4), "k=True"),
        (lambda: theory.kth_of_n_s(ONE, 1, 0), "n=0"),
        (lambda: theory.kth_of_n_s(ONE, 1, 1.5), r"n=1\.5"),
        (lambda: theory.kth_of_n_s(stats.poisson(3), 1, 4), "iteration_s="),
        (lambda: theory.kth_of_n_s(0.1, 1, 4), r"iteration_s=0\.1"),
        (lambda: theory.kth_of_n_s(stats.norm(0, nan), 1, 4), "iteration_s"),
        (lambda: theory.bsp_round_s(ONE, 0), "num_workers=0"),
        (lambda: theory.backup_round_s(ONE, 0, 0), "num_workers=0"),
        (lambda: theory.backup_round_s(ONE, 4, 4), "num_backup=4"),
        (lambda: theory.backup_round_s(ONE, 4, -1), "num_backup=-1"),
        (lambda: theory.asp_samples_per_s([], []), "batch_samples"),
        (lambda: theory.asp_samples_per_s([1, 0], [1.0, 1.0]), "batch_samples=0"),
        (lambda: theory.asp_samples_per_s([1, 1], [1.0]), "iteration_s: has 1"),
        (lambda: theory.asp_samples_per_s([1], [0.0]), r"iteration_s=0\.0"),
        (lambda: theory.bsp_jct_s(-1, [1], [1.0]), "num_samples=-1"),
        (lambda: theory.bsp_jct_s(1, [1], [nan]), "iteration_s=nan"),
        (lambda: theory.asp_jct_bounds_s(1, [1], [inf]), "iteration_s=inf"),
        (lambda: theory.asp_jct_bounds_s(1.5, [1], [1.0]), r"num_samples=1\.5"),
        (lambda: theory.ring_all_reduce_s(0, 1.0, 1.0), "num_workers=0"),
        (lambda: theory.ring_all_reduce_s(2, -1.0, 1.0), r"num_bytes=-1\.0"),
        (lambda: theory.ring_all_reduce_s(2, 1.0, 0.0), r"link_bytes_per_s=0\.0"),
        (lambda: theory.ring_all_reduce_s(2, 1.0, 1.0, -0.1), r"latency_s=-0\.1"),
        (lambda: theory.push_s(1.0, 1, 0, **LINKS), "num_servers=0"),
        (lambda: theory.push_s(1.0, 1, 1, **LINKS | {"uplink_bytes_per_s": 0.0}), r"uplink_bytes_per_s=0\.0"),
        (lambda: theory.push_s(1.0, 1, 1, **LINKS | {"downlink_bytes_per_s": nan}), "downlink_bytes_per_s=nan"),
        (lambda: theory.push_s(1.0, 1, 1, latency_s=inf, **LINKS), "latency_s=inf"),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        call()
