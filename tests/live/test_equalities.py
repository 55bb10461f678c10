"""Equalities between live runs, and of live runs with serial large-batch SGD: all in the final parameters.

Every run is short and serves several equalities; they are all made before the first test, two at a time.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.core.data.sampling import sample_indices
from tests.support.exact import assert_sound
from tests.support.runs import DIGITS, Run
from tests.support.serial import heap_of, initial_model, serial_sgd

pytestmark = [pytest.mark.live, pytest.mark.timeout(400), pytest.mark.xdist_group("equalities")]

AT_ONCE = 2
UPDATES = 23
"""Of two epochs of 11.2 batches."""
BASE = (*DIGITS, "workload.epochs=2", "save_parameters=true")
PACED = ("cluster.device={base_s: 0.03}", "checkpoint_every_s=0.2")
SLEEPY = ("straggler=persistent", "straggler.sleep_iters=null", "straggler.sleep_s=0.02", "straggler.intensity=1.0")

VIRTUAL = ("runtime=virtual", "cluster.device={base_s: 0.03}")

Trouble = Callable[[Run], None]


def leave_alone(run: Run) -> None:
    """A plan without any disturbance."""


def kill_a_worker_and_a_server(run: Run) -> None:
    """The server dies when there is a checkpoint that is neither the beginning nor the present."""
    run.await_training(UPDATES // 4)
    assert run.unregister(("worker", 1))
    run.await_events("Joined")
    run.await_that(lambda: any(note["version"] > 0 for note in run.notes("Checkpointed")), "a checkpoint")
    run.await_training(run.notes("Checkpointed")[-1]["version"] + 2)
    assert run.unregister(("server", 1))
    run.await_events("Restored")


def kill_at_the_barrier(run: Run) -> None:
    """A worker whose gradient is in dies, and is back only after the round has ended without it.

    Worker 0 is stopped so that the others wait for it, and the agent so that the restart takes long.
    """
    run.await_training(UPDATES // 4)
    agent, slow = run.agent_pid, run.pid_of("worker", 0)
    os.kill(slow, signal.SIGSTOP)
    run.await_that(lambda: stuck_at(run, {"arrived": 3}), "three at the barrier")
    round_before = run.version
    os.kill(agent, signal.SIGSTOP)
    assert run.unregister(("worker", 1))
    run.await_events("Lost")
    os.kill(slow, signal.SIGCONT)
    run.await_training(round_before + 1)
    os.kill(agent, signal.SIGCONT)
    run.await_events("Joined")


def stuck_at(run: Run, state: dict[str, int], for_s: float = 0.5) -> bool:
    """Whether the strategy is in that state and stays there.

    A state seen once proves nothing: the gradient that a worker sent before it was stopped may still be on its way.
    """
    before = len(run.lines())
    states = [line["state"] for line in run.lines() if "state" in line]
    if not states or states[-1] != state:
        return False
    time.sleep(for_s)
    return len(run.lines()) == before


HALVES = ("topology.transfer_bits=16",)


@dataclass(frozen=True)
class Spec:
    workers: int = 4
    servers: int = 2
    transport: str = "tcp"
    more: tuple[str, ...] = ("strategy=bsp",)
    trouble: Trouble = leave_alone

    def overrides(self) -> tuple[str, ...]:
        shape = (f"cluster.num_workers={self.workers}", f"topology.num_servers={self.servers}")
        return (*BASE, *shape, f"topology.transport={self.transport}", *self.more)


SPECS = {
    "reference": Spec(),
    "2 workers, 3 servers, shm": Spec(2, 3, "shm"),
    "3 workers, epochs apart": Spec(3, 2, more=("strategy=bsp", "workload.epoch_overlap=false")),
    "1 server, injected sleep": Spec(4, 1, "tcp", SLEEPY),
    "worker and server killed": Spec(4, 2, "tcp", PACED, kill_a_worker_and_a_server),
    "worker killed at the barrier": Spec(4, 2, "tcp", ("runtime.lease_s=20",), kill_at_the_barrier),
    "on the virtual clock": Spec(more=("strategy=bsp", *VIRTUAL)),
    "on a device": Spec(more=("strategy=bsp", "backend.device=fake")),
    "on a device, shm, killed": Spec(4, 2, "shm", (*PACED, "backend.device=fake"), kill_a_worker_and_a_server),
    "in time": Spec(more=("strategy=dropcompute", "strategy.micro_batches=1", "strategy.threshold_s=1e9")),
    "16 bits": Spec(more=("strategy=bsp", *HALVES)),
    "16 bits, 3 servers, killed": Spec(4, 3, "tcp", (*PACED, *HALVES), kill_a_worker_and_a_server),
}


LONG = {
    "2 workers, 3 servers, shm",
    "1 server, injected sleep",
    "16 bits",
    "worker killed at the barrier",
    "on a device, shm, killed",
    "3 workers, epochs apart",
    "on a device",
    "in time",
    "16 bits, 3 servers, killed",
}
"""At the ends of their ranges many more strategies are others: ``tests/contract/test_identities.py``."""


def named(*names: str) -> pytest.MarkDecorator:
    """Tests of these runs."""
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in names]
    )


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Run]]:
    """Those that somebody will ask for."""
    directory = tmp_path_factory.mktemp("equalities")
    mine = [item for item in request.session.items if item.path == request.path]
    asked = {item.callspec.params["name"] for item in mine if hasattr(item, "callspec")}
    asked |= {name.partition(",")[0] for name in asked}
    wanted = [name for name in SPECS if name not in LONG or name in asked]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return {name: pool.submit(make, directory / slug(name), SPECS[name]) for name in wanted}


def slug(name: str) -> str:
    return re.sub(r"\W+", "-", name)


def make(run_dir: Path, spec: Spec) -> Run:
    run = Run(run_dir, *spec.overrides())
    try:
        spec.trouble(run)
        return run.finish()
    finally:
        run.kill()


Runs = dict[str, "Future[Run]"]


def batches_of(run: Run) -> list[NDArray[np.int64]]:
    """Samples of every update, by the pure coordinator on a heap."""
    heap = heap_of(run)
    cut, seed = heap.core.cut, run.meta["seed"]
    return [
        np.concatenate([sample_indices(heap.orders[grad].ranges, cut, seed) for grad in order.grads])
        for _, order, _ in heap.applied
    ]


@named("reference", "2 workers, 3 servers, shm", "3 workers, epochs apart")
def test_bsp_is_serial_large_batch_sgd(runs: Runs, name: str) -> None:
    run = runs[name].result()
    live, serial = run.parameters(), serial_sgd(run, batches_of(run))
    assert run.finished["version"] == len(batches_of(run)) >= UPDATES
    assert np.abs(live - serial).max() <= 1e-6 * np.abs(serial).max()
    assert np.linalg.norm(live - serial) <= 1e-6 * np.linalg.norm(serial)
    start = initial_model(run).initial_parameters()
    assert np.linalg.norm(live - start) > 0.1 * np.linalg.norm(start), "nothing was learned, so nothing was compared"


@named(
    "1 server, injected sleep",
    "worker and server killed",
    "worker killed at the barrier",
    "on the virtual clock",
    "on a device",
    "on a device, shm, killed",
    "in time",
)
def test_bit_equal_to_undisturbed_bsp(runs: Runs, name: str) -> None:
    run, reference = runs[name].result(), runs["reference"].result()
    assert run.sha256 == reference.sha256
    assert run.parameters().tobytes() == reference.parameters().tobytes()


def test_losses_on_the_virtual_clock_are_those_of_real_processes(runs: Runs) -> None:
    live, virtual = (losses(runs[name].result()) for name in ("reference", "on the virtual clock"))
    assert len(live) >= UPDATES * 4
    assert live == virtual


def losses(run: Run) -> dict[tuple[int, int], float]:
    """Of every gradient, by worker and iteration; a float in the record is the float that was computed."""
    return {(event["grad"]["worker"], event["grad"]["iteration"]): event["loss"] for event in run.events("Arrived")}


@pytest.mark.long(like="test_bit_equal_to_undisturbed_bsp")
@named("16 bits", "16 bits, 3 servers, killed")
def test_rounded_transfers_are_rounded_alike_everywhere(runs: Runs, name: str) -> None:
    """By any number of servers, after a rollback, too; and they cost little."""
    run, calm, reference = (runs[one].result() for one in (name, "16 bits", "reference"))
    assert run.sha256 == calm.sha256 != reference.sha256
    exact, rounded = reference.parameters(), run.parameters()
    assert 0 < np.linalg.norm(rounded - exact) < 0.02 * np.linalg.norm(exact)


def test_what_should_have_happened_did(runs: Runs) -> None:
    for name, made in runs.items():
        run, spec = made.result(), SPECS[name]
        if spec.more == SLEEPY:
            assert sum(event["timings"]["injected_s"] for event in run.events("Arrived")) >= UPDATES * 0.02
        assert bool(run.events("Lost")) == (spec.trouble is not leave_alone)
        assert bool(run.events("ServerLost")) == (spec.trouble is kill_a_worker_and_a_server)
        assert all(event["version"] > 0 for event in run.events("Restored"))
        applied = sum(command["type"] == "Apply" for line in run.lines() for command in line.get("commands", ()))
        undone = applied > run.version  # nothing is if the server dies right after a checkpoint
        assert run.events("Restored") or not undone


@named(*SPECS)
def test_records_are_sound(runs: Runs, name: str) -> None:
    run = runs[name].result()
    assert_sound(run)
