"""The record of every strategy's processes is verified, as those on the virtual clock are (tests/contract)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from analysis.reports.vouching import check_sums, files_of
from stragglab.vouching.record import verify
from tests.contract.catalogue import NAMES, has_servers
from tests.contract.test_records import verified
from tests.support.leaks import Start
from tests.support.runs import DIGITS
from tests.support.tampering import flip_a_byte, sum_again

pytestmark = pytest.mark.live

FAMILIES = {"star_h", "antdt_nd"}
"""Of kinds that no other short test here trains: one that changes modes, one that restarts nodes."""
SHORT = (*DIGITS, "workload.epochs=1", "cluster.device={base_s: 0.005}", "cluster.num_workers=4", "max_time_s=40")
MODES = {
    "followed": ("strategy=mlfabric", "strategy.num_replicas=1", "strategy.divergence_max=5", "topology.num_servers=1"),
    "summed": ("strategy=mlfabric", "strategy.num_aggregators=1", "strategy.lr_rule=unit", "cluster=hosts"),
    "ring": ("strategy=bsp", "topology=allreduce"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAMILIES else [pytest.mark.long]) for name in NAMES]
)
def test_every_strategy_leaves_a_record_that_verifies(start: Start, name: str) -> None:
    topology = () if has_servers(name) else ("topology=allreduce",)
    run = start("run", *SHORT, *topology, f"strategy={name}").finish()
    assert verified(run.run_dir) == []


@pytest.mark.long(like="test_every_strategy_leaves_a_record_that_verifies")
@pytest.mark.parametrize("mode", MODES)
def test_so_does_a_mode(start: Start, mode: str) -> None:
    run = start("run", *SHORT, *MODES[mode]).finish()
    assert verified(run.run_dir) == []


@pytest.mark.long(like="test_every_strategy_leaves_a_record_that_verifies")
def test_what_is_changed_in_a_live_record_is_noticed(start: Start, tmp_path: Path) -> None:
    """Every file by its sum, and those that processes have written by what follows from them."""
    run = start("run", *SHORT, "strategy=bsp", "draw=true", "save_parameters=true").finish()
    assert verified(run.run_dir) == []
    for number, name in enumerate(files_of(run.run_dir)):
        record = Path(shutil.copytree(run.run_dir, tmp_path / f"{number}"))
        flip_a_byte(record / name)
        assert any(check.verdict == "failed" and name in check.found for check in check_sums(record)), name
        if name in ("events.jsonl", "meta.json", "parameters.npy"):
            sum_again(record)
            assert any(check.verdict == "failed" for check in verify(record)), name
        shutil.rmtree(record)
