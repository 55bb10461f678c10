"""Runs whose agents Ray starts: three raylets of this machine, so nothing here is about the network."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.on_ray.conftest import Raylets
from tests.support.invariants import problems
from tests.support.joined import errors, rejoining
from tests.support.leaks import Start
from tests.support.runs import DIGITS, LEDGER, alive, every_pid, kill_quietly, until

pytestmark = [pytest.mark.ray, pytest.mark.live, pytest.mark.timeout(400)]

PATIENCE_S = 180.0
LEASE_S = 3.0
LEASES = ("runtime.lease_s=1.0", "runtime.heartbeat_s=0.2", f"launcher.lease_s={LEASE_S}")
SLOW = ("cluster.device={base_s: 0.04}", *LEASES)
ENDLESS = (*LEDGER, "workload.epochs=null", *SLOW)


def of_ours() -> dict[int, str]:
    """Processes of Stragglab that descend from Ray's workers, with their command lines."""
    found = {}
    for pid in every_pid():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            surroundings = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if "runtime.live" in words and b"RAY_JOB_ID=" in surroundings:
            found[pid] = words
    return found


def outer_agents() -> list[int]:
    """The agents as actors have started them."""
    return [pid for pid, words in of_ours().items() if "--dies-with" in words and parent_of(pid) not in of_ours()]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def assert_nothing_is_left() -> None:
    """Of a run, on any node, when its lease is over."""
    until(lambda: not of_ours(), "the end of all", LEASE_S + 5.0)


def test_bsp_on_three_nodes_is_bit_equal_to_that_of_one_machine(raylets: Raylets, start: Start) -> None:
    job = (*DIGITS, "workload.epochs=1")
    here = start("local", *job).finish(PATIENCE_S)
    there = start("ray", *job, *raylets.at()).finish(PATIENCE_S)
    assert there.sha256 == here.sha256
    assert {note["node"] for note in there.notes("Launched")} == {"node0", "node1", "node2"}
    assert problems(there.lines()) == []
    assert_nothing_is_left()


def test_workers_use_the_devices_that_ray_reserves_for_their_node(raylets: Raylets, start: Start) -> None:
    """Fake ones: a worker whose device Ray does not show would not start."""
    job = (*DIGITS, "workload.epochs=1", "backend.device=fake", "cluster.num_workers=4")
    here = start("local", *job).finish(PATIENCE_S)
    there = start("ray", *job, *raylets.at(2), "launcher.gpus_per_node=2").finish(PATIENCE_S)
    assert there.sha256 == here.sha256
    assert_nothing_is_left()


def test_two_runs_on_one_cluster_do_not_touch_each_other(raylets: Raylets, start: Start) -> None:
    """One is killed while the other trains, which uses every sample as often."""
    endless = start("endless", *ENDLESS, *raylets.at())
    endless.await_training(3, PATIENCE_S)
    run = start("run", *LEDGER, *SLOW, "workload.epochs=4", "save_parameters=true", *raylets.at())
    run.await_training(1, PATIENCE_S)
    endless.kill()
    run.finish(PATIENCE_S)
    assert set(np.unique(run.parameters())) == {4.0}
    assert_nothing_is_left()


def test_a_killed_run_leaves_nothing_on_any_node(raylets: Raylets, start: Start) -> None:
    run = start("run", *ENDLESS, *raylets.at())
    run.await_training(3, PATIENCE_S)
    assert len(outer_agents()) == 3
    run.kill()
    assert_nothing_is_left()


@pytest.mark.parametrize("victim", ["actor", "agent"])
def test_a_killed_actor_or_agent_ends_the_job_in_one_line(raylets: Raylets, start: Start, victim: str) -> None:
    run = start("run", *ENDLESS, *raylets.at())
    run.await_training(3, PATIENCE_S)
    agent = outer_agents()[0]
    actor = parent_of(agent)
    os.kill(agent if victim == "agent" else actor, signal.SIGKILL)
    (line,) = errors(run, 1)
    assert "is lost: its agent is gone" in line
    assert not alive(agent)
    assert_nothing_is_left()


def test_ray_gives_another_node_for_a_lost_agent_and_the_ledger_is_exact(
    raylets: Raylets, start: Start, shared: Path
) -> None:
    job = (*LEDGER, *SLOW, "workload.epochs=6", "save_parameters=true")
    run = start("run", *job, *rejoining(shared), *raylets.at())
    run.await_training(3, PATIENCE_S)
    kill_quietly(outer_agents()[0])
    run.await_notes("NodeJoined", 1, PATIENCE_S)
    run.finish(PATIENCE_S)
    assert set(np.unique(run.parameters())) == {6.0}
    assert_nothing_is_left()


def test_a_cluster_of_its_own_ends_with_the_run(start: Start) -> None:
    pytest.importorskip("ray")
    own = ("launcher=ray", *(f"launcher.{one}" for one in ("address=local", "nodes=2", "placement=PACK", "listen=lo")))
    run = start("run", *LEDGER, "workload.epochs=2", "save_parameters=true", *own).finish(PATIENCE_S)
    assert set(np.unique(run.parameters())) == {2.0}
    assert_nothing_is_left()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("launcher.gpus_per_node=3", "run.py: launcher.gpus_per_node=3: launcher.placement=STRICT_SPREAD needs 3 time"),
        ("launcher.labels={number: 9}", "run.py: launcher.labels={number: 9}: launcher.placement=STRICT_SPREAD needs"),
        ("launcher.auth_token_file=OTHER", "does not accept it; name the file with the cluster's own"),
        ("launcher.directory=/nowhere", "launcher.directory=/nowhere: no Stragglab is there"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    raylets: Raylets, start: Start, tmp_path: Path, words: str, line: str
) -> None:
    other = tmp_path / "other"
    other.write_text("f" * 64)
    run = start("run", *LEDGER, *raylets.at(), words.replace("OTHER", str(other)))
    code, _, err = run.wait(PATIENCE_S)
    assert code == 2, err
    assert line in err.strip().splitlines()[-1]
    assert "Traceback" not in err
    assert not run.run_dir.exists()
    assert_nothing_is_left()


def test_the_token_is_in_no_argument_and_no_environment(raylets: Raylets, start: Start) -> None:
    """It has 64 hex digits; nothing that other users can read of the agents has so many."""
    run = start("run", *ENDLESS, *raylets.at())
    run.await_training(1, PATIENCE_S)
    processes = of_ours()
    assert len(processes) >= 3
    for pid in processes:
        for file in ("cmdline", "environ"):
            assert not re.search(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])", Path(f"/proc/{pid}/{file}").read_bytes())
    run.interrupt(PATIENCE_S)
    assert_nothing_is_left()
