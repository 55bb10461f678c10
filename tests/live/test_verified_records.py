"""The record of every strategy's processes is verified, as that on the virtual clock is (tests/contract/test_records)."""

from __future__ import annotations

import pytest

from tests.contract.catalogue import NAMES
from tests.contract.test_records import verified
from tests.support.leaks import Start
from tests.support.runs import DIGITS

pytestmark = pytest.mark.live

FAMILIES = {"bsp", "asp", "coding_cyclic", "mlfabric", "star_h", "zeno_pp", "or_autoscale", "antdt_nd"}
"""One each that waits, does not, codes, orders transfers, changes modes, scores, adds nodes, restarts them."""
SHORT = (*DIGITS, "workload.epochs=2", "cluster.device={base_s: 0.005}", "cluster.num_workers=4", "max_time_s=40")
MODES = {
    "followed": ("strategy=mlfabric", "strategy.num_replicas=1", "strategy.divergence_max=5", "topology.num_servers=1"),
    "summed": ("strategy=mlfabric", "strategy.num_aggregators=1", "strategy.lr_rule=unit", "cluster=hosts"),
    "ring": ("strategy=bsp", "topology=allreduce"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAMILIES else [pytest.mark.long]) for name in NAMES]
)
def test_every_strategy_leaves_a_record_that_verifies(start: Start, name: str) -> None:
    run = start("run", *SHORT, f"strategy={name}").finish()
    assert verified(run.run_dir) == []


@pytest.mark.parametrize("mode", ["followed", *(pytest.param(one, marks=pytest.mark.long) for one in ("summed", "ring"))])
def test_so_does_a_mode(start: Start, mode: str) -> None:
    run = start("run", *SHORT, *MODES[mode]).finish()
    assert verified(run.run_dir) == []
