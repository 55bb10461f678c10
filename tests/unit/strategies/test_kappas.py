"""The price of staleness of a job that does not give one."""

from __future__ import annotations

import pytest

from runtime.config.instantiate import instantiate
from runtime.config.parse import parse
from strategies.star.times import FITTED, UNKNOWN, kappa_for
from tests.unit.strategies.whole_jobs import composer


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
