"""Replicas of the server: never further away than the bound, and one of them takes over, whoever is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runtime.backends.numpy import NumpyBackend
from runtime.core.executor import cut_for
from runtime.virtual.clock import MACHINE
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.model_state import RealModelState
from strategies.mlfabric import MLfabric
from tests.support.harness import make_run_spec
from tests.support.long_tests import long_after
from tests.unit.virtual.test_virtual_session import Tape, finish, slow, unregister, uses, virtual_job
from tests.unit.virtual.test_virtual_transfers import SECOND, hosts_of
from workloads.ledger import SampleLedger

SAMPLES = 48
COSTS = Costs(pending_s=1.0, launch_s=0.5, control_s=0.005, latency_s=0.02)
MOMENTUM = {"name": "sgd", "lr": 0.5, "momentum": 0.9}
TALLY = {"name": "tally", "lr": 1.0}


def job_of(
    where: str = "hosts", *, optimizer: dict[str, Any] = TALLY, epochs: int = 3, num_workers: int = 4, **settings: Any
) -> tuple[VirtualSession, Tape]:
    """A job of MLfabric in which every sample is a parameter of its own, and gradients count them."""
    settings = {"num_replicas": 1, "divergence_max": 5.0, "lr_rule": "batch_linear"} | settings
    strategy, tape = MLfabric(**settings), Tape()
    replicas = settings["num_replicas"]
    job = virtual_job(num_workers, SAMPLES, epochs=epochs, num_replicas=replicas, checkpoint_every_s=5.0)
    model = NumpyBackend().prepare(SampleLedger(num_samples=job.num_samples), job.seed)
    model_state = RealModelState(model, optimizer, cut_for(job, strategy.data), job.seed)
    spec = make_run_spec(job, strategy, tape, optimizer=optimizer)
    costs, hosts = COSTS, hosts_of(num_workers, 1 + replicas) if where == "hosts" else None
    if where == "links":
        costs = Costs(
            link_bytes_per_s=3840.0, **{name: getattr(COSTS, name) for name in ("pending_s", "launch_s", "control_s")}
        )
    return VirtualSession(spec, slow(), model_state, costs, SECOND, hosts=hosts), tape


WHERE = pytest.mark.parametrize("where", long_after(["hosts", "links", "alone"], always=1))


def distances(tape: Tape) -> list[tuple[float, float]]:
    """(distance, the strategy's bound at that time) of every update of a server and of a replica."""
    found: list[tuple[float, float]] = []
    bound = 0.0
    for line in tape.plain():
        if line["kind"] == "event":
            bound = line["state"]["divergence"] if line["state"] else bound
        elif line["note"]["type"] == "Diverged":
            found.append((line["note"]["distance"], bound))
    return found


@pytest.mark.few(1)
@WHERE
@pytest.mark.parametrize("optimizer", [MOMENTUM, TALLY], ids=["sgd", "tally"])
def test_a_replica_is_never_further_away_than_the_bound(where: str, optimizer: dict[str, Any]) -> None:
    run, tape = job_of(where, optimizer=optimizer, divergence_max=6.0)
    finish(run, tape)
    found = distances(tape)
    assert all(distance <= bound + 1e-4 for distance, bound in found)
    assert max(bound for _, bound in found) <= 6.0
    assert max(distance for distance, _ in found) > 1.0
    assert len({note["behind"] for _, note in tape.noted("Diverged")}) > 2
    assert run.followers is not None
    (replica,) = run.followers.replicas.values()
    assert run.coordinator.version == 3 * SAMPLES
    assert replica.version > 3 * SAMPLES - 30


def test_without_a_tight_bound_nothing_is_sent_to_it() -> None:
    run, tape = job_of(divergence_max=1e9, epochs=1)
    finish(run, tape)
    assert tape.received("Replicated") == []
    assert [note["behind"] for _, note in tape.noted("Diverged")] == list(range(1, SAMPLES + 1))


def struck(
    where: str, *strikes: tuple[float, Callable[[VirtualSession], None]], **about: Any
) -> tuple[VirtualSession, Tape]:
    run, tape = job_of(where, **about)
    for at_s, strike in strikes:
        run.clock.at(at_s, MACHINE, strike, run)
    finish(run, tape)
    return run, tape


@WHERE
def test_a_replica_takes_over_at_its_version(where: str) -> None:
    """No process has to start: all continue a message later, and samples of the updates that it lacks come again."""
    run, tape = struck(where, (8.0, unregister("server:0")))
    (lost,), (back,) = tape.received("ServerLost"), tape.received("Restored")
    assert back["t"] == pytest.approx(lost["t"] + COSTS.control_s, abs=1e-6)
    followed = [note for t, note in tape.noted("Diverged") if t <= lost["t"]][-1]
    assert (back["version"], back["servers"]) == (followed["version"], [1])
    assert followed["behind"] > 0
    assert uses(run) == {3.0}
    applied = [
        line["event"]["grad"] for line in tape.plain() if line["kind"] == "event" and line["event"]["type"] == "Arrived"
    ]
    assert sum(grad["samples"] for grad in applied) >= 3 * SAMPLES + followed["behind"]


@WHERE
def test_the_old_server_comes_back_as_a_replica(where: str) -> None:
    """Its process starts again, it receives a copy, and follows: when the new server is lost, it takes over."""
    run, tape = struck(
        where, (8.0, unregister("server:0")), (18.0, unregister("server:1")), (28.0, unregister("server:0"))
    )
    joined = [(event["server"], event["incarnation"]) for event in tape.received("ServerJoined")]
    assert joined == [(0, 1), (1, 1), (0, 2)]
    assert [event["servers"] for event in tape.received("Restored")] == [[1], [0], [1]]
    assert [event["version"] for event in tape.received("Restored")] == sorted(
        event["version"] for event in tape.received("Restored")
    )
    assert uses(run) == {3.0}


@pytest.mark.few(1)
@pytest.mark.parametrize("divergence_max", [0.5, 5.0, 40.0])
@pytest.mark.parametrize("num_replicas", [1, pytest.param(2, marks=pytest.mark.long)])
def test_whoever_is_lost_whenever_every_sample_counts_once(divergence_max: float, num_replicas: int) -> None:
    """Workers, servers and replicas, at random moments, one soon after the other; the bound holds all the same."""
    rng = np.random.default_rng(int(divergence_max * 2))
    for where in ("hosts", "links", "alone"):
        tasks = [f"worker:{n}" for n in range(4)] + [f"server:{n}" for n in range(1 + num_replicas)]
        times_s = np.cumsum(rng.exponential(2.0, size=14))
        strikes = [(float(at_s), unregister(str(rng.choice(tasks)))) for at_s in times_s]
        run, tape = struck(where, *strikes, divergence_max=divergence_max, num_replicas=num_replicas)
        assert uses(run) == {3.0}
        found = distances(tape)
        assert all(distance <= bound + 1e-4 and bound <= divergence_max for distance, bound in found)
        assert max((note["behind"] for _, note in tape.noted("Diverged")), default=0) > 0 or divergence_max < 1
