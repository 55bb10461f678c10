"""A strategy that measures updates is refused where their norms would mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import run_cli
from tests.support.measuring import noisy


@pytest.fixture
def chosen(tmp_path: Path) -> list[str]:
    """Words that choose a strategy which measures every other update."""
    return [*noisy(tmp_path), "straggler=none", "view=none", "draw=false"]


@pytest.mark.few(1)
@pytest.mark.parametrize("topology", ["ps", "allreduce"])
def test_elsewhere_it_hears_of_every_update_that_it_asked_about(
    topology: str, chosen: list[str], tmp_path: Path
) -> None:
    words = (f"topology={topology}", "runtime=virtual", "workload=ledger", "backend=numpy", "workload.epochs=2")
    done = run_cli(*chosen, *words, f"hydra.run.dir={tmp_path}/run")
    assert done.exit_code == 0, done.err
    lines = (tmp_path / "run" / "events.jsonl").read_text().splitlines()
    assert sum('"type":"Measured"' in line for line in lines) >= sum('"measure":true' in line for line in lines) - 1 > 2
