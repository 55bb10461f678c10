"""Runs whose tasks are started by agents that have joined by address: in two network namespaces, or on loopback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.test_disturbances import write_plan
from tests.support.exact import ALLOW, assert_used, end_exactly
from tests.support.invariants import problems
from tests.support.joined import GROWING_BRAIN, Cluster, Namespaces
from tests.support.leaks import Start
from tests.support.runs import CONF, DIGITS, LEDGER, ROOT

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

EPOCHS = 4
PATIENCE_S = 180.0
JOB = (*LEDGER, f"workload.epochs={EPOCHS}", "save_parameters=true")
GLOO, TRUSTED = ("topology=allreduce", "topology.collective=gloo"), "launcher.trusts_network=true"
SLOW = ("cluster.device={base_s: 0.04}", "runtime.lease_s=1.0", "runtime.heartbeat_s=0.2", "checkpoint_every_s=0.5")


def test_two_agents_of_a_user_train_every_sample_as_often(loopback: Cluster) -> None:
    agents = [loopback.agent(number) for number in range(2)]
    run = loopback.run("run", *JOB, *SLOW, "runtime.telemetry_every_s=0.2").finish(PATIENCE_S)
    assert_used(run, EPOCHS)
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
    [
        pytest.param((), (), id="servers"),
        pytest.param(("topology=allreduce",), (), id="ring"),
        pytest.param(GLOO, (TRUSTED,), id="gloo"),
        pytest.param((*GLOO, "topology.collective=ddp"), (TRUSTED,), id="ddp"),
    ],
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
@pytest.mark.parametrize(
    ("words", "of_agents"),
    [
        pytest.param(("launcher.tls=true",), ("--tls",), id="servers with TLS"),
        pytest.param(("launcher.tls=true", "topology=allreduce"), ("--tls",), id="ring with TLS"),
        pytest.param((*GLOO, TRUSTED), (), id="gloo"),
    ],
)
def test_tasks_are_lost_and_come_back_and_the_ledger_is_exact(
    loopback: Cluster, tmp_path: Path, shared: Path, words: tuple[str, ...], of_agents: tuple[str, ...]
) -> None:
    agents = [loopback.agent(number, *of_agents) for number in range(2)]
    killing = write_plan(tmp_path / "plan.csv", (0.5, 0.5, "worker:1", "kill", 1))
    run = loopback.run("run", *JOB, *SLOW, *words, f"launcher.shared_dir={shared}", *killing).finish(PATIENCE_S)
    assert 1 in {event["worker"] for event in run.events("Lost")}
    assert_used(run, EPOCHS)
    assert [agent.wait() for agent in agents] == [0, 0]


@pytest.mark.long(like="test_two_agents_of_a_user_train_every_sample_as_often")
def test_workers_use_the_devices_that_agents_see(
    loopback: Cluster, start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Fake ones, of which an agent that is shown too few is refused; every process sees one, and servers none."""
    job = (*DIGITS, "workload.epochs=1", "backend.device=fake", "cluster.num_workers=4")
    local = start("local", *job).finish(PATIENCE_S)
    seen = tmp_path / "seen"
    seen.mkdir()
    monkeypatch.setenv("STRAGGLAB_ALLOW_TARGETS", "tests")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    poor = loopback.agent(0)
    assert poor.process.poll() is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    agents = [loopback.agent(number) for number in range(2)]
    conf = (*CONF, f"workload.task.seen_dir={seen}")
    seeing = ["workload=seeing" if word == "workload=digits" else word for word in job]
    joined = loopback.run("joined", *seeing, *conf, "launcher.gpus_per_node=2", env=ALLOW).finish(PATIENCE_S)
    assert joined.sha256 == local.sha256
    assert [agent.wait() for agent in (poor, *agents)] == [2, 0, 0]
    found = {
        (note["role"], note["id"], path.read_text())
        for note in joined.notes("Launched")
        for path in [seen / str(note["pid"])]
        if path.exists()
    }
    assert {one for one in found if one[0] == "worker"} == {
        ("worker", number, "3" if number < 2 else "5") for number in range(4)
    }
    assert {one[2] for one in found if one[0] != "worker"} <= {"", "5"}
    assert [node["shown_gpus"] for node in joined.meta["machine"]["nodes"]] == [2, 2]


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
