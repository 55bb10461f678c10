"""Runs on emulated hosts: real tasks in networks of their own, behind links of a rate, with a share of a processor."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from analysis.measures.memory_speed import readings
from analysis.measures.metrics import summarise
from analysis.records.load import load_run
from runtime.live.machines.doctor import missing
from tests.live.test_disturbances import assert_carried_out, write_plan
from tests.support.exact import ALLOW, assert_sound, assert_uses_are_exact
from tests.support.leaks import Start
from tests.support.long_tests import long_after
from tests.support.runs import CONF, DIGITS, LEDGER, Run

pytestmark = pytest.mark.live

KEPT_CAPABILITIES = 0b110
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: what lets root read its users' data."""
HOSTS = ("cluster=hosts", "cluster.hosts.real_cores_per_core=0.05")
ENDLESS = ("workload.epochs=null", "save_parameters=true", "checkpoint_every_s=0.3")


@pytest.fixture(autouse=True)
def _hosts_here() -> None:
    if lack := missing("network") or missing("links"):
        pytest.skip(f"{lack.reason}; {lack.cure}")


def status(pid: int, field: str) -> str:
    found = re.search(rf"^{field}:\s*(\S+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def namespace(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def listening(pid: int) -> set[str]:
    """Where TCP is listened for in the network of a process."""
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    found = set()
    for row in rows:
        if row[3] == "0A":
            host, _, port = row[1].partition(":")
            found.add(".".join(str(byte) for byte in reversed(bytes.fromhex(host))) + f":{int(port, 16)}")
    return found


def test_every_task_lives_on_its_host_and_has_no_power_beyond_it(start: Start) -> None:
    run = start("run", *LEDGER, *HOSTS, *ENDLESS, "cluster.hosts.latency_ms=1", "runtime.ticks=false")
    run.await_training(5)
    pids = run.pids()
    outside = namespace(os.getpid())
    by_host: dict[int, set[str]] = {}
    host_of = {("server", 0): 3, ("server", 1): 2, **{("worker", worker): worker for worker in range(4)}}
    for key, host in host_of.items():
        by_host.setdefault(host, set()).add(namespace(pids[key]))
    assert all(len(names) == 1 for names in by_host.values()), "those of a host share its network"
    assert len(set.union(*by_host.values()) | {outside, namespace(pids["evaluator", 0])}) == 6, "others do not"
    assert listening(pids["server", 0]) == {"10.77.0.4:5000"}
    assert listening(pids["worker", 0]) == set()
    for pid in pids.values():
        assert int(status(pid, "CapEff"), 16) & ~KEPT_CAPABILITIES == 0
        assert int(status(pid, "CapBnd"), 16) & ~KEPT_CAPABILITIES == 0
        assert status(pid, "NoNewPrivs") == "1"
    run.interrupt()
    machine = json.loads((run.run_dir / "meta.json").read_bytes())["machine"]
    assert machine["containment"] == "network"
    assert machine["means"]["latency"] in ("netem", "relay")
    assert (machine["means"]["ticks"], machine["means"]["ticks_because"]) == (False, "runtime.ticks=false")
    assert [host["tasks"] for host in machine["hosts"]][2:] == [["server:1", "worker:2"], ["server:0", "worker:3"]]


@pytest.mark.long(like="test_every_task_lives_on_its_host_and_has_no_power_beyond_it")
def test_a_storm_of_disturbances_loses_nothing(start: Start, tmp_path: Path) -> None:
    words = write_plan(
        tmp_path / "plan.csv",
        (0.2, 0.8, "worker:0", "cpu", 0.25),
        (0.3, 0.3, "host:1", "pause", 1),
        (0.4, 1.0, "host:2", "cpu", 0.5),
        (0.5, 1.0, "link:1", "bandwidth", 0.1),
        (0.6, 0.8, "link:0>3", "bandwidth", 0.25),
        (1.0, 0.3, "link:2", "cut", 1),
        (1.6, 0.4, "host:0", "kill", 1),
        (2.2, 0.5, "host:3", "kill", 1),
        (2.4, 0.8, "link:3", "bandwidth", 0.5),
    )
    run = start("run", *LEDGER, *HOSTS, *ENDLESS, "max_time_s=6", *words).finish()
    assert_carried_out(run)
    assert [event["worker"] for event in run.events("Lost")][:1] == [0]
    assert len(run.events("ServerLost")) >= 1
    assert_uses_are_exact(run)
    assert_sound(run)


@pytest.mark.long(like="test_every_task_lives_on_its_host_and_has_no_power_beyond_it")
@pytest.mark.alone
def test_a_throttled_link_slows_what_passes_it(start: Start, tmp_path: Path) -> None:
    words = write_plan(tmp_path / "plan.csv", (1.0, 30, "link:0", "bandwidth", 0.1))
    run = start(
        "run",
        *DIGITS,
        *HOSTS,
        "strategy=asp",
        "cluster.hosts.link_mbps=100",
        "workload.task.hidden_units=1024",
        "workload.epochs=null",
        "max_time_s=12",
        "runtime.telemetry_every_s=0.25",
        *words,
    ).finish()
    tables = load_run(run.run_dir).tables
    begun = tables.injections.iloc[0]
    assert begun.asked == 100e6 / 8 * 0.1
    assert abs(begun.achieved / begun.asked - 1) < 0.01
    rows = tables.iterations
    own = rows[rows.worker == 0]
    before, after = own[own.t < 1.0], own[own.start_s > 1.1]
    payload_s = 4 * run.finished["num_parameters"] / (100e6 / 8 * 0.1 * 1448 / 1514)
    assert before.send_s.median() < 0.5 * payload_s
    assert after.send_s.median() > 0.9 * payload_s
    others = rows[(rows.worker == 1) & (rows.start_s > 1.1)]
    assert others.send_s.median() < 0.5 * payload_s, "the others' links are as they were"
    nodes = tables.nodes
    out = nodes[(nodes.node == "host:0") & (nodes.t > 1.5)].out_bytes_per_s
    assert out.max() < 1.3 * 100e6 / 8 * 0.1


@pytest.mark.long(like="test_every_task_lives_on_its_host_and_has_no_power_beyond_it")
@pytest.mark.alone
@pytest.mark.parametrize("count", long_after([2, 8], always=1))
def test_runs_at_once_do_not_touch_each_other(start: Start, count: int) -> None:
    runs: list[Run] = [start(f"run{number}", *LEDGER, *HOSTS, "workload.epochs=1") for number in range(count)]
    digests = {run.finish(110).sha256 for run in runs}
    assert len(digests) == 1, "bit for bit what each alone would have computed"


@pytest.mark.long(like="test_every_task_lives_on_its_host_and_has_no_power_beyond_it")
def test_a_link_that_passes_nothing_is_noticed_before_the_job(start: Start) -> None:
    conf = (*CONF, "runtime=broken_links", "cluster=two_hosts")
    words = [word for word in LEDGER if not word.startswith("cluster.")]
    run = start("run", *words, *conf, env=ALLOW)
    line = run.fail()
    assert "the emulated hosts could not be built: link of host" in line
    assert "burst 600 bytes" in line
    assert not run.notes("Launched")
    assert run.finished["status"] == "failed"


@pytest.mark.long(like="test_every_task_lives_on_its_host_and_has_no_power_beyond_it")
def test_the_speed_of_memory_is_measured_while_a_job_runs(start: Start) -> None:
    """Five times a second; a copy of 4 MiB takes some processor time, and no second."""
    run = start("run", *LEDGER, *HOSTS, "workload.epochs=null", "max_time_s=3").finish()
    record = load_run(run.run_dir)
    found = readings(record)
    assert len(found) >= 2
    assert found["copy_s"].between(1e-6, 1.0).all()
    assert found["t"].is_monotonic_increasing
    assert summarise(record)["memory_copy_s"]["readings"] == len(found)
