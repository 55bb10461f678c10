"""Rules of strategies that measure, score or keep replicas, and so need more of a job than others."""

from __future__ import annotations

from runtime.config.rules import Rule
from runtime.run.checks.facts import Facts
from runtime.training.optimizers import rule_named
from strategies.protocol import Partition, StepAlone

FOLLOWED = ("sgd", "tally")
"""Optimizers whose updates are bounded by norms of gradients."""
NEUTRAL = {"weight_decay": (None, 0), "nesterov": (None, False)}
"""Values with which these fields of an optimizer keep its steps within the bound."""
RATES = ("gamma", "start_frac", "end_frac")
"""Fields of schedules that multiply the learning rate."""


def _unbounded(job: Facts) -> dict[str, object]:
    """A field of the optimizer with which norms of gradients do not bound its steps."""
    fields = job.workload.optimizer
    wrong = [name for name, neutral in NEUTRAL.items() if fields.get(name) not in neutral]
    return {"field": wrong[0], "value": fields[wrong[0]]} if wrong and job.strategy.replicas else {}


def _rising(job: Facts) -> dict[str, object]:
    """A field of the schedule that raises the learning rate."""
    rates = {name: job.workload.lr_schedule.get(name) for name in RATES}
    wrong = [(name, rate) for name, rate in rates.items() if isinstance(rate, int | float) and rate > 1]
    return dict(zip(("field", "value"), wrong[0], strict=True)) if wrong and job.strategy.replicas else {}


def _steps_along_gradients(name: str) -> bool:
    """Whether an optimizer does; one that does not exist is refused with all optimizers like it."""
    try:
        return rule_named(name).along_gradients
    except ValueError:
        return True


STRATEGIES: tuple[Rule[Facts], ...] = (
    Rule(
        "scores of gradients without gradients",
        lambda job: job.strategy.validation_samples and not job.backend.computes,
        "backend={names.backend}: computes no gradients, and strategy={names.strategy} scores them",
        "choose backend=torch, or another that computes gradients",
    ),
    Rule(
        "the gradient noise scale without gradients",
        lambda job: job.strategy.measures and not job.backend.computes,
        "backend={names.backend}: computes no gradients, and strategy={names.strategy} measures the gradient noise "
        "scale",
        "choose a backend that does, or give the strategy a noise scale",
    ),
    Rule(
        "the gradient noise scale and DDP",
        lambda job: job.strategy.measures and job.topology.collective == "ddp",
        "topology.collective=ddp: workers report the norm of the mean instead of their own, and "
        "strategy={names.strategy} measures the gradient noise scale",
        "use topology.collective=ring",
    ),
    Rule(
        "the gradient noise scale and an optimizer that scales gradients",
        lambda job: job.strategy.measures and not _steps_along_gradients(job.workload.optimizer["name"]),
        "workload.optimizer.name={workload.optimizer[name]}: steps along gradients that are scaled on the servers, "
        "whose norms nobody knows, and strategy={names.strategy} measures the gradient noise scale",
        "use workload.optimizer.name=sgd, or give the strategy a noise scale",
    ),
    Rule(
        "own steps and a progress model",
        lambda job: StepAlone in job.strategy.needs and job.config.backend.get("progress") is not None,
        "backend.progress={config.backend[progress]}: was fitted to updates by gradients, and workers of "
        "strategy={names.strategy} step parameters of their own",
        "choose backend=torch, or backend.progress=null",
    ),
    Rule(
        "replicas of several servers",
        lambda job: job.strategy.replicas and job.topology.num_servers != 1,
        "topology.num_servers={topology.num_servers}: strategy.num_replicas={strategy.replicas} takes the place of one "
        "server that holds all parameters",
        "use topology.num_servers=1",
    ),
    Rule(
        "replicas of the server without gradients",
        lambda job: job.strategy.replicas and not job.backend.computes,
        "backend={names.backend}: computes no gradients, whose norms bound how far replicas are",
        "choose backend=torch, or strategy.num_replicas=0",
    ),
    Rule(
        "replicas of the server and checkpoints",
        lambda job: job.strategy.replicas and job.config.failover == "checkpoint",
        "failover=checkpoint: all read a checkpoint after a loss, so strategy.num_replicas={strategy.replicas} would "
        "take over nothing",
        "use failover=shards",
    ),
    Rule(
        "whole shards without servers",
        lambda job: job.config.failover == "whole_shards" and not job.topology.num_servers,
        "failover=whole_shards: is for jobs with parameter servers, and topology={topology.name} has none",
        "use failover=shards, or topology=ps",
    ),
    Rule(
        "whole shards without a queue of shards",
        lambda job: job.config.failover == "whole_shards" and job.strategy.data == "even",
        "failover=whole_shards: repeats shards that a lost worker drew from a queue, and strategy.data=even has static "
        "parts",
        "use failover=shards",
    ),
    Rule(
        "whole shards and parts of a round",
        lambda job: job.config.failover == "whole_shards" and Partition in job.strategy.needs,
        "failover=whole_shards: repeats shards that a lost worker drew from a queue, and workers of "
        "strategy={names.strategy} draw none: they share the samples of a round",
        "use failover=shards",
    ),
    Rule(
        "replicas of the server and an optimizer without a bound",
        lambda job: job.strategy.replicas and job.workload.optimizer["name"] not in FOLLOWED,
        "workload.optimizer.name={workload.optimizer[name]}: strategy.num_replicas={strategy.replicas} needs steps "
        "that norms of gradients bound",
        "use workload.optimizer.name=sgd",
    ),
    Rule(
        "replicas of the server and steps without a bound",
        _unbounded,
        "workload.optimizer.{field}={value}: strategy.num_replicas={strategy.replicas} needs steps that norms of "
        "gradients bound",
        "leave it out",
    ),
    Rule(
        "replicas of the server and a rising learning rate",
        _rising,
        "workload.lr_schedule.{field}={value}: raises the learning rate, and strategy.num_replicas={strategy.replicas} "
        "bounds steps by the configured one",
        "use at most 1, and a higher workload.optimizer.lr",
    ),
)
"""In the order in which they are looked at."""
