"""Checks of ``backend.device`` and ``cluster.gpus``: nothing is imported, and no driver is initialised."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import Any

from runtime.api import Runtime
from runtime.backends.devices import found
from runtime.backends.devices.choice import CPU, CUDA, FAKE
from runtime.cluster.gpus import SETTING, Gpus, parse_gpus
from runtime.cluster.gpus import device_of as gpu_of
from runtime.config.parse import ON_THIS_MACHINE, Config
from runtime.errors import ConfigError
from runtime.live.machines.mps import PROGRAM as MPS_PROGRAM

ON_CPU = "or backend.device=cpu"


def device_of(backend: Any) -> str:
    """Where a backend computes gradients."""
    return str(getattr(backend, "device", CPU))


def check_devices(runtime: Runtime, backend: Any, task: Any, config: Config) -> None:
    """Check where gradients are computed; raises :class:`ConfigError`."""
    device, gpus = device_of(backend), parse_gpus(config.cluster.gpus)
    collective = config.topology.collective
    if device == CPU:
        _refuse_unused(gpus, config)
        if collective == "nccl":
            raise ConfigError(
                "topology.collective=nccl: sums vectors of GPUs; set backend.device=cuda, or use "
                "topology.collective=ring or gloo"
            )
        return
    setting = f"backend.device={device}"
    if inside := getattr(task, "masks_of_device", ""):
        raise ConfigError(
            f"{setting}: workload={config.workload.name} has dropout within {inside}, whose masks a device would draw "
            f"itself; set its dropout to 0, {ON_CPU}"
        )
    if collective == "ddp":
        raise ConfigError(
            f"{setting}: topology.collective=ddp is only built for the CPU; use topology.collective=ring, gloo or nccl"
        )
    if config.launcher != ON_THIS_MACHINE:
        _check_elsewhere(device, gpus, config, getattr(backend, "framework", ""))
        return
    if device == CUDA:
        _check_cuda(runtime, gpus, config, backend.framework)
    elif collective == "nccl":
        raise ConfigError(f"{setting}: topology.collective=nccl needs real GPUs; use topology.collective=ring or gloo")
    _check_share(runtime, device, gpus, config)


def _check_elsewhere(device: str, gpus: Gpus, config: Config, framework: str) -> None:
    """Of agents elsewhere: Ray reserves GPUs for them, or they see those of their machine; that is looked at there."""
    setting = f"backend.device={device}"
    if not config.launcher.get("gpus_per_node"):
        raise ConfigError(
            f"{setting}: agents elsewhere use the CPU; leave launcher={config.names.launcher} out, set "
            f"launcher.gpus_per_node, {ON_CPU}"
        )
    if gpus != Gpus():
        raise ConfigError(
            f"{SETTING}={config.cluster.gpus}: Ray, or {found.VISIBLE} there, says which GPUs an agent has; "
            "leave it out"
        )
    if config.topology.collective == "nccl":
        raise ConfigError(f"{setting}: topology.collective=nccl is built for this machine; use ring or gloo")
    if device == CUDA:
        _check_build(framework)


def gpus_in_turn(runtime: Runtime, backend: Any, config: Config) -> tuple[int, ...]:
    """The devices that workers use in turn; empty: on the CPU, or elsewhere. On a virtual clock each has its own."""
    device, gpus = device_of(backend), parse_gpus(config.cluster.gpus)
    if device == CPU or (runtime.real_time and config.launcher != ON_THIS_MACHINE):
        return ()
    if not runtime.real_time:
        return gpus.in_turn(config.num_workers)
    return gpus.in_turn(found.num_devices() if device == CUDA else 1)


def _refuse_unused(gpus: Gpus, config: Config) -> None:
    if gpus != Gpus():
        raise ConfigError(
            f"{SETTING}={config.cluster.gpus}: no GPU is used with backend={config.names.backend} on the CPU; "
            "set backend.device=cuda (PyTorch), or leave it out"
        )


def _check_build(framework: str) -> None:
    if (found.torch_cuda() if framework == "torch" else found.tensorflow_cuda()) is None:
        raise ConfigError(
            f"backend.device={CUDA}: the installed {framework} was built without CUDA; install a build with it, "
            f"{ON_CPU}"
        )


def _check_cuda(runtime: Runtime, gpus: Gpus, config: Config, framework: str) -> None:
    setting = f"backend.device={CUDA}"
    _check_build(framework)
    if framework != "torch" and config.topology.collective == "nccl":
        raise ConfigError(
            f"{setting}: topology.collective=nccl sums vectors of PyTorch; use backend=torch, or "
            "topology.collective=ring or gloo"
        )
    have = found.num_devices()
    if not have:
        raise ConfigError(f"{setting}: no NVIDIA GPU is visible here (/dev/nvidia*, {found.VISIBLE}); {ON_CPU}")
    in_turn = gpus.in_turn(have)
    if max(in_turn) >= have:
        raise ConfigError(
            f"{SETTING}.devices={list(in_turn)}: there is no device {max(in_turn)}; those that are visible are 0 to "
            f"{have - 1}"
        )
    if not runtime.real_time and gpus.devices != "auto":
        raise ConfigError(
            f"{SETTING}.devices={list(in_turn)}: runtime={config.names.runtime} computes all gradients in one process "
            f"on the first visible device; leave it out, and choose that one with {found.VISIBLE}"
        )
    if config.topology.collective == "nccl" and runtime.real_time:
        _check_ranks(in_turn, config.num_workers)


def _check_ranks(in_turn: tuple[int, ...], num_workers: int) -> None:
    """NCCL refuses two ranks on one device."""
    used = Counter(gpu_of(in_turn, "worker", worker) for worker in range(num_workers))
    device, ranks = used.most_common(1)[0]
    if ranks > 1:
        raise ConfigError(
            f"topology.collective=nccl: needs a device for each of {num_workers} workers, and {ranks} would be on "
            f"device {device}; use fewer workers, other {SETTING}.devices, or topology.collective=ring or gloo"
        )


def _check_share(runtime: Runtime, device: str, gpus: Gpus, config: Config) -> None:
    """A fake device has shares without a daemon."""
    setting = f"{SETTING}.share={gpus.share}"
    if gpus.share == "time":
        if gpus.mps_percent is not None:
            raise ConfigError(f"{SETTING}.mps_percent: has no effect with {setting}; use {SETTING}.share=mps")
        return
    time = f"use {SETTING}.share=time"
    if not runtime.real_time:
        raise ConfigError(f"{setting}: runtime={config.names.runtime} has one process; {time}")
    if device == FAKE:
        return
    if shutil.which(MPS_PROGRAM) is None:
        raise ConfigError(f"{setting}: {MPS_PROGRAM} is not installed (it comes with NVIDIA's driver); {time}")
    if config.containment == "none":
        raise ConfigError(f"{setting}: nothing would end its server with the run; use containment=auto, or {time}")
    if config.is_set:
        raise ConfigError(f"{setting}: a set of jobs has no daemon of its own; {time}")
