"""The facts of one job that decide whether its settings fit together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from runtime.api import Runtime
from runtime.backends.devices.choice import CPU
from runtime.cluster.gpus import Gpus, parse_gpus
from runtime.config.parse import ON_THIS_MACHINE, Config, Names, Topology, Workload
from strategies.protocol import Strategy


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The configuration of a job and the objects that it names; no fact of the machine."""

    config: Config
    strategy: Strategy
    backend: Any
    runtime: Runtime
    task: Any

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

    @cached_property
    def gpus(self) -> Gpus:
        """The section ``cluster.gpus``; raises ``ConfigError``."""
        return parse_gpus(self.config.cluster.gpus)

    @property
    def elsewhere(self) -> bool:
        """Whether agents on other machines run the tasks."""
        return self.config.launcher != ON_THIS_MACHINE


def device_of(backend: Any) -> str:
    """Where a backend computes gradients."""
    return str(getattr(backend, "device", CPU))
