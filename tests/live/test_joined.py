"""Runs whose tasks are started by agents that have joined by address: in two network namespaces, or on loopback."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.live.joining.token import new_token
from tests.live.test_disturbances import write_plan
from tests.live.test_elastic import SCRIPTED, steps, steps_are_done
from tests.support.exact import ALLOW, assert_used, end_exactly
from tests.support.invariants import problems
from tests.support.joined import EAGER_ND, GROWING_BRAIN, Cluster, Namespaces, errors
from tests.support.leaks import Start
from tests.support.runs import CONF, DIGITS, LEDGER, ROOT

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

EPOCHS = 4
PATIENCE_S = 180.0
JOB = (*LEDGER, f"workload.epochs={EPOCHS}", "save_parameters=true")
GLOO, TRUSTED = ("topology=allreduce", "topology.collective=gloo"), "launcher.trusts_network=true"
SLOW = ("cluster.device={base_s: 0.04}", "runtime.lease_s=1.0", "runtime.heartbeat_s=0.2", "checkpoint_every_s=0.5")


# ---- the same job ----------------------------------------------------------------------------------------------------


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
def test_nodes_come_and_go_and_parameters_move_between_machines(loopback: Cluster, shared: Path) -> None:
    agents = [loopback.agent(number) for number in range(2)]
    small = ("cluster.num_workers=2", "topology.num_servers=1", "checkpoint_every_s=null")
    script = steps("wait 5", "workers 4", "servers 3", "divide 3", "wait 8", "divide 1", "servers 1", "workers 2")
    job = (*LEDGER, "workload.epochs=null", "save_parameters=true", *SLOW, *small, *SCRIPTED, script)
    run = loopback.run("run", *job, f"launcher.shared_dir={shared}", env=ALLOW)
    run.await_that(lambda: steps_are_done(run), "all steps", PATIENCE_S)
    run.await_progress(5, PATIENCE_S)
    end_exactly(run, PATIENCE_S)
    places = {(note["role"], note["id"]): note["node"] for note in run.notes("Launched")}
    assert {places["worker", number] for number in (2, 3)} == {"node0", "node1"}
    assert {places["server", number] for number in (1, 2)} == {"node0", "node1"}
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
def test_antdt_nd_restarts_a_worker_on_the_machine_with_room(three_apart: Cluster) -> None:
    """Machine 2 has no task until then."""
    agents = [three_apart.agent(number) for number in range(3)]
    two = ("launcher.nodes=3", "cluster.num_workers=2", "topology.num_servers=1")
    endless = (*LEDGER, "workload.epochs=null", "save_parameters=true", *SLOW)
    run = three_apart.run("run", *endless, *EAGER_ND, *two)
    run.await_that(lambda: any(one["worker"] == 1 for one in run.events("Joined")), "worker 1 again", PATIENCE_S)
    run.await_progress(5, PATIENCE_S)
    end_exactly(run, PATIENCE_S)
    nodes = [note["node"] for note in run.notes("Launched") if (note["role"], note["id"]) == ("worker", 1)]
    assert nodes[:2] == ["node1", "node2"]
    assert run.notes("Moved")[0] == {"type": "Moved", "task": "worker:1", "node": "node2"}
    assert [agent.wait() for agent in agents] == [0, 0, 0]


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
def test_with_tls_nothing_changes_but_what_others_can_read(loopback: Cluster, start: Start) -> None:
    """Bit-equal; and who does not speak as the run does is refused in one line."""
    job = (*DIGITS, "workload.epochs=1")
    plain = loopback.agent(0, "--wait-s", "60")
    agents = [loopback.agent(number, "--tls") for number in range(2)]
    joined = loopback.run("joined", *job, "launcher.tls=true").finish(PATIENCE_S)
    assert joined.sha256 == start("local", *job).finish(PATIENCE_S).sha256
    assert [agent.wait() for agent in agents] == [0, 0]
    assert plain.wait() == 2
    assert plain.lines[-1].endswith("; a run with launcher.tls=true needs --tls"), plain.lines


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


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.long(like="test_nobody_at_a_closed_port_or_an_address_of_nobody")
def test_who_does_not_agree_is_refused_with_the_difference_and_too_few_are_refused(
    loopback: Cluster, tmp_path: Path
) -> None:
    """Three refused, each for one reason; then the time is over."""
    other = tmp_path / "other"
    new_token(other)
    changed = tmp_path / "changed"
    for name in ("analysis", "injectors", "predictors", "reading", "runtime", "strategies", "workloads"):
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
def test_a_machine_that_others_do_not_reach_is_named_before_anything_starts(apart: Cluster) -> None:
    """Tasks of machine 0 would listen at an address that is another machine's own for everybody else."""
    nobody = apart.agent(0, "--address", "192.0.2.1")
    agents = [apart.agent(0, "--address", "127.0.0.1"), apart.agent(1)]
    run = apart.run("run", *JOB)
    (line,) = errors(run, 2)
    assert line.startswith("run.py: launcher.nodes=2: 10.77.0.")
    assert " does not reach 127.0.0.1 (" in line
    assert line.endswith(" (connection refused); let the machines of the run reach each other at all ports")
    assert not run.run_dir.exists()
    assert [agent.wait() for agent in (nobody, *agents)] == [2, 2, 2]
    assert agents[1].lines == [line.replace("run.py: ", "agent: the driver refuses us: ")]
    (line,) = nobody.lines
    assert line.startswith("agent: --address 192.0.2.1: cannot assign requested address; give an address of this ")


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
