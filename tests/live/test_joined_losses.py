"""Machines of a run that are killed, or receive nothing from each other for a while, each in its own network then."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from runtime.record.checkpoint import read_checkpoint
from tests.support.exact import assert_used
from tests.support.joined import Agent, Cluster, Namespaces, errors, rejoining
from tests.support.runs import LEDGER, Run, processes_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

EPOCHS = 4
PATIENCE_S = 180.0
JOB = (*LEDGER, f"workload.epochs={EPOCHS}", "save_parameters=true")
PACED = ("cluster.device={base_s: 0.04}", "runtime.heartbeat_s=0.2", "checkpoint_every_s=0.5")
SLOW = (*PACED, "runtime.lease_s=1.0")


def cut(cluster: Cluster, on: bool) -> None:
    """The network of machine 1."""
    machines = cluster.machines
    assert isinstance(machines, Namespaces)
    machines.cut(1, on)


def train_through(cluster: Cluster, cut_s: float, *leases: str) -> Run:
    """A job that is cut in two for a while and comes to its end."""
    agents = [cluster.agent(number) for number in range(2)]
    run = cluster.run("run", *JOB, *PACED, *leases)
    run.await_training(3, PATIENCE_S)
    cut(cluster, True)
    time.sleep(cut_s)
    cut(cluster, False)
    run.finish(PATIENCE_S)
    assert_used(run, EPOCHS)
    assert [agent.wait() for agent in agents] == [0, 0]
    return run


def is_lost(run: Run, agent: Agent, lease_s: float) -> None:
    """The driver gives the machine up, and the machine, which still hears nothing, ends all that it runs."""
    (line,) = errors(run, 1)
    assert line.endswith(f"node1 is lost: no word from it for launcher.lease_s={lease_s:g}")
    assert agent.wait() == 1
    assert agent.lines[-1] == (
        f"agent: no word from the driver for launcher.lease_s={lease_s:g}: all tasks here were ended"
    )
    assert processes_of(agent.directory) == []


@pytest.mark.long(like="test_an_agent_that_is_killed_ends_the_job_in_one_line")
@pytest.mark.parametrize("cut_s", [5.0, 30.0])
def test_a_partition_longer_than_the_tasks_lease_is_survived_and_the_ledger_is_exact(
    apart: Cluster, cut_s: float
) -> None:
    run = train_through(apart, cut_s, "runtime.lease_s=1", "launcher.lease_s=60")
    fenced = {(note["role"], note["id"]) for note in run.notes("Fenced")}
    assert {("worker", 1), ("server", 1)} <= fenced, run.notes("Fenced")


@pytest.mark.parametrize("lease_s", [3.0, 10.0])
@pytest.mark.long(like="test_an_agent_that_is_killed_ends_the_job_in_one_line")
def test_a_partition_beyond_the_machines_lease_ends_the_job_on_both_sides(apart: Cluster, lease_s: float) -> None:
    """It lasts: nothing is left on either side of it, although neither is notified of the other's end."""
    agents = [apart.agent(number) for number in range(2)]
    leases = ("runtime.lease_s=1", f"launcher.lease_s={lease_s:g}")
    run = apart.run("run", *LEDGER, "workload.epochs=null", *PACED, *leases)
    run.await_training(3, PATIENCE_S)
    cut(apart, True)
    is_lost(run, agents[1], lease_s)
    assert agents[0].wait() == 0
    assert processes_of(agents[0].directory) == []


@pytest.mark.long(like="test_an_agent_that_is_killed_ends_the_job_in_one_line")
def test_the_driver_that_is_killed_behind_one_leaves_nothing(apart: Cluster) -> None:
    """The machine cannot hear that the connection is closed: its lease ends what it runs."""
    agents = [apart.agent(number) for number in range(2)]
    leases = ("runtime.lease_s=1", "launcher.lease_s=4")
    run = apart.run("run", *LEDGER, "workload.epochs=null", *PACED, *leases)
    run.await_training(3, PATIENCE_S)
    cut(apart, True)
    run.kill()
    assert [agent.wait() for agent in agents] == [1, 1]
    assert agents[0].lines[-1].startswith("agent: the driver is gone (")
    assert agents[1].lines[-1].startswith("agent: no word from the driver for launcher.lease_s=4: ")
    assert [processes_of(agent.directory) for agent in agents] == [[], []]


@pytest.mark.long(like="test_an_agent_that_is_killed_ends_the_job_in_one_line")
def test_a_machine_that_was_given_up_joins_again_and_the_ledger_is_exact(apart: Cluster, shared: Path) -> None:
    """It has a worker and a server: all roll back to the last checkpoint, and its old tasks apply nothing any more."""
    agents = [apart.agent(0), apart.agent(1, "--again", "--wait-s", "30")]
    run = apart.run("run", *JOB, *PACED, *rejoining(shared), "runtime.lease_s=1", "launcher.lease_s=4")
    run.await_training(5, PATIENCE_S)
    cut(apart, True)
    run.await_notes("NodeLost", 1, PATIENCE_S)
    run.await_that(lambda: any("no word" in line for line in agents[1].lines), "the agent's own lease", PATIENCE_S)
    cut(apart, False)
    run.finish(PATIENCE_S)
    assert [note["node"] for note in run.notes("NodeJoined")] == ["node1"]
    assert_used(run, EPOCHS)
    assert agents[0].wait() == 0
    agents[1].kill()


def test_a_killed_driver_leaves_nothing_and_its_checkpoints_are_exact(
    loopback: Cluster, tmp_path: Path, shared: Path
) -> None:
    """Its agents are on its machine; those of another one leave the shared directory to the next run there."""
    agents = [loopback.agent(number) for number in range(2)]
    run = loopback.run("run", *LEDGER, "workload.epochs=null", *SLOW, f"launcher.shared_dir={shared}")
    run.await_that(lambda: any(note["version"] > 0 for note in run.notes("Checkpointed")), "a checkpoint", PATIENCE_S)
    kept = tmp_path / "kept"
    kept.mkdir()
    for path in shared.rglob("*.ckpt"):
        with suppress(FileNotFoundError):  # replaced by a newer one
            shutil.copy(path, kept)
    run.kill()
    assert [agent.wait() for agent in agents] == [1, 1]
    for agent in agents:
        assert agent.lines[-1].startswith("agent: the driver is gone (")
        assert agent.lines[-1].endswith("all tasks here were ended")
    assert list(shared.iterdir()) == []
    assert_exact(kept)


def assert_exact(folder: Path) -> None:
    """The uses of samples in the newest whole checkpoint are those of the work that it calls applied."""
    numbers = [{path.name.partition("-")[0] for path in folder.glob(f"*-server{server}.ckpt")} for server in (0, 1)]
    newest = max(numbers[0] & numbers[1])
    parts = [read_checkpoint(folder / f"{newest}-server{server}.ckpt") for server in (0, 1)]
    (version, state, _), other = parts
    assert (version, state) == other[:2]
    counted = sum(float(values["params"].sum()) for _, _, values in parts)
    assert version > 0
    assert counted == msgspec.json.decode(state)["samples_applied"]


def test_an_agent_that_is_killed_ends_the_job_in_one_line(loopback: Cluster) -> None:
    agents = [loopback.agent(number) for number in range(2)]
    run = loopback.run("run", *LEDGER, "workload.epochs=null", *SLOW)
    run.await_training(3, PATIENCE_S)
    agents[1].kill()
    (line,) = errors(run, 1)
    assert "is lost: its agent is gone" in line
    assert agents[0].wait() == 0


@pytest.mark.long(like="test_an_agent_that_is_killed_ends_the_job_in_one_line")
def test_another_agent_takes_the_place_of_one_that_is_killed_and_the_ledger_is_exact(
    loopback: Cluster, shared: Path
) -> None:
    """A worker and a server are on the lost machine: all roll back to the last checkpoint."""
    agents = [loopback.agent(number) for number in range(2)]
    run = loopback.run("run", *JOB, *SLOW, *rejoining(shared))
    run.await_training(5, PATIENCE_S)
    agents[1].kill()
    run.await_notes("NodeLost", 1, PATIENCE_S)
    agents.append(loopback.agent(1))
    run.finish(PATIENCE_S)
    (lost,), (joined,) = run.notes("NodeLost"), run.notes("NodeJoined")
    assert lost["node"] == joined["node"]
    assert run.lines()[-1]["note"]["type"] == "Finished"
    assert_used(run, EPOCHS)
    assert [agents[0].wait(), agents[2].wait()] == [0, 0]
    assert list(shared.iterdir()) == []
