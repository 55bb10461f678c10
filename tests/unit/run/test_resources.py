"""What cannot fit into the machine is refused by an estimate from below."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from runtime.config.parse import Config, parse
from runtime.errors import ConfigError
from runtime.run.checks import resources
from runtime.run.checks.resources import Demand, Limit, Room, check_resources, demand_of, look_around
from runtime.run.preflight import preflight
from tests.support.cli import ROOT
from tests.support.long_tests import rows_long_after
from tests.unit.run.test_preflight import composed
from workloads.digits import Digits


def config_of(line: str) -> Config:
    [(_, raw)] = composed(line)
    return parse(raw)


@pytest.fixture(scope="module")
def default() -> Config:
    return config_of("")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("line", "message"),
    rows_long_after(
        [
            (
                "workload.task.hidden_units=100000000000",
                r"^workload=digits: hidden_units=100000000000, .* TB of memory",
            ),
            ("runtime=virtual workload.task.hidden_units=100000000000", r"^workload=digits: .* need at least 90 TB"),
            ("workload=ledger backend=numpy workload.task.num_samples=100000000000", r"^workload=ledger: num_samples="),
            ("topology.num_servers=100000", r"topology\.num_servers=100000 need at least 400 GB of memory"),
            ("topology.num_servers=1000000", r"^topology\.num_servers=1000000: must be at most 100000"),
            ("backend.num_threads=100000", r"^backend\.num_threads=100000: must be at most 1024"),
        ],
        always=3,
    ),
)
def test_what_no_machine_has_is_refused(line: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.run.checks.job.find_spec", lambda name: name)
    with pytest.raises(ConfigError, match=message):
        preflight(line.split())


@pytest.mark.parametrize(("model", "hidden_units"), [("mlp", 1), ("mlp", 128), ("cnn", 3), ("cnn", 32)])
def test_weights_are_counted_as_torch_has_them(model: str, hidden_units: int) -> None:
    task = Digits(model=model, hidden_units=hidden_units)
    assert task.num_weights == sum(weights.numel() for weights in task.torch_module().parameters())


def test_the_demand_by_hand(default: Config) -> None:
    """Four workers, two servers, an evaluator; a model of 9,610 weights. Without gradients one of any size fits."""
    preflight(["runtime=virtual", "backend=none", "workload.target=null", "workload.task.hidden_units=100000000000"])
    demand = demand_of(default, Digits(), real_time=True, computes=True, scores=False)
    assert demand.memory_bytes == 4 * 9610 * (4 * 2 + 2) + 7 * resources.TASK_BYTES
    assert demand.processes == 2 + 5 * 2 + 2 * 2
    assert demand.descriptors == 7
    threads = msgspec.structs.replace(default, backend={**default.backend, "num_threads": 3})
    assert demand_of(threads, Digits(), real_time=True, computes=True, scores=True).processes == 2 + 6 * 4 + 2 * 2
    virtual = demand_of(default, Digits(), real_time=False, computes=True, scores=False)
    assert (virtual.memory_bytes, virtual.processes) == (3 * 4 * 9610, 1)


def test_each_limit_is_named(default: Config) -> None:
    demand = Demand(memory_bytes=1000, processes=100, descriptors=50)
    exactly = Room(1000, (Limit("ulimit -u", 100),), Limit("ulimit -n", 50))
    check_resources(demand, exactly, default)
    check_resources(demand, Room(), default)
    for room, message in (
        (exactly.__class__(999), "need at least 1 kB of memory, and 999 B are free"),
        (Room(1000, (Limit("a", 100), Limit("pids.max", 99))), "100 processes and threads, and pids.max leaves room"),
        (Room(1000, (), Limit("ulimit -n", 49)), "50 connections, and ulimit -n leaves room for 49"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_resources(demand, room, default)


def test_limits_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine as its files describe it: 3 GB free, 500 processes in a group of which the parent has 200."""
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    for path, text in {
        proc
        / "meminfo": "MemTotal: 8000000 kB\nMemAvailable:    2000000 kB\nSwapFree: 1000000 kB\nHugePages_Total: 0\n",
        proc / "sys" / "kernel" / "pid_max": "32768\n",
        proc / "sys" / "kernel" / "threads-max": "1000\n",
        proc / "self" / "cgroup": "1:cpu:/x\n0::/a/b\n",
        groups / "a" / "b" / "pids.max": "500\n",
        groups / "a" / "b" / "memory.max": "max\n",
        groups / "a" / "pids.max": "200\n",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(resources, "PROC", proc)
    monkeypatch.setattr(resources, "CGROUPS", groups)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    room = look_around()
    assert room.memory_bytes == 3_000_000 * 1024
    assert [limit.value for limit in room.processes] == [32768, 1000, 500, 200]
    (groups / "a" / "memory.max").write_text("1000000\n")
    assert look_around().memory_bytes == 1_000_000
    monkeypatch.setattr(resources, "PROC", tmp_path / "none")
    assert look_around().memory_bytes is None
    assert look_around().processes == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes an ordinary user")
def test_an_ordinary_user_with_few_processes() -> None:
    """With ulimit -u 8 the agent died, and nobody knew of what."""
    # it becomes one only after its imports: CI's Python lies in root's home, where nobody else may read
    script = """
import os, resource
from runtime.run.checks.resources import look_around
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (8, 8))
print([limit.value for limit in look_around().processes][-1])
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 0 <= int(done.stdout) <= 7
