"""Which GPU a task's process sees, and that the agent touches none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.cluster.gpus import device_of, on_nodes
from runtime.live.tasks.gpu_access import refuse_touched_driver, surroundings_of
from runtime.live.transport.task_spec import Place
from tests.support.cli import run_text
from tests.support.runs import ROOT


def spec(gpus: tuple[int, ...] = (0, 0, 2), host: str = "", **more: Any) -> Any:
    fields = {"mps_pipes": "", "mps_percent": (), "collective": "", **more}
    return SimpleNamespace(gpus=gpus, place=lambda role, number: Place(host=host), **fields)


def visible(role: str, number: int, environ: dict[str, str] | None = None, **more: Any) -> str:
    return surroundings_of(spec(**more), role, number, environ or {})["CUDA_VISIBLE_DEVICES"]


def test_workers_take_devices_in_turn_of_those_that_are_visible() -> None:
    assert [visible("worker", number) for number in range(5)] == ["0", "0", "2", "0", "0"]
    others = ("evaluator", "scorer", "server", "aggregator")
    assert [visible(role, 0) for role in others] == ["2", "2", "", ""]
    environ = {"CUDA_VISIBLE_DEVICES": "GPU-a, 5 ,7", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}
    assert [visible("worker", number, environ) for number in range(3)] == ["GPU-a", "GPU-a", "7"]
    for hidden in ("", "-1"):
        assert visible("worker", 1, {"CUDA_VISIBLE_DEVICES": hidden}) == hidden
    with pytest.raises(IndexError):
        visible("worker", 2, {"CUDA_VISIBLE_DEVICES": "0,-1,1"})
    assert surroundings_of(spec(), "worker", 0, environ)["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"
    assert surroundings_of(spec(), "worker", 0, {})["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    in_turn = on_nodes(3, 2.0)
    assert [device_of(in_turn, "worker", worker) for worker in range(9)] == [0, 0, 0, 1, 1, 1, 0, 0, 0]
    assert on_nodes(2, 0.5) == (0, 0), "a part of one"
    assert on_nodes(2, 0) == ()


def test_shares_of_workers() -> None:
    shared = spec((0,), mps_pipes="/tmp/pipes", mps_percent=(60.0, 12.5))
    percent = [surroundings_of(shared, "worker", n, {})["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] for n in range(3)]
    assert percent == ["60", "12.5", "60"]
    evaluator = surroundings_of(shared, "evaluator", 0, {})
    assert evaluator["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/pipes"
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in evaluator
    assert "CUDA_MPS_PIPE_DIRECTORY" not in surroundings_of(spec(mps_percent=(5,)), "worker", 0, {})


def test_on_emulated_hosts_nccl_goes_through_their_links_and_a_replica_outlives_a_lost_one() -> None:
    there = surroundings_of(spec(host="host:1", collective="nccl"), "worker", 0, {})
    for name, value in {"P2P_DISABLE": "1", "SHM_DISABLE": "1", "IB_DISABLE": "1", "HOSTID": "host:1"}.items():
        assert there[f"NCCL_{name}"] == value
    assert there["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "2", "torch would end the process"
    assert not [name for name in surroundings_of(spec(), "worker", 0, {}) if "NCCL" in name]
    assert surroundings_of(spec(()), "worker", 0, {}) == {}


COLD = """
import os
from types import SimpleNamespace
from runtime.live.tasks import cold
from runtime.live.tasks.gpu_access import surroundings_of
from runtime.live.transport.task_spec import Place
fields = dict(gpus=(0, 1), mps_pipes="", mps_percent=(), collective="", place=lambda role, number: Place())
os.environ["CUDA_VISIBLE_DEVICES"] = "GPU-a,GPU-b"
os.environ.update(surroundings_of(SimpleNamespace(**fields), "worker", 1, os.environ))
os.execve = lambda program, words, environment: print(environment["CUDA_VISIBLE_DEVICES"], flush=True)
cold.become_cold({}, -1, "worker", 1, 0)
"""


def test_a_task_that_starts_cold_keeps_its_device() -> None:
    """As those of TensorFlow do: the new interpreter has the environment of the forked child."""
    done = run_text(COLD)
    assert (done.exit_code, done.out) == (0, "GPU-b\n"), done.err


ASKED = """
import sys
import torch
asked = []
def note(name):
    return lambda *_, **__: asked.append(name) or False
for name in ("is_available", "device_count", "init", "_lazy_init", "current_device"):
    setattr(torch.cuda, name, note(name))
for name in ("_cuda_getDeviceCount", "_cuda_init"):
    setattr(torch._C, name, note(name))
from runtime.live.tasks.agent import Agent
from types import SimpleNamespace
agent = object.__new__(Agent)
fields = dict(_target_="runtime.backends.torch.TorchBackend", device="cuda")
task = dict(_target_="workloads.digits.Digits")
agent.spec = SimpleNamespace(backend=fields, task=task, collective="nccl", run_dir=sys.argv[1])
{before}
agent._import()
print(*asked)
"""


@pytest.mark.long(like="test_an_agent_that_has_touched_a_driver_forks_nobody")
@pytest.mark.parametrize(("before", "asked"), [("", ""), ("torch.cuda.is_available()", "is_available")])
def test_what_the_agent_imports_asks_for_no_device(before: str, asked: str, tmp_path: Any) -> None:
    program = ASKED.replace("{before}", before)
    words = [sys.executable, "-W", "error", "-c", program, str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, asked), done.stderr


def test_an_agent_that_has_touched_a_driver_forks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    touched = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", touched)
    refuse_touched_driver()
    touched.cuda.is_initialized = lambda: True
    with pytest.raises(RuntimeError, match="the agent has initialised the driver of a GPU"):
        refuse_touched_driver()
    monkeypatch.delitem(sys.modules, "torch")
    refuse_touched_driver()


def test_whoever_has_the_driver_s_file_open_has_initialised_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``torch.cuda.is_available()`` does, and torch says that it has not; so may any other library."""
    driver, own = tmp_path / "nvidia-uvm", tmp_path / "nvidiactl"
    driver.touch()
    with own.open("w"):
        refuse_touched_driver()
    with driver.open(), pytest.raises(RuntimeError, match="the agent has initialised the driver of a GPU"):
        refuse_touched_driver()
    refuse_touched_driver()
