"""The facts of one job that decide whether its settings fit together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.api import Runtime
from runtime.backends.devices.choice import CPU
from runtime.cluster.gpus import Gpus, parse_gpus
from runtime.config.instantiate import instantiate
from runtime.config.parse import ON_THIS_MACHINE, Config, Names, Topology, Workload
from runtime.core.scheduling import Scheduler
from strategies.protocol import Strategy


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The configuration of a job and the objects that it names; no fact of the machine."""

    config: Config
    """The configuration with absolute paths."""
    strategy: Strategy
    task: Any
    backend: Any
    runtime: Runtime
    scheduler: Scheduler

    @property
    def names(self) -> Names:
        """The choices of the config groups."""
        return self.config.names

    @property
    def topology(self) -> Topology:
        """Where the parameters are held."""
        return self.config.topology

    @property
    def workload(self) -> Workload:
        """The model, the data and the length of training."""
        return self.config.workload

    @property
    def device(self) -> str:
        """The device that computes gradients."""
        return device_of(self.backend)

    @property
    def asked_gpus(self) -> Gpus:
        """The section ``cluster.gpus``; raises ``ConfigError``."""
        return parse_gpus(self.config.cluster.gpus)

    @property
    def elsewhere(self) -> bool:
        """Whether agents on other machines run the tasks."""
        return self.config.launcher != ON_THIS_MACHINE


def facts_of(config: Config) -> Facts:
    """Build what the configuration names; raises ``ConfigError``."""
    return Facts(
        config=config,
        strategy=instantiate(config.strategy, "strategy"),
        task=instantiate(config.workload.task, "workload.task"),
        backend=instantiate(config.backend, "backend"),
        runtime=instantiate(config.runtime, "runtime", cluster=config.cluster),
        scheduler=instantiate(config.scheduler, "scheduler"),
    )


def device_of(backend: Any) -> str:
    """Where a backend computes gradients."""
    return str(getattr(backend, "device", CPU))
