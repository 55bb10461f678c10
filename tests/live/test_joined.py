"""Runs whose tasks are started by agents that have joined by address: in two network namespaces, or on loopback."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from runtime.record.checkpoint import read_checkpoint
from tests.live.test_disturbances import write_plan
from tests.support.exact import assert_used, end_exactly
from tests.support.invariants import problems
from tests.support.joined import GROWING_BRAIN, Agent, Cluster, Namespaces, errors, rejoining
from tests.support.leaks import Start
from tests.support.runs import DIGITS, LEDGER, ROOT, Run, processes_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

EPOCHS = 4
PATIENCE_S = 180.0
JOB = (*LEDGER, f"workload.epochs={EPOCHS}", "save_parameters=true")
GLOO, TRUSTED = ("topology=allreduce", "topology.collective=gloo"), "launcher.trusts_network=true"


def test_two_agents_of_a_user_train_every_sample_as_often(loopback: Cluster) -> None:
    agents = [loopback.agent(number) for number in range(2)]
    run = loopback.run("run", *JOB, *SLOW, "runtime.telemetry_every_s=0.2", "workload.epochs=2").finish(PATIENCE_S)
    assert_used(run, 2)
    sampled = {
        node["node"]: node for event in run.events("Observed") for node in event["nodes"] if node.get("cpu_cores")
    }
    assert sampled.keys() == {"worker:0", "worker:1", "worker:2", "worker:3", "server:0", "server:1"}
    assert all(0 < node["cpu_cores"] < 8 and node["memory_bytes"] > 10 << 20 for node in sampled.values())
    places = {(note["role"], note["id"]): note["node"] for note in run.notes("Launched")}
    assert [places["worker", number] for number in range(4)] == ["node0", "node1", "node0", "node1"]
    assert [places["server", number] for number in range(2)] == ["node0", "node1"]
    logs = {path.name for path in (run.run_dir / "logs").iterdir()}
    assert logs <= {"agent-node0.log", "agent-node1.log"}, "tasks print nothing, and empty logs are not kept"
    assert problems(run.lines()) == []
    assert [agent.wait() for agent in agents] == [0, 0]
    assert {node["node"] for node in run.meta["machine"]["nodes"]} == {"node0", "node1"}


@pytest.mark.long(like="test_two_agents_of_a_user_train_every_sample_as_often")
@pytest.mark.parametrize(
    ("topology", "there"),
    [((), ()), (GLOO, (TRUSTED,)), ((*GLOO, "topology.collective=ddp"), (TRUSTED,))],
)
def test_two_machines_learn_to_the_bit_what_one_does(
    apart: Cluster, start: Start, shared: Path, topology: tuple[str, ...], there: tuple[str, ...]
) -> None:
    job = (*DIGITS, "workload.epochs=1", *topology)
    agents = [apart.agent(number) for number in range(2)]
    joined = apart.run("joined", *job, *there, f"launcher.shared_dir={shared}").finish(PATIENCE_S)
    assert joined.sha256 == start("local", *job).finish(PATIENCE_S).sha256
    assert [agent.wait() for agent in agents] == [0, 0]
    machines = apart.machines
    assert isinstance(machines, Namespaces)
    assert [node["address"] for node in joined.meta["machine"]["nodes"]] == machines.network.addresses


@pytest.mark.long(like="test_two_agents_of_a_user_train_every_sample_as_often")
@pytest.mark.parametrize("words", [("launcher.tls=true",), ("launcher.tls=true", "topology=allreduce")])
def test_tasks_are_lost_and_come_back_and_the_ledger_is_exact(
    loopback: Cluster, tmp_path: Path, shared: Path, words: tuple[str, ...]
) -> None:
    agents = [loopback.agent(number, "--tls") for number in range(2)]
    killing = write_plan(tmp_path / "plan.csv", (0.5, 0.5, "worker:1", "kill", 1))
    run = loopback.run("run", *JOB, *SLOW, *words, f"launcher.shared_dir={shared}", *killing).finish(PATIENCE_S)
    assert 1 in {event["worker"] for event in run.events("Lost")}
    assert_used(run, EPOCHS)
    assert [agent.wait() for agent in agents] == [0, 0]


@pytest.mark.long(like="test_two_agents_of_a_user_train_every_sample_as_often")
def test_dlrover_starts_with_one_worker_and_grows_over_both_machines(apart: Cluster, shared: Path) -> None:
    agents = [apart.agent(number) for number in range(2)]
    job = (*LEDGER, "workload.epochs=null", "save_parameters=true", *SLOW, *GROWING_BRAIN)
    run = apart.run("run", *job, f"launcher.shared_dir={shared}")
    run.await_that(lambda: len({key for key in run.pids() if key[0] == "worker"}) > 1, "more workers", PATIENCE_S)
    run.await_progress(20, PATIENCE_S)
    end_exactly(run, PATIENCE_S)
    assert {note["node"] for note in run.notes("Launched") if note["role"] == "worker"} == {"node0", "node1"}
    assert [agent.wait() for agent in agents] == [0, 0]


@pytest.mark.long(like="test_two_agents_of_a_user_train_every_sample_as_often")
def test_the_plan_is_carried_out_by_the_agent_of_each_task(loopback: Cluster, tmp_path: Path) -> None:
    plan = write_plan(
        tmp_path / "plan.csv",
        (0.0, 60, "worker:0", "cpu", 0.5),
        (0.0, 60, "worker:1", "delay", 0.01),
        (0.5, 0.5, "worker:1", "pause", 1),
        (1.5, 0.5, "worker:2", "kill", 1),
        (2.0, 0.5, "server:1", "pause", 1),
    )
    agents = [loopback.agent(number) for number in range(2)]
    disturbed = (*plan, "runtime.lease_s=5", "checkpoint_every_s=0.5")
    run = loopback.run("run", *JOB, *disturbed, "workload.epochs=12").finish(PATIENCE_S)
    assert_used(run, 12)
    done = {(note["target"], note["kind"], note["by"]) for note in run.notes("Injected")}
    expected = {("worker:0", "cpu", "duty"), ("worker:1", "pause", "signal"), ("worker:2", "kill", "signal")}
    assert expected | {("server:1", "pause", "signal")} <= done
    assert 2 in {event["worker"] for event in run.events("Lost")}
    assert any(
        event["timings"]["injected_s"] >= 0.01 for event in run.events("Arrived") if event["grad"]["worker"] == 1
    )
    assert [agent.wait() for agent in agents] == [0, 0]


def test_nobody_at_a_closed_port_or_an_address_of_nobody(apart: Cluster) -> None:
    closed = apart.agent(0, "--wait-s", "0")
    nobody = apart.agent(0, "--join", "10.77.0.9:7077", "--wait-s", "1")
    assert [closed.wait(), nobody.wait()] == [2, 2]
    (line,) = closed.lines
    assert line.startswith("agent: --join 10.77.0.254:7077: connection refused within --wait-s=0; ")
    (line,) = nobody.lines
    assert line.startswith("agent: --join 10.77.0.9:7077: ")


@pytest.mark.long(like="test_nobody_at_a_closed_port_or_an_address_of_nobody")
def test_the_doctor_asks_every_node_and_starts_nothing(loopback: Cluster, tmp_path: Path) -> None:
    agents = [loopback.agent(number) for number in range(2)]
    join = ("launcher=join", "launcher.listen=127.0.0.1", f"launcher.port={loopback.machines.port}")
    words = ("doctor", "--cluster", *join, f"launcher.token_file={loopback.token}", *JOB)
    done = subprocess.run(
        [sys.executable, str(ROOT / "run.py"), *words], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if "node" in line]
    assert [row[:2] for row in rows if row[1] == "127.0.0.1"] == [["node0", "127.0.0.1"], ["node1", "127.0.0.1"]]
    assert [agent.wait() for agent in agents] == [2, 2]
    assert agents[0].lines == ["agent: the driver is gone (closed): nothing runs here"]
    assert not (tmp_path / "runs").exists()


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
def test_a_partition_longer_than_the_tasks_lease_is_survived_and_the_ledger_is_exact(
    apart: Cluster,
) -> None:
    run = train_through(apart, 5.0, "runtime.lease_s=1", "launcher.lease_s=60")
    fenced = {(note["role"], note["id"]) for note in run.notes("Fenced")}
    assert {("worker", 1), ("server", 1)} <= fenced, run.notes("Fenced")


def cut_for_good(apart: Cluster, lease: str) -> tuple[list[Agent], Run]:
    """A job without an end on two machines whose network is cut while it trains, with the lease of a machine."""
    agents = [apart.agent(number) for number in range(2)]
    run = apart.run("run", *LEDGER, "workload.epochs=null", *PACED, "runtime.lease_s=1", lease)
    run.await_training(3, PATIENCE_S)
    cut(apart, True)
    return agents, run


@pytest.mark.long(like="test_an_agent_that_is_killed_ends_the_job_in_one_line")
def test_a_partition_beyond_the_machines_lease_ends_the_job_on_both_sides(apart: Cluster) -> None:
    """It lasts: nothing is left on either side of it, although neither is notified of the other's end."""
    agents, run = cut_for_good(apart, "launcher.lease_s=3")
    is_lost(run, agents[1], 3.0)
    assert agents[0].wait() == 0
    assert processes_of(agents[0].directory) == []


@pytest.mark.long(like="test_an_agent_that_is_killed_ends_the_job_in_one_line")
def test_the_driver_that_is_killed_behind_one_leaves_nothing(apart: Cluster) -> None:
    """The machine cannot hear that the connection is closed: its lease ends what it runs."""
    agents, run = cut_for_good(apart, "launcher.lease_s=4")
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
