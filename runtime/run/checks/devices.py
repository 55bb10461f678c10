"""Rules of ``backend.device`` and ``cluster.gpus``, and what they need of the machine.

Nothing is imported, and no driver is initialised.
"""

from __future__ import annotations

import shutil
from collections import Counter

from runtime.backends.devices import found
from runtime.backends.devices.choice import CPU, CUDA
from runtime.cluster.gpus import SETTING, Gpus
from runtime.cluster.gpus import device_of as gpu_of
from runtime.config.rules import Rule
from runtime.errors import ConfigError
from runtime.live.machines.mps import PROGRAM as MPS_PROGRAM
from runtime.run.checks.facts import Facts

ON_CPU = "or backend.device=cpu"
IN_TURNS = f"use {SETTING}.share=time"


def _away(job: Facts) -> bool:
    """Whether machines elsewhere compute on devices."""
    return job.elsewhere and job.device != CPU


def _by_mps(job: Facts) -> bool:
    """Whether tasks share real devices by a daemon."""
    return job.device == CUDA and job.asked_gpus.share == "mps"


DEVICES: tuple[Rule[Facts], ...] = (
    Rule(
        "GPUs and a backend on the CPU",
        lambda job: job.device == CPU and job.asked_gpus != Gpus(),
        f"{SETTING}={{config.cluster.gpus}}: no GPU is used with backend={{names.backend}} on the CPU",
        "set backend.device=cuda (PyTorch), or leave it out",
    ),
    Rule(
        "NCCL without GPUs",
        lambda job: job.device != CUDA and job.topology.collective == "nccl",
        "topology.collective=nccl: sums vectors of real GPUs",
        "set backend.device=cuda, or use topology.collective=ring or gloo",
    ),
    Rule(
        "dropout in layers of the device",
        lambda job: job.device != CPU and getattr(job.task, "masks_of_device", ""),
        "backend.device={device}: workload={workload.name} has dropout within {task.masks_of_device}, whose masks a "
        "device would draw itself",
        f"set its dropout to 0, {ON_CPU}",
    ),
    Rule(
        "DDP and a device",
        lambda job: job.device != CPU and job.topology.collective == "ddp",
        "backend.device={device}: topology.collective=ddp is only built for the CPU",
        "use topology.collective=ring, gloo or nccl",
    ),
    Rule(
        "a device and agents elsewhere without GPUs",
        lambda job: _away(job) and not job.config.launcher.get("gpus_per_node"),
        "backend.device={device}: agents elsewhere use the CPU",
        f"leave launcher={{names.launcher}} out, set launcher.gpus_per_node, {ON_CPU}",
    ),
    Rule(
        "chosen GPUs and agents elsewhere",
        lambda job: _away(job) and job.asked_gpus != Gpus(),
        f"{SETTING}={{config.cluster.gpus}}: Ray, or {found.VISIBLE} there, says which GPUs an agent has",
        "leave it out",
    ),
    Rule(
        "NCCL and agents elsewhere",
        lambda job: _away(job) and job.topology.collective == "nccl",
        "backend.device={device}: topology.collective=nccl is built for this machine",
        "use ring or gloo",
    ),
    Rule(
        "chosen GPUs on the virtual clock",
        lambda job: job.device == CUDA and not job.runtime.real_time and job.asked_gpus.devices != "auto",
        f"{SETTING}.devices={{asked_gpus.devices}}: runtime={{names.runtime}} computes all gradients in one process on "
        "the first visible device",
        f"leave it out, and choose that one with {found.VISIBLE}",
    ),
    Rule(
        "parts of a GPU without MPS",
        lambda job: job.device != CPU and job.asked_gpus.share == "time" and job.asked_gpus.mps_percent is not None,
        f"{SETTING}.mps_percent: has no effect with {SETTING}.share=time",
        f"use {SETTING}.share=mps",
    ),
    Rule(
        "MPS on the virtual clock",
        lambda job: job.device != CPU and job.asked_gpus.share == "mps" and not job.runtime.real_time,
        f"{SETTING}.share=mps: runtime={{names.runtime}} has one process",
        IN_TURNS,
    ),
    Rule(
        "MPS without containment",
        lambda job: _by_mps(job) and job.config.containment == "none",
        f"{SETTING}.share=mps: nothing would end its server with the run",
        f"use containment=auto, or {SETTING}.share=time",
    ),
    Rule(
        "MPS and a set of jobs",
        lambda job: _by_mps(job) and job.config.is_set,
        f"{SETTING}.share=mps: a set of jobs has no daemon of its own",
        IN_TURNS,
    ),
)
"""In the order in which they are looked at."""


def check_devices(job: Facts) -> None:
    """Check that this machine has what ``backend.device`` needs; raises :class:`ConfigError`. Fakes need nothing."""
    if job.device != CUDA:
        return
    framework, setting = job.backend.framework, f"backend.device={CUDA}"
    if (found.torch_cuda() if framework == "torch" else found.tensorflow_cuda()) is None:
        raise ConfigError(
            f"{setting}: the installed {framework} was built without CUDA; install a build with it, {ON_CPU}"
        )
    if job.elsewhere:
        return
    have = found.num_devices()
    if not have:
        raise ConfigError(f"{setting}: no NVIDIA GPU is visible here (/dev/nvidia*, {found.VISIBLE}); {ON_CPU}")
    in_turn = job.asked_gpus.in_turn(have)
    if max(in_turn) >= have:
        raise ConfigError(
            f"{SETTING}.devices={list(in_turn)}: there is no device {max(in_turn)}; those that are visible are 0 to "
            f"{have - 1}"
        )
    if job.topology.collective == "nccl" and job.runtime.real_time:
        _check_ranks(in_turn, job.config.num_workers)
    if job.asked_gpus.share == "mps" and shutil.which(MPS_PROGRAM) is None:
        raise ConfigError(
            f"{SETTING}.share=mps: {MPS_PROGRAM} is not installed (it comes with NVIDIA's driver); {IN_TURNS}"
        )


def gpus_in_turn(job: Facts) -> tuple[int, ...]:
    """The devices that workers use in turn; empty: on the CPU, or elsewhere. On a virtual clock each has its own."""
    if job.device == CPU or (job.runtime.real_time and job.elsewhere):
        return ()
    if not job.runtime.real_time:
        return job.asked_gpus.in_turn(job.config.num_workers)
    return job.asked_gpus.in_turn(found.num_devices() if job.device == CUDA else 1)


def _check_ranks(in_turn: tuple[int, ...], num_workers: int) -> None:
    """NCCL refuses two ranks on one device."""
    used = Counter(gpu_of(in_turn, "worker", worker) for worker in range(num_workers))
    device, ranks = used.most_common(1)[0]
    if ranks > 1:
        raise ConfigError(
            f"topology.collective=nccl: needs a device for each of {num_workers} workers, and {ranks} would be on "
            f"device {device}; use fewer workers, other {SETTING}.devices, or topology.collective=ring or gloo"
        )
