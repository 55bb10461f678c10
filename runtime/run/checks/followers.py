"""What a job with replicas of its server must be like; everything else is refused before it starts."""

from __future__ import annotations

from typing import Any

from runtime.config.parse import Config
from runtime.errors import ConfigError
from strategies.protocol import Strategy

FOLLOWED = ("sgd", "tally")
"""Optimizers whose updates are bounded by norms of gradients."""


def check_replicas(strategy: Strategy, backend: Any, config: Config) -> None:
    """Refuse replicas where their distance from the server cannot be bounded, or where they would not help."""
    if not strategy.replicas:
        return
    setting = f"strategy.num_replicas={strategy.replicas}"
    servers, optimizer = config.topology.num_servers, config.workload.optimizer
    if servers != 1:
        raise ConfigError(
            f"topology.num_servers={servers}: {setting} takes the place of one server that holds all parameters; use "
            "topology.num_servers=1"
        )
    if not backend.computes:
        raise ConfigError(
            f"backend={config.names.backend}: computes no gradients, whose norms bound how far replicas are; choose "
            "backend=torch, or strategy.num_replicas=0"
        )
    if config.failover == "checkpoint":
        raise ConfigError(
            f"failover=checkpoint: all read a checkpoint after a loss, so {setting} would take over nothing; use "
            "failover=shards"
        )
    _check_step(setting, optimizer, config.workload.lr_schedule)


def _check_step(setting: str, optimizer: dict[str, Any], schedule: dict[str, Any]) -> None:
    name = optimizer["name"]
    if name not in FOLLOWED:
        raise ConfigError(
            f"workload.optimizer.name={name}: {setting} needs steps that norms of gradients bound; use "
            "workload.optimizer.name=sgd"
        )
    for field, neutral in (("weight_decay", 0), ("nesterov", False)):
        if optimizer.get(field) not in (None, neutral):
            raise ConfigError(
                f"workload.optimizer.{field}={optimizer[field]}: {setting} needs steps that norms of gradients bound; "
                f"leave it out"
            )
    for field in ("gamma", "start_frac", "end_frac"):
        if isinstance(rate := schedule.get(field), int | float) and rate > 1:  # check_rules refuses others
            raise ConfigError(
                f"workload.lr_schedule.{field}={rate}: raises the learning rate, and {setting} bounds steps "
                "by the configured one; use at most 1, and a higher workload.optimizer.lr"
            )
