"""``backend.device`` and ``cluster.gpus``: what cannot be is refused in one line, before anything starts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from injectors.plan import Disturbance, build_plan
from runtime.backends.devices import found
from runtime.config.parse import ON_THIS_MACHINE
from runtime.config.rules import check_combinations
from runtime.errors import ConfigError
from runtime.run.checks import devices
from runtime.run.checks.devices import DEVICES, check_devices
from runtime.run.checks.facts import Facts
from runtime.run.checks.hogs import check_hogs

TASK = SimpleNamespace()


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Torch with CUDA, two devices, MPS."""
    monkeypatch.setattr(found, "torch_cuda", lambda: "12.8")
    monkeypatch.setattr(found, "NODES", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    monkeypatch.setattr(devices.shutil, "which", lambda name: f"/usr/bin/{name}")
    return tmp_path


def facts(config: Any, runtime: Any, backend: Any, task: Any = TASK) -> Facts:
    fake: Any = SimpleNamespace(replicas=0)
    return Facts(config=config, strategy=fake, task=task, backend=backend, runtime=runtime, scheduler=fake)


def check(
    gpus: dict[str, Any] | None = None,
    device: str = "cuda",
    *,
    collective: str | None = None,
    workers: int = 2,
    real_time: bool = True,
    task: Any = TASK,
    framework: str = "torch",
    **more: Any,
) -> None:
    names = SimpleNamespace(backend="torch", launcher="join", runtime="live" if real_time else "virtual")
    config: Any = SimpleNamespace(
        cluster=SimpleNamespace(gpus=gpus),
        topology=SimpleNamespace(collective=collective),
        workload=SimpleNamespace(name="mine"),
        names=names,
        num_workers=workers,
        **{"launcher": ON_THIS_MACHINE, "containment": "auto", "is_set": False, **more},
    )
    runtime: Any = SimpleNamespace(real_time=real_time)
    job = facts(config, runtime, SimpleNamespace(device=device, framework=framework), task)
    check_combinations(DEVICES, job)
    check_devices(job)


def refused(*words: Any, **settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        check(*words, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("gpus", "more"),
    [
        (None, {}),
        ({"devices": [0, 0, 1]}, {"workers": 5}),
        (None, {"collective": "nccl"}),
        (None, {"collective": "gloo", "workers": 9}),
        ({"share": "mps", "mps_percent": [60, 20.5]}, {}),
        (None, {"real_time": False, "collective": "nccl", "workers": 9}),
        (None, {"device": "cpu"}),
        ({"devices": [7]}, {"device": "fake"}),
    ],
)
def test_what_can_be_is_let_through(gpus: Any, more: dict[str, Any]) -> None:
    check(gpus, **more)


def test_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds with CUDA, for either framework, and MPS."""
    monkeypatch.setattr(devices.shutil, "which", lambda name: None)
    assert "nvidia-cuda-mps-control is not installed" in refused({"share": "mps"})
    monkeypatch.setattr(found, "torch_cuda", lambda: None)
    assert refused().startswith("backend.device=cuda: the installed torch was built without CUDA; install")
    monkeypatch.setattr(found, "tensorflow_cuda", lambda: "12.5")
    check(framework="tensorflow")
    monkeypatch.setattr(found, "tensorflow_cuda", lambda: None)
    assert "the installed tensorflow was built without CUDA" in refused(framework="tensorflow")


def test_no_device_and_one_that_is_hidden(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    check({"devices": [0]})
    assert "there is no device 1; those that are visible are 0 to 0" in refused({"devices": [0, 1]})
    for hidden in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert "no NVIDIA GPU is visible here" in refused()
    for listed in ("0,-1,1", "0,,1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
        assert found.num_devices() == 1, "CUDA shows none from the first on that is no device"
        assert "there is no device 1; those that are visible are 0 to 0" in refused({"devices": [0, 1]})
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert "cluster.gpus.devices=[0, 2]: there is no device 2" in refused({"devices": [0, 2]})
    for name in ("nvidia0", "nvidia1"):
        (machine / name).unlink()
    assert "no NVIDIA GPU is visible here" in refused()


@pytest.mark.parametrize(
    ("gpus", "more", "words"),
    [
        (None, {"collective": "nccl", "workers": 3}, "and 2 would be on device 0; use fewer workers"),
        ({"devices": [1, 1]}, {"collective": "nccl"}, "each of 2 workers, and 2 would be on device 1"),
        ({"share": "mig"}, {}, "cluster.gpus.share"),
        ({"devices": []}, {}, "cluster.gpus.devices"),
        ({"mps_percent": [0]}, {}, "cluster.gpus.mps_percent"),
    ],
)
def test_what_cannot_be(gpus: Any, more: dict[str, Any], words: str) -> None:
    assert words in refused(gpus, **more)


def test_what_torch_was_built_for_is_read_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.undo()
    assert found.torch_cuda() == torch.version.cuda
    for cuda in (None, "12.8"):
        (tmp_path / "torch").mkdir(exist_ok=True)
        (tmp_path / "torch" / "__init__.py").write_text("raise AssertionError('imported')")
        (tmp_path / "torch" / "version.py").write_text(f"cuda = {cuda!r}\n")
        place = SimpleNamespace(origin=str(tmp_path / "torch" / "__init__.py"))
        monkeypatch.setattr(found, "find_spec", lambda name, place=place: place)
        assert found.torch_cuda() == cuda
    monkeypatch.setattr(found, "find_spec", lambda name: None)
    assert found.torch_cuda() is None


def test_hogs_compute_with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    window = Disturbance(start_s=0.0, end_s=1.0, target="device:0", kind="gpu", magnitude=0.5)
    cluster = SimpleNamespace(gpus=None, hosts=None)
    topology = SimpleNamespace(num_servers=2)
    names = SimpleNamespace(straggler="gpu_hog", launcher="ray")
    config: Any = SimpleNamespace(
        num_workers=2, cluster=cluster, names=names, launcher=ON_THIS_MACHINE, topology=topology
    )
    runtime: Any = SimpleNamespace(real_time=True)
    about = facts(config, runtime, SimpleNamespace(device="cuda")), build_plan("test", 0, 9.0, [window])
    check_hogs(*about, (0,))
    monkeypatch.setattr(found, "torch_cuda", lambda: None)
    with pytest.raises(ConfigError, match="straggler=gpu_hog: what takes a part of a GPU computes with torch"):
        check_hogs(*about, (0,))
    config.launcher = {"gpus_per_node": 1}
    with pytest.raises(ConfigError, match="kind gpu is carried out on this machine only; leave launcher=ray out"):
        check_hogs(*about, ())


def test_ray_reserves_devices_for_agents_elsewhere(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia0", "nvidia1"):
        (machine / name).unlink()  # the driver itself needs none
    nodes = {"launcher": {"nodes": 3, "gpus_per_node": 2.0}}
    for device in ("cuda", "fake"):
        check(device=device, **nodes)
    assert "set launcher.gpus_per_node, or" in refused(launcher={"nodes": 3, "gpus_per_node": 0})
    monkeypatch.setattr(found, "torch_cuda", lambda: None)
    assert "torch was built without CUDA" in refused(**nodes)
    check(device="fake", **nodes)
