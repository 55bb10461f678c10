"""Whether the norms of updates, from which a strategy estimates the gradient noise scale, mean anything in a job."""

from __future__ import annotations

from typing import Any

from runtime.config.parse import Config
from runtime.errors import ConfigError
from runtime.training.optimizers import rule_named
from strategies.protocol import Strategy


def check_measuring(strategy: Strategy, backend: Any, config: Config) -> None:
    """Check that a strategy that measures updates has gradients of the workers to compare them with."""
    if not strategy.measures:
        return
    asking = f"strategy={config.names.strategy} measures the gradient noise scale"
    if not backend.computes:
        raise ConfigError(
            f"backend={config.names.backend}: computes no gradients, and {asking}; choose a backend that does, or give "
            "the strategy a noise scale"
        )
    if config.topology.collective == "ddp":
        raise ConfigError(
            f"topology.collective=ddp: workers report the norm of the mean instead of their own, and {asking}; use "
            "topology.collective=ring"
        )
    if not _steps_along_gradients(name := config.workload.optimizer["name"]):
        raise ConfigError(
            f"workload.optimizer.name={name}: steps along gradients that are scaled on the servers, whose norms nobody "
            f"knows, and {asking}; use workload.optimizer.name=sgd, or give the strategy a noise scale"
        )


def _steps_along_gradients(name: str) -> bool:
    """Whether an optimizer does; one that does not exist is refused with all optimizers like it."""
    try:
        return rule_named(name).along_gradients
    except ValueError:
        return True
