"""Costs of hosts are found again in records that were made with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from analysis.fitting.calibration import calibrate
from analysis.records.load import Run, load_run
from tests.support.cli import run_cli

PARAMETERS = 160_000
COSTS = {"compute_per_sample_s": 1e-4, "carry_per_byte_s": 2e-9, "carry_within_per_byte_s": 3e-10, "control_s": 1e-4}


def as_live(directory: Path, *words: str, strategy: str = "bsp", more: dict[str, float] | None = None) -> Run:
    """A virtual run with samples of what tasks use, as if it had been a live one; ``more``: costs."""
    (directory.parent / "costs.yaml").write_text(yaml.safe_dump({"schema": 1, "values": COSTS | (more or {})}))
    job = ("runtime=virtual", "cluster=hosts", "straggler=none", f"strategy={strategy}", "workload.epochs=40")
    timed = ("backend=none", f"backend.num_parameters={PARAMETERS}", "workload.target=null", "eval_every_s=null")
    kept = (f"cluster.costs={directory.parent}/costs.yaml", "runtime.telemetry_every_s=0.5", "checkpoint_every_s=null")
    done = run_cli(*job, "draw=false", *timed, *kept, *words, f"hydra.run.dir={directory}", cwd=directory.parent)
    assert done.exit_code == 0, done.err
    meta = json.loads((directory / "meta.json").read_text())
    (directory / "meta.json").write_text(json.dumps(meta | {"runtime": "live"}))
    return load_run(directory)


def test_messages_within_a_host_and_between_hosts_have_their_own_prices(tmp_path: Path) -> None:
    apart, together = as_live(tmp_path / "a"), as_live(tmp_path / "b", "cluster.hosts.count=1")
    both = calibrate([apart, together], [PARAMETERS] * 2).estimates
    assert both["carry_per_byte_s"].value == pytest.approx(2e-9, rel=0.03)
    assert both["carry_within_per_byte_s"].value == pytest.approx(3e-10, rel=0.03)
    alone = calibrate([apart], [PARAMETERS])
    assert "cluster.hosts.count=1" in alone.missing["carry_within_per_byte_s"]
    assert alone.estimates["carry_per_byte_s"].value == pytest.approx(0.75 * 2e-9 + 0.25 * 3e-10, rel=0.03), (
        "of eight ways between four workers and two servers, six leave a host"
    )


def test_interruptions_are_what_computing_takes_longer_while_others_send(tmp_path: Path) -> None:
    """Each of them is found within 10 %: workers and servers are interrupted in bursts, and counted on average."""
    costs = {"interrupt_per_byte_s": 2e-9, "jitter_sigma": 0.1}
    apart = as_live(tmp_path / "a", strategy="asp", more=costs)
    together = as_live(
        tmp_path / "b", "cluster.hosts.count=1", "cluster.hosts.cpu_cores=16", strategy="asp", more=costs
    )
    both = calibrate([apart, together], [PARAMETERS] * 2)
    found = {name: estimate.value for name, estimate in both.estimates.items()}
    assert found["interrupt_per_byte_s"] == pytest.approx(2e-9, rel=0.1)
    assert found["carry_per_byte_s"] == pytest.approx(2e-9, rel=0.1)
    assert found["carry_within_per_byte_s"] == pytest.approx(3e-10, rel=0.1)
    assert found["compute_base_s"] == pytest.approx(32 * 1e-4, rel=0.05), "at one batch size"
    in_step = calibrate([as_live(tmp_path / "c", more=costs), together], [PARAMETERS] * 2)
    assert "asynchronous" in in_step.missing["interrupt_per_byte_s"], "nobody sends while workers compute"
    without = calibrate(
        [as_live(tmp_path / "d", strategy="asp", more={"jitter_sigma": 0.1}), together], [PARAMETERS] * 2
    )
    assert without.estimates["interrupt_per_byte_s"].value < 2e-10
