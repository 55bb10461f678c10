"""Two jobs in one live lab: each ends as it does alone, and nothing of either is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime.live.machines.doctor import missing
from tests.support.invariants import problems
from tests.support.leaks import Start
from tests.support.runs import DIGITS, LEDGER, ROOT, RecordSink, marks

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SHAPE = ("cluster.num_workers=2", "topology.num_servers=2", "strategy=bsp")
TRAINING = (*DIGITS, *SHAPE, "workload.epochs=1")
COUNTING = (*LEDGER, *SHAPE, "workload.epochs=2")
HOSTS = ("cluster=hosts", "cluster.hosts.count=2", "cluster.hosts.real_cores_per_core=0.2")


def in_a_lab(folder: Path, start_s: float, *settings: str, signal_after: str = "") -> tuple[int, list[RecordSink]]:
    """(exit code, both records)."""
    records = [RecordSink(folder / name) for name in ("first", "second")]
    words = [str(record.run_dir) for record in records]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.live.jobs_of_a_lab", *words, str(start_s), *settings],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **marks(folder)},
        process_group=0,
    )
    try:
        if signal_after:
            while process.poll() is None and not all(record.events(signal_after) for record in records):
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=240)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if process.returncode and not signal_after:
        raise AssertionError(f"exit code {process.returncode}\n{out}")
    return process.returncode, records


@pytest.mark.parametrize("start_s", [pytest.param(0.0, marks=pytest.mark.long), 1.5])
def test_two_jobs_end_with_the_parameters_of_one_that_is_alone(start: Start, tmp_path: Path, start_s: float) -> None:
    alone = start("alone", *TRAINING).finish()
    _, records = in_a_lab(tmp_path / "lab", start_s, *TRAINING)
    for record in records:
        assert record.sha256 == alone.sha256
        assert problems(record.lines()) == []
        assert record.events("Started")[0]["t"] < 1.0  # its time starts at 0 when its tasks are there


@pytest.mark.long(like="test_two_jobs_end_with_the_parameters_of_one_that_is_alone")
def test_an_interrupt_ends_both(tmp_path: Path) -> None:
    code, records = in_a_lab(tmp_path / "lab", 0.0, *COUNTING, "workload.epochs=null", signal_after="Arrived")
    assert code == 1
    assert [record.finished["status"] for record in records] == ["interrupted"] * 2


@pytest.mark.long(like="test_two_jobs_end_with_the_parameters_of_one_that_is_alone")
def test_two_jobs_on_the_same_hosts(start: Start, tmp_path: Path) -> None:
    if lack := missing("network") or missing("links") or missing("cgroup_cpu"):
        pytest.skip(f"{lack.reason}; {lack.cure}")
    alone = start("alone", *TRAINING).finish()
    _, records = in_a_lab(tmp_path / "lab", 0.0, *TRAINING, *HOSTS)
    assert [record.sha256 for record in records] == [alone.sha256] * 2
