"""Many replicas for many steps: closed forms of maxima, and the same times as the step's graph gives one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from runtime.hybrid import scale
from runtime.hybrid.scale import Ranks, bounded_s, local_s, replica_s, waited_s, with_spares
from runtime.hybrid.step import Step

ONE = Step(1, 1)
UNIT = (1 / 3, 1 / 3, 1 / 3)


@pytest.mark.parametrize("sends", ["free", "blocking", "channel"])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb"])
def test_a_replica_alone_ends_when_the_last_operation_of_its_graph_does(schedule: str, sends: str) -> None:
    step = Step(3, 4, schedule, sends=sends)
    rng = np.random.default_rng(1)
    given = {
        "factor": rng.uniform(1, 2, (3, 2, 5)),
        "ready_s": rng.uniform(0, 2, (3, 5)),
        "message_s": rng.uniform(0, 1, (3, 2)),
    }
    expected = [
        step.graph.ends(
            step.seconds(0.3, 0.4, 0.5, message_s=given["message_s"], factor=one[..., None], ready_s=ready[:, None])
        ).max()
        for one, ready in zip(np.moveaxis(given["factor"], 2, 0), given["ready_s"].T, strict=True)
    ]
    np.testing.assert_array_equal(step.graph.alone(step.rows(0.3, 0.4, 0.5, **given)), expected)


def test_draws_do_not_depend_on_how_many_cases_are_computed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(sigma=0.1, slow_frac=0.2, slow_factor=1.5, pause_frac=0.1, pause_s=0.3)
    found = []
    for together in (1, 64, 10_000):
        monkeypatch.setattr(scale, "AT_ONCE", together)
        found.append(replica_s(Step(2, 3), UNIT, ranks, 16, 7, tensor=2))
    assert found[0].shape == (7, 16)
    assert np.unique(found[0]).size == found[0].size
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_a_gpipe_step_is_as_long_as_its_closed_form() -> None:
    factor, stages, micro_batches = 1.5, 4, 6
    always = Ranks(slow_frac=1.0, slow_factor=factor)
    found = replica_s(Step(stages, micro_batches, "gpipe"), UNIT, always, 3, 2)
    np.testing.assert_allclose(found, factor * (micro_batches + stages - 1))


def test_a_job_pauses_if_any_of_its_ranks_does() -> None:
    """With chance p for each of n independent ranks, 1 - (1 - p)^n of the steps have a pause."""
    chance, replicas, stages, tensor, steps = 0.002, 20, 2, 3, 20_000
    paused = Ranks(pause_frac=chance, pause_s=5.0)
    seconds = replica_s(Step(stages, 1), UNIT, paused, replicas, steps, tensor)
    expected = 1 - (1 - chance) ** (replicas * stages * tensor)
    found = float((waited_s(seconds) > seconds.min() + 1).mean())
    assert found == pytest.approx(expected, abs=4 * (expected * (1 - expected) / steps) ** 0.5)


def test_waiting_for_exponential_replicas_takes_harmonic_sums() -> None:
    """The k-th of n exponentials comes after 1/n + ... + 1/(n - k + 1) on average (Renyi 1953)."""
    replicas, steps, backups = 50, 40_000, 5
    seconds = np.random.default_rng(0).exponential(size=(steps, replicas))
    for left_out in (0, backups):
        expected = sum(1 / left for left in range(left_out + 1, replicas + 1))
        variance = sum(1 / left**2 for left in range(left_out + 1, replicas + 1))
        found = float(waited_s(seconds, left_out).mean())
        assert found == pytest.approx(expected, abs=4 * (variance / steps) ** 0.5)


def test_lognormal_factors_have_mean_one_and_the_maximum_of_their_law() -> None:
    sigma, steps, replicas = 0.3, 4000, 40
    seconds = replica_s(ONE, UNIT, Ranks(sigma=sigma), replicas, steps)
    assert float(seconds.mean()) == pytest.approx(1.0, abs=4 * sigma / (steps * replicas) ** 0.5)
    middle = np.median(waited_s(seconds))
    from scipy.stats import lognorm

    share = lognorm.cdf(middle, sigma, scale=np.exp(-(sigma**2) / 2)) ** replicas
    assert share == pytest.approx(0.5, abs=4 * 0.5 / steps**0.5)


def test_small_jobs_are_what_brute_force_says() -> None:
    seconds = np.random.default_rng(3).exponential(size=(9, 5))
    assert waited_s(seconds, 2).tolist() == [sorted(row)[2] for row in seconds.tolist()]
    ends, lost_frac = bounded_s(seconds, 1.2)
    limits = [1.2 * sorted(row)[2] for row in seconds.tolist()]
    assert ends.tolist() == [min(max(row), limit) for row, limit in zip(seconds.tolist(), limits, strict=True)]
    late = [one > limit for row, limit in zip(seconds.tolist(), limits, strict=True) for one in row]
    assert lost_frac == pytest.approx(sum(late) / 45)
    blocks = [[sum(column[start : start + 4]) for column in seconds.T.tolist()] for start in (0, 4)]
    assert local_s(seconds, 4).tolist() == pytest.approx([max(block) / 4 for block in blocks])
    best = min(
        itertools.combinations(range(5), 3), key=lambda chosen: sum(seconds[:6, list(chosen)].sum(axis=0).tolist())
    )
    np.testing.assert_array_equal(with_spares(seconds, 2, 6), seconds[:, list(best)])


@pytest.mark.parametrize(
    "field", [{"sigma": -0.1}, {"slow_frac": 1.1}, {"slow_factor": 0.9}, {"pause_frac": -0.1}, {"pause_s": np.inf}]
)
def test_laws_out_of_range_are_refused(field: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(field))):
        Ranks(**field)
