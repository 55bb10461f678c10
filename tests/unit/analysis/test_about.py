"""Facts that a strategy's ``about.toml`` states are those of its class."""

from __future__ import annotations

from omegaconf import OmegaConf

from analysis.about import ABOUT, STEADY
from runtime.config.choices import merged
from runtime.config.instantiate import instantiate
from strategies.protocol import Launch
from tests.support.runs import ROOT


def test_a_strategy_that_launches_nodes_says_so() -> None:
    for name in ABOUT:
        settings = OmegaConf.to_container(merged(name, [ROOT / "conf" / "strategy"]), resolve=True)
        assert (Launch in instantiate(settings, "strategy").needs) == (name not in STEADY), name
