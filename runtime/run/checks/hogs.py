"""Rules and checks of disturbances of kind ``gpu``."""

from __future__ import annotations

from injectors.plan import Plan
from runtime.backends.devices import found
from runtime.backends.devices.choice import CPU, CUDA
from runtime.cluster.gpu_hogs import GPU, DeviceUsers, refuse_hogs, turns_alike
from runtime.cluster.hosts import parse_hosts
from runtime.config.rules import Rule, check_combinations
from runtime.errors import ConfigError
from runtime.run.checks.facts import Facts

HOGS: tuple[Rule[Facts], ...] = (
    Rule(
        "a part of a GPU and agents elsewhere",
        lambda job: job.runtime.real_time and job.elsewhere,
        "straggler={names.straggler}: kind gpu is carried out on this machine only",
        "leave launcher={names.launcher} out, or choose another straggler",
    ),
    Rule(
        "a part of a GPU and a backend on the CPU",
        lambda job: job.runtime.real_time and job.device == CPU,
        "straggler={names.straggler}: kind gpu takes a part of a GPU, and backend.device=cpu computes on none",
        "set backend.device=cuda (fake, where there is none), or choose kind cpu",
    ),
)
"""Rules of jobs whose plan takes a part of a GPU."""


def check_hogs(job: Facts, plan: Plan, gpus: tuple[int, ...]) -> None:
    """Check that a part of devices can be taken as planned; raises :class:`ConfigError`.

    On a virtual clock a worker without a device has one of its own: the cost model gives its times for every backend.
    """
    asked = [(one.target, one.magnitude) for one in plan.disturbances if one.kind == GPU]
    if not asked:
        return
    check_combinations(HOGS, job)
    config, real_time = job.config, job.runtime.real_time
    if real_time and job.device == CUDA and found.torch_cuda() is None:
        raise ConfigError(
            f"straggler={config.names.straggler}: what takes a part of a GPU computes with torch, and the installed "
            "one was built without CUDA; install a build with it, or choose another straggler"
        )
    hosts, servers = config.cluster.hosts, config.topology.num_servers + job.strategy.replicas
    parsed = None if hosts is None else parse_hosts(hosts, config.num_workers, servers)
    where = {} if parsed is None else {task: f"host:{number}" for task, number in parsed.host_of.items()}
    users = DeviceUsers(gpus or tuple(range(config.num_workers)), config.num_workers, where.get)
    alike = turns_alike(job.device, mps=job.asked_gpus.share == "mps") or not real_time
    refuse_hogs(asked, users, alike=alike)
