"""Checks of disturbances of kind ``gpu``."""

from __future__ import annotations

from typing import Any

from injectors.plan import Plan
from runtime.api import Runtime
from runtime.backends.devices import found
from runtime.backends.devices.choice import CPU, CUDA
from runtime.cluster.gpu_hogs import GPU, DeviceUsers, refuse_hogs, turns_alike
from runtime.cluster.gpus import parse_gpus
from runtime.cluster.hosts import parse_hosts
from runtime.config.parse import ON_THIS_MACHINE, Config
from runtime.errors import ConfigError
from runtime.run.checks.devices import device_of


def check_hogs(
    plan: Plan, runtime: Runtime, backend: Any, config: Config, gpus: tuple[int, ...], replicas: int = 0
) -> None:
    """Check that a part of devices can be taken as planned; raises :class:`ConfigError`.

    On a virtual clock a worker without a device has one of its own: its times are those of the cost model, whatever
    computes its gradients.
    """
    asked = [(one.target, one.magnitude) for one in plan.disturbances if one.kind == GPU]
    if not asked:
        return
    if runtime.real_time and config.launcher != ON_THIS_MACHINE:
        raise ConfigError(
            f"straggler={config.names.straggler}: kind gpu is carried out on this machine only; leave "
            f"launcher={config.names.launcher} out, or choose another straggler"
        )
    if runtime.real_time and not gpus:
        raise ConfigError(
            f"straggler={config.names.straggler}: kind gpu takes a part of a GPU, and backend.device={CPU} computes on "
            "none; set backend.device=cuda (fake, where there is none), or choose kind cpu"
        )
    if runtime.real_time and device_of(backend) == CUDA and found.torch_cuda() is None:
        raise ConfigError(
            f"straggler={config.names.straggler}: what takes a part of a GPU computes with torch, and the installed "
            "one was built without CUDA; install a build with it, or choose another straggler"
        )
    hosts = config.cluster.hosts
    parsed = None if hosts is None else parse_hosts(hosts, config.num_workers, config.topology.num_servers + replicas)
    where = {} if parsed is None else {task: f"host:{number}" for task, number in parsed.host_of.items()}
    users = DeviceUsers(gpus or tuple(range(config.num_workers)), config.num_workers, where.get)
    device, mps = device_of(backend), parse_gpus(config.cluster.gpus).share == "mps"
    refuse_hogs(asked, users, alike=turns_alike(device, mps=mps) or not runtime.real_time)
