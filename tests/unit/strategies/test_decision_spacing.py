"""STAR's decisions: how far apart they come, and by which price of staleness."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from runtime.config.instantiate import instantiate
from runtime.config.parse import parse
from strategies.protocol import Wake
from strategies.star import Star
from strategies.star.deciding import Spacing
from strategies.star.times import FITTED, UNKNOWN, kappa_for
from tests.support.faults import Crash
from tests.support.harness import HeapRun, make_job
from tests.support.laws import unlawful
from tests.unit.strategies.whole_jobs import composer

OFTEN: dict[str, Any] = {
    **{"predictor": "last_value", "warmup_iters": 0, "phi": 1000.0},
    **{"min_gain_frac": 0.99, "redecide_iters": 1},
}
"""Settings of STAR by which it decides as often as it may, and changes next to nothing."""


def gaps(spacing: Spacing, count: int, takes_s: float = 0.5) -> list[float]:
    """Times between decisions that are made as soon as they may be, by a clock of 1 / 64 s; all change nothing."""
    found, t = [], 0.0
    while len(found) < count:
        if not spacing.waits(t):
            found.append(t)
            spacing.decided(t, takes_s, changed=False)
        t += 1 / 64
    return [after - before for before, after in pairwise(found)]


def test_waits_double_until_pauses_take_the_wanted_part() -> None:
    """Half a second each, at most a sixteenth of the time: 1, 2, 4 and then 8 s."""
    assert gaps(Spacing(1 / 16), 7) == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    # Those of STAR-H before a model decides, say: its first wait is twice its own length
    spacing = Spacing(1 / 16)
    for t in range(20):
        spacing.decided(float(t), 0.0, changed=False)
        assert not spacing.waits(float(t))
    assert gaps(spacing, 4) == [1.0, 2.0, 4.0]
    spacing.decided(100.0, 0.0, changed=True)
    assert gaps(spacing, 3) == [1.0, 2.0]


def test_a_change_ends_all_waiting() -> None:
    spacing = Spacing(0.1)
    for t in range(0, 50, 5):
        spacing.decided(float(t), 0.5, changed=False)
    assert spacing.waits(46.0)
    spacing.decided(46.0, 0.5, changed=True)
    assert not spacing.waits(46.0)
    spacing.decided(47.0, 0.5, changed=False)
    assert not spacing.waits(48.0)


def noisy(seed: int, max_pause_frac: float, topology: str = "ps", faults: Any = ()) -> HeapRun:
    """Three workers whose times vary by half, so that tags and times change all the time; candidates all cost alike."""
    rng = random.Random(seed)
    strategy = Star(kappa=100.0, decision_s=0.5, topology=topology, max_pause_frac=max_pause_frac, **OFTEN)
    servers = {"num_servers": 0} if topology == "allreduce" else {}
    job = make_job(num_workers=3, global_batch_samples=6, num_samples=10**6, max_time_s=200.0, **servers)
    run = HeapRun(strategy, job, lambda worker, order: rng.uniform(1.0, 1.5) * (2 if worker == 2 else 1), list(faults))
    run.run()
    assert unlawful(run) == []
    return run


def pauses(run: HeapRun) -> list[float]:
    """The seconds at which pauses end."""
    return [command.at_s for command in run.commands if isinstance(command, Wake)]


@pytest.mark.few(2)
@pytest.mark.parametrize("topology", ["ps", "allreduce"])
@pytest.mark.parametrize("seed", range(1))
def test_a_noisy_job_is_not_stopped_again_and_again(topology: str, seed: int) -> None:
    """A hundred decisions of half a second, or some five while waits double and one in ten seconds then."""
    always, spaced = (pauses(noisy(seed, frac, topology)) for frac in (1.0, 0.05))
    assert len(always) >= 60
    assert 15 <= len(spaced) <= 25
    assert min(after - before for before, after in pairwise(spaced[6:])) >= 10.0


def test_a_lost_worker_ends_all_waiting() -> None:
    """It crashes at 105 s, and its return at 106 changes what the best mode is: decided within two iterations each."""
    found = pauses(noisy(0, 0.01, faults=[Crash(105.0, 1, 1.0)]))
    calm = pauses(noisy(0, 0.01))
    assert not [t for t in calm if 105 < t < 115]
    assert [t for t in found if 105 < t < 115]


@pytest.mark.parametrize("workload", FITTED)
def test_a_fitted_rate_has_its_own_price_and_a_higher_rate_none_that_is_lower(workload: str) -> None:
    """Between two fitted rates the higher one's counts; above all, never less than for an unknown workload."""
    rates = FITTED[workload]
    assert [kappa_for("pooled", workload, lr) for lr, _ in rates] == [kappa for _, kappa in rates]
    asked = sorted(lr * factor for lr, _ in rates for factor in (0.5, 1.0, 1.01))
    prices = [kappa_for("pooled", workload, lr) for lr in asked]
    assert prices == sorted(prices)
    assert prices[-1] >= UNKNOWN


def test_unknown_workloads_and_other_prices() -> None:
    assert kappa_for("pooled", "mine", 0.001) == UNKNOWN
    assert kappa_for("priced", "digits", 0.03) == 0.14


@pytest.mark.few(2)
@pytest.mark.parametrize("strategy", ["star_h", "star_ml"])
@pytest.mark.parametrize(
    ("words", "kappa"),
    [
        (["workload=digits"], 1.3),
        (["workload=digits", "workload.optimizer.lr=0.2"], 21.0),
        (["workload=digits", "workload.optimizer.lr=0.3"], 21.0),
        (["workload=digits", "strategy.kappa=5"], 5.0),
        (["workload=ledger"], UNKNOWN),
    ],
)
def test_a_job_is_priced_by_its_workload_and_rate(strategy: str, words: list[str], kappa: float) -> None:
    """Through the command line: the job's own learning rate reaches the strategy."""
    config = parse(composer().raw([f"strategy={strategy}", "runtime=virtual", *words]))
    assert instantiate(config.strategy).parts.schedule.choice.costs.kappa == kappa
