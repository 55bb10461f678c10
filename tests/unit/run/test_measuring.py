"""A strategy that measures updates is refused where their norms would mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import run_cli
from tests.support.long_tests import rows_long_after
from tests.support.measuring import noisy


@pytest.fixture
def chosen(tmp_path: Path) -> list[str]:
    """Words that choose a strategy which measures every other update."""
    return [*noisy(tmp_path), "straggler=none", "view=none", "draw=false"]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("line", "reason"),
    rows_long_after(
        [
            ("workload.optimizer.name=adam", "workload.optimizer.name=adam: steps along gradients that are scaled"),
            ("workload.optimizer.name=adagrad", "workload.optimizer.name=adagrad: steps along"),
            (
                "topology=allreduce topology.collective=ddp",
                "topology.collective=ddp: workers report the norm of the mean instead of their own",
            ),
            ("runtime=virtual backend=none workload.target=null", "backend=none: computes no gradients"),
        ],
        always=2,
    ),
)
def test_refused_in_one_line(line: str, reason: str, chosen: list[str], tmp_path: Path) -> None:
    done = run_cli(*chosen, *line.split(), f"hydra.run.dir={tmp_path}/run")
    assert (done.exit_code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"run.py: {reason}")
    assert "strategy=noisy measures the gradient noise scale" in done.err


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
