"""Runs whose tasks are started by agents that have joined by address: in two network namespaces, or on loopback."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from runtime.live.joining.token import new_token
from runtime.record.checkpoint import read_checkpoint
from tests.live.test_elastic import CONF as SWITCHING
from tests.live.test_elastic import steps, steps_are_done
from tests.live.test_faults import ALLOW, assert_uses_are_exact
from tests.support.invariants import problems
from tests.support.joined import Cluster, Loopback, Namespaces, namespaces
from tests.support.leaks import Start
from tests.support.runs import DIGITS, LEDGER, ROOT, Run

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

EPOCHS = 4
PATIENCE_S = 180.0
JOB = (*LEDGER, f"workload.epochs={EPOCHS}", "save_parameters=true")
SLOW = ("cluster.device={base_s: 0.04}", "runtime.lease_s=1.0", "runtime.heartbeat_s=0.2", "checkpoint_every_s=0.5")


@pytest.fixture
def loopback(tmp_path: Path, start: Start) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, Loopback(), start)
    yield cluster
    cluster.close()


@pytest.fixture
def apart(tmp_path: Path, start: Start) -> Iterator[Cluster]:
    with namespaces() as machines:
        cluster = Cluster(tmp_path, machines, start)
        yield cluster
        cluster.close()


def used(run: Run) -> set[float]:
    """How often samples were used: the ledger's final parameters."""
    return set(np.unique(run.parameters()))


def errors(run: Run, exit_code: int) -> list[str]:
    """What a run says that must end so, without what it says while it waits."""
    code, out, err = run.wait(PATIENCE_S)
    assert code == exit_code, (code, out, err, run.tail())
    waiting = ("run.py: launcher=join: ", "record: ")
    return [line for line in err.strip().splitlines() if not line.startswith(waiting)]


# ---- the same job ----------------------------------------------------------------------------------------------------


def test_two_agents_of_a_user_train_every_sample_as_often(loopback: Cluster) -> None:
    agents = [loopback.agent(number) for number in range(2)]
    run = loopback.run("run", *JOB, *SLOW, "runtime.telemetry_every_s=0.2").finish(PATIENCE_S)
    assert used(run) == {EPOCHS}
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
def test_bsp_of_two_machines_is_bit_equal_to_that_of_one(apart: Cluster, start: Start) -> None:
    job = (*DIGITS, "workload.epochs=1")
    agents = [apart.agent(number) for number in range(2)]
    joined = apart.run("joined", *job).finish(PATIENCE_S)
    local = start("local", *job).finish(PATIENCE_S)
    assert joined.sha256 == local.sha256
    assert [agent.wait() for agent in agents] == [0, 0]
    addresses = [node["address"] for node in joined.meta["machine"]["nodes"]]
    machines = apart.machines
    assert isinstance(machines, Namespaces)
    assert addresses == machines.network.addresses


@pytest.mark.long(like="test_two_agents_of_a_user_train_every_sample_as_often")
def test_nodes_come_and_go_and_parameters_move_between_machines(loopback: Cluster, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    agents = [loopback.agent(number) for number in range(2)]
    small = ("cluster.num_workers=2", "topology.num_servers=1", "checkpoint_every_s=null")
    script = steps("wait 5", "workers 4", "servers 3", "divide 3", "wait 8", "divide 1", "servers 1", "workers 2")
    job = (*LEDGER, "workload.epochs=null", "save_parameters=true", *SLOW, *small, *SWITCHING, script)
    run = loopback.run("run", *job, f"launcher.shared_dir={shared}", env=ALLOW)
    run.await_that(lambda: steps_are_done(run), "all steps", PATIENCE_S)
    run.await_progress(5, PATIENCE_S)
    run.interrupt(PATIENCE_S)
    assert_uses_are_exact(run)
    assert problems(run.lines()) == []
    places = {(note["role"], note["id"]): note["node"] for note in run.notes("Launched")}
    assert [places["worker", number] for number in (2, 3)] == ["node0", "node1"]
    assert {places["server", number] for number in (1, 2)} == {"node0", "node1"}
    assert [agent.wait() for agent in agents] == [0, 0]


@pytest.mark.long(like="test_two_agents_of_a_user_train_every_sample_as_often")
def test_replicas_in_a_ring_over_two_agents_are_bit_equal_to_those_of_one_machine(
    loopback: Cluster, start: Start, tmp_path: Path
) -> None:
    job = (*DIGITS, "topology=allreduce", "workload.epochs=1")
    agents = [loopback.agent(number) for number in range(2)]
    joined = loopback.run("joined", *job, f"launcher.shared_dir={tmp_path}").finish(PATIENCE_S)
    assert joined.sha256 == start("local", *job).finish(PATIENCE_S).sha256
    assert [agent.wait() for agent in agents] == [0, 0]


PLAN = """time,duration,target,kind,magnitude
0.0,60,worker:0,cpu,0.5
0.0,60,worker:1,delay,0.01
0.5,0.5,worker:1,pause,1
1.5,0.5,worker:2,kill,1
2.0,0.5,server:1,pause,1
"""


@pytest.mark.long(like="test_two_agents_of_a_user_train_every_sample_as_often")
def test_the_plan_is_carried_out_by_the_agent_of_each_task(loopback: Cluster, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(PLAN)
    agents = [loopback.agent(number) for number in range(2)]
    disturbed = ("straggler=trace", f"straggler.path={plan}", "runtime.lease_s=5", "checkpoint_every_s=0.5")
    run = loopback.run("run", *JOB, *disturbed, "workload.epochs=12").finish(PATIENCE_S)
    assert used(run) == {12}
    done = {(note["target"], note["kind"], note["by"]) for note in run.notes("Injected")}
    expected = {("worker:0", "cpu", "duty"), ("worker:1", "pause", "signal"), ("worker:2", "kill", "signal")}
    assert expected | {("server:1", "pause", "signal")} <= done
    assert 2 in {event["worker"] for event in run.events("Lost")}
    assert any(
        event["timings"]["injected_s"] >= 0.01 for event in run.events("Arrived") if event["grad"]["worker"] == 1
    )
    assert [agent.wait() for agent in agents] == [0, 0]


# ---- losses ----------------------------------------------------------------------------------------------------------


@pytest.mark.long(like="test_an_agent_that_is_killed_ends_the_job_in_one_line")
def test_a_partition_of_five_seconds_is_survived_and_the_ledger_is_exact(apart: Cluster) -> None:
    machines = apart.machines
    assert isinstance(machines, Namespaces)
    agents = [apart.agent(number) for number in range(2)]
    run = apart.run("run", *JOB, *SLOW, "launcher.lease_s=30")
    run.await_training(3, PATIENCE_S)
    machines.cut(1, True)
    time.sleep(5.0)
    assert run.notes("Fenced"), run.tail()
    machines.cut(1, False)
    run.finish(PATIENCE_S)
    assert used(run) == {EPOCHS}
    assert problems(run.lines()) == []
    assert [agent.wait() for agent in agents] == [0, 0]


@pytest.mark.long(like="test_an_agent_that_is_killed_ends_the_job_in_one_line")
def test_a_partition_beyond_the_lease_ends_the_job_on_both_sides(apart: Cluster) -> None:
    machines = apart.machines
    assert isinstance(machines, Namespaces)
    agents = [apart.agent(number) for number in range(2)]
    run = apart.run("run", *LEDGER, "workload.epochs=null", *SLOW, "launcher.lease_s=3")
    run.await_training(3, PATIENCE_S)
    machines.cut(1, True)
    (line,) = errors(run, 1)
    assert line.endswith("node1 is lost: no word from it for launcher.lease_s=3")
    assert agents[1].wait() == 1
    assert agents[1].lines[-1] == ("agent: no word from the driver for launcher.lease_s=3: all tasks here were ended")
    assert agents[0].wait() == 0


def test_a_killed_driver_leaves_nothing_and_its_last_checkpoint_is_exact(loopback: Cluster, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    agents = [loopback.agent(number) for number in range(2)]
    run = loopback.run("run", *LEDGER, "workload.epochs=null", *SLOW, f"launcher.shared_dir={shared}")
    run.await_that(lambda: any(note["version"] > 0 for note in run.notes("Checkpointed")), "a checkpoint", PATIENCE_S)
    run.kill()
    assert [agent.wait() for agent in agents] == [1, 1]
    for agent in agents:
        assert agent.lines[-1].startswith("agent: the driver is gone (")
        assert agent.lines[-1].endswith("all tasks here were ended")
    assert_exact(shared)


def assert_exact(shared: Path) -> None:
    """The uses of samples in the newest whole checkpoint are those of the work that it calls applied."""
    (folder,) = shared.iterdir()
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
    loopback: Cluster, tmp_path: Path
) -> None:
    """A worker and a server are on the lost machine: all roll back to the last checkpoint."""
    shared = tmp_path / "shared"
    shared.mkdir()
    agents = [loopback.agent(number) for number in range(2)]
    again = ("launcher.rejoin_s=120", f"launcher.shared_dir={shared}")
    run = loopback.run("run", *JOB, *SLOW, *again)
    run.await_training(5, PATIENCE_S)
    agents[1].kill()
    run.await_notes("NodeLost", 1, PATIENCE_S)
    agents.append(loopback.agent(1))
    run.finish(PATIENCE_S)
    (lost,), (joined,) = run.notes("NodeLost"), run.notes("NodeJoined")
    assert lost["node"] == joined["node"]
    assert run.lines()[-1]["note"]["type"] == "Finished"
    assert used(run) == {EPOCHS}
    assert problems(run.lines()) == []
    assert [agents[0].wait(), agents[2].wait()] == [0, 0]
    assert list(shared.iterdir()) == []


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.long(like="test_nobody_at_a_closed_port_or_an_address_of_nobody")
def test_who_does_not_agree_is_refused_with_the_difference_and_too_few_are_refused(
    loopback: Cluster, tmp_path: Path
) -> None:
    """Three refused, each for one reason; then the time is over."""
    other = tmp_path / "other"
    new_token(other)
    changed = tmp_path / "changed"
    for name in ("analysis", "injectors", "predictors", "runtime", "strategies", "workloads"):
        shutil.copytree(ROOT / name, changed / name, ignore=shutil.ignore_patterns("__pycache__", ".ruff_cache"))
    shutil.copy(ROOT / "pyproject.toml", changed)
    with (changed / "runtime" / "version.py").open("a") as file:
        file.write("# another line\n")
    refused = [loopback.agent(0, "--token-file", str(other)), loopback.agent(1, cwd=changed)]
    good = loopback.agent(0)
    run = loopback.run("run", *JOB, "launcher.wait_s=20")
    assert [agent.wait() for agent in refused] == [2, 2]
    (line,) = errors(run, 2)
    assert line.startswith("run.py: launcher.nodes=2: 1 joined within launcher.wait_s=20 (127.0.0.1")
    assert "its token is another one" in line
    assert "code: files " in line
    assert not run.run_dir.exists()
    assert good.wait() == 2
    (token_words,), (code_words,) = (agent.lines for agent in refused)
    assert token_words.endswith("who listens there does not accept our token; use the driver's token file")
    assert code_words.startswith("agent: the driver refuses us: code: files ")
    assert good.lines == ["agent: the driver refuses us: the run does not start, since not all nodes have joined"]


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
