"""Real jobs on a GPU: exact, repeatable, restarted, shared, disturbed. All of it skips without one (``make gpu``)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np
import pytest

from analysis.measures.injections import collect
from analysis.records.load import load_run
from runtime.backends.devices.found import tensorflow_cuda
from tests.live.test_disturbances import write_plan
from tests.support.gpus import DEVICE, ON_HARDWARE, needs_gpus, needs_mps
from tests.support.runs import DIGITS, ROOT, Run

pytestmark = [pytest.mark.live, pytest.mark.alone, pytest.mark.timeout(600), *needs_gpus()]

CNN = ("workload=digits_cnn", *DIGITS[1:], "strategy=bsp", "workload.epochs=2", "save_parameters=true")
ON_GPU = (f"backend.device={DEVICE}", "cluster.gpus.devices=[0]")
LOSS = 1e-5
"""Relative difference of losses from the CPU's."""


def run(folder: Path, *overrides: str) -> Run:
    made = Run(folder, *CNN, *overrides)
    try:
        return made.finish(timeout_s=300)
    finally:
        made.kill()


def computed(made: Run) -> list[dict[str, Any]]:
    """Arrivals of gradients, by iteration and worker; at the end of an epoch some are empty."""
    events = [event for event in made.events("Arrived") if event["grad"]["samples"]]
    return sorted(events, key=lambda one: (one["grad"]["iteration"], one["grad"]["worker"]))


def losses(made: Run) -> list[float]:
    return [event["loss"] for event in computed(made)]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("gpu") / "reference", *ON_GPU)


def test_losses_are_those_of_the_cpu(reference: Run, tmp_path: Path) -> None:
    np.testing.assert_allclose(losses(reference), losses(run(tmp_path / "cpu")), rtol=LOSS)


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_runs_are_bit_equal(transport: str, reference: Run, tmp_path: Path) -> None:
    again = run(tmp_path / "again", *ON_GPU, f"topology.transport={transport}", "topology.num_servers=3")
    assert again.sha256 == reference.sha256


def test_a_graph_gives_the_same_bits(reference: Run, tmp_path: Path) -> None:
    """Two forms of batches are launched at once here: a whole one, and that at the end of an epoch."""
    assert run(tmp_path / "graphs", *ON_GPU, "backend.graphs=true").sha256 == reference.sha256


def test_copies_are_part_of_computing(reference: Run) -> None:
    for event in computed(reference):
        assert 0 < event["timings"]["stage_s"] < event["timings"]["compute_s"]


def test_a_killed_worker_changes_nothing(reference: Run, tmp_path: Path) -> None:
    made = Run(tmp_path / "killed", *CNN, *ON_GPU, "cluster.device={base_s: 0.05}")
    try:
        made.await_training(5)
        assert made.unregister(("worker", 1))
        made.await_events("Joined")
        assert made.finish(timeout_s=300).sha256 == reference.sha256
    finally:
        made.kill()


@pytest.mark.parametrize("program", [pytest.param("tests.support.device_filler", marks=needs_gpus(hardware=True))])
def test_memory_that_is_freed_late_is_waited_for(program: str, reference: Run, tmp_path: Path) -> None:
    """Another process takes what the killed worker had, and keeps it until two successors have found no room."""
    made = Run(tmp_path / "late", *CNN, *ON_GPU, "cluster.device={base_s: 0.05}")
    filler = subprocess.Popen([sys.executable, "-m", program], cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True)
    assert filler.stdin is not None
    assert filler.stdout is not None
    try:
        assert filler.stdout.readline() == "ready\n"
        made.await_training(5)
        print(file=filler.stdin, flush=True)
        assert filler.stdout.readline() == "full\n"
        assert made.unregister(("worker", 1))
        made.await_that(lambda: [event["cause"] for event in made.events("Lost")].count("oom") >= 2, "no room twice")
        filler.kill()
        assert made.finish(timeout_s=300).sha256 == reference.sha256
    finally:
        filler.kill()
        filler.communicate()
        made.kill()


def test_replicas_sum_on_the_host(reference: Run, tmp_path: Path) -> None:
    ring = run(tmp_path / "ring", *ON_GPU, "topology=allreduce")
    np.testing.assert_allclose(losses(ring), losses(reference), rtol=LOSS)


def test_other_work_takes_what_the_plan_says(tmp_path: Path) -> None:
    """By the account of hogs, three of which are enough for the quarter; what it costs is measured (make gpu)."""
    plan = write_plan(tmp_path / "plan.csv", (2, 2, "device:0", "gpu", 0.5), (6, 3, "device:0", "gpu", 0.25))
    made = run(tmp_path / "hogs", *ON_GPU, *plan, "max_time_s=11", "cluster.num_workers=1", "workload.epochs=null")
    table = collect([load_run(made.run_dir)])
    assert list(table["gpu_share"]) == pytest.approx([0.5, 0.25], abs=0.02)


@needs_mps
def test_shares_of_a_device(reference: Run, tmp_path: Path) -> None:
    shared = run(tmp_path / "mps", *ON_GPU, "cluster.gpus.share=mps", "cluster.gpus.mps_percent=[50,25]")
    np.testing.assert_allclose(losses(shared), losses(reference), rtol=LOSS)


@pytest.mark.skipif(not ON_HARDWARE or tensorflow_cuda() is None, reason="needs a GPU, and TensorFlow built with CUDA")
def test_tensorflow_learns_what_it_does_without_a_gpu(tmp_path: Path) -> None:
    places = {"cpu": (), "gpu": ON_GPU}
    on_cpu, on_gpu = (run(tmp_path / name, "backend=tensorflow", *words) for name, words in places.items())
    np.testing.assert_allclose(losses(on_gpu), losses(on_cpu), rtol=LOSS)


@pytest.mark.parametrize("workers", [pytest.param(2, marks=needs_gpus(2, hardware=True))])
def test_replicas_sum_on_their_devices(workers: int, tmp_path: Path) -> None:
    both = ("backend.device=cuda", f"cluster.num_workers={workers}", "topology=allreduce")
    ring, nccl = (run(tmp_path / name, *both, f"topology.collective={name}") for name in ("ring", "nccl"))
    np.testing.assert_allclose(losses(nccl), losses(ring), rtol=LOSS)
