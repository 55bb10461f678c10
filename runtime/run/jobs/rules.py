"""Rules of sets of jobs, which share hosts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from injectors.arrivals.base import Submission
from injectors.plan import OF_MEMBERS, target_of
from runtime.cluster.hosts import parse_machines
from runtime.config.checking import show
from runtime.config.instantiate import TARGET, locate
from runtime.config.parse import ON_THIS_MACHINE, Config, Names
from runtime.config.rules import Rule
from runtime.core.collectives.known import Summing
from runtime.run.checks.facts import Facts
from runtime.run.checks.job import CheckedJob
from runtime.run.jobs.models import Model
from strategies.protocol import Policy, Prevention

CHANGING = ("Launch", "Retire")
"""Commands that change the number of nodes."""
UNDISTURBED = "none"
"""Name of the pattern that disturbs nobody."""
SPREAD = "spread"
"""``cluster.hosts.placement`` where nobody sets it."""


@dataclass(frozen=True, kw_only=True)
class SetFacts:
    """The configuration of a set of jobs."""

    config: Config
    policy: Policy
    real_time: bool
    """Whether it runs in wall-clock time."""

    @property
    def computes(self) -> bool:
        """Whether its jobs compute gradients."""
        return bool(locate(self.config.backend[TARGET]).computes)  # type: ignore[attr-defined]


def _without_gpus(jobs: SetFacts) -> bool:
    assert jobs.config.cluster.hosts is not None, "a rule above refuses it"
    return not any(host.gpus for host in parse_machines(jobs.config.cluster.hosts).hosts)


def _describe_placing(jobs: SetFacts) -> dict[str, object]:
    """How hosts place the tasks of one job, if a user says it."""
    where = (jobs.config.cluster.hosts or {}).get("placement", SPREAD)
    return {} if where == SPREAD else {"where": show(where)}


SETS: tuple[Rule[SetFacts], ...] = (
    Rule(
        "agents elsewhere and a set of jobs",
        lambda jobs: jobs.config.launcher != ON_THIS_MACHINE,
        "jobs={config.names.jobs}: sets of jobs share the hosts of this machine",
        "leave launcher={config.names.launcher} out, or start one job (jobs=none)",
    ),
    Rule(
        "live jobs that are only counted",
        lambda jobs: jobs.real_time and jobs.config.replay.detail != "iterations",
        "replay.detail={config.replay.detail}: counts seconds on the virtual clock, and runtime={config.names.runtime} "
        "trains every job",
        "use replay.detail=iterations, or runtime=virtual",
    ),
    Rule(
        "live jobs with the times of another model",
        lambda jobs: jobs.real_time and jobs.config.replay.stand_in,
        "replay.stand_in=true: gives a job the times of another model, and runtime={config.names.runtime} takes its "
        "own",
        "set it to false, or choose runtime=virtual",
    ),
    Rule(
        "live jobs without gradients",
        lambda jobs: jobs.real_time and not jobs.computes,
        "backend={config.names.backend}: computes no gradients, and runtime={config.names.runtime} needs them "
        "(jobs={config.names.jobs} chooses backend=none by default)",
        "choose backend=torch, or runtime=virtual",
    ),
    Rule(
        "a set of jobs without hosts",
        lambda jobs: (
            jobs.config.cluster.hosts is None
            and {"able": "hosts cluster.hosts.gpus=2" if jobs.real_time else "star_servers"}
        ),
        "cluster={config.names.cluster}: has no hosts that jobs could share (jobs={config.names.jobs})",
        "choose cluster={able}, or another one with cluster.hosts",
    ),
    Rule(
        "a set of jobs and the placement of one",
        _describe_placing,
        "cluster.hosts.placement={where}: places the tasks of one job; those of jobs={config.names.jobs} go where "
        "placement={config.names.placement} says",
        "leave it out",
    ),
    Rule(
        "live jobs with DDP and preemption",
        lambda jobs: jobs.real_time and jobs.policy.preempts and jobs.config.topology.collective == "ddp",
        "policy={config.names.policy}: preempts, and with topology.collective=ddp a job cannot continue after its "
        "replicas have ended",
        "choose topology.collective=ring, or a policy that does not preempt",
    ),
    Rule(
        "a set of jobs and another schedule than a ring",
        lambda jobs: not Summing(jobs.config.topology.collective or "", jobs.config.topology.blocks).is_ring,
        "topology.collective={config.topology.collective} topology.blocks={config.topology.blocks}: durations of "
        "jobs={config.names.jobs} are estimated for a ring",
        "use topology.collective=ring topology.blocks=1, or one job",
    ),
    Rule(
        "a set of jobs without GPUs",
        _without_gpus,
        "cluster.hosts.gpus=null: every worker of jobs={config.names.jobs} holds a GPU",
        "say how many each host has, or use cluster=star_servers",
    ),
    Rule(
        "a set of jobs and the speed of processors",
        lambda jobs: jobs.config.runtime.get("speeds"),
        "runtime.speeds: is by the seconds of one job, and jobs of jobs={config.names.jobs} begin at different times",
        "leave it out, or start one job (jobs=none)",
    ),
)
"""In the order in which they are looked at."""


@dataclass(frozen=True, kw_only=True)
class Modelled:
    """A job of a set, which may have the times of another model."""

    job: Facts
    submission: Submission
    model: Model | None
    """The model whose times are known."""
    workload: str
    """The workload that it would train."""
    stand_in: bool
    """``replay.stand_in``."""


MODELS: tuple[Rule[Modelled], ...] = (
    Rule(
        "gradients and a model of which only times are known",
        lambda one: one.model is not None and one.job.backend.computes and not one.stand_in,
        "backend={job.names.backend}: trains workload={workload}, and of model={submission.model} only times are known",
        "choose backend=none, replay.models=null, or replay.stand_in=true, which takes the times of the one and the "
        "gradients of the other",
    ),
    Rule(
        "the times of another model and jobs without a model",
        lambda one: one.stand_in and one.model is None,
        "replay.stand_in=true: the job names no model, so nothing represents another",
        "set it to false",
    ),
    Rule(
        "the times of another model without gradients",
        lambda one: one.stand_in and not one.job.backend.computes,
        "replay.stand_in=true: backend={job.names.backend} computes no gradients, so nothing represents another",
        "set it to false",
    ),
)
"""Before a job is shaped."""


def asks_for_nodes(job: CheckedJob) -> bool:
    """Whether its strategy changes the number of its nodes, which the set grants and takes back."""
    return any(command.__name__ in CHANGING for command in job.strategy.needs)


def _of_all(job: CheckedJob) -> dict[str, object]:
    """A disturbance of something that all jobs share."""
    for one in job.plan.disturbances:
        if one.kind in OF_MEMBERS or target_of(one.target).form not in ("worker", "server"):
            return {"kind": one.kind, "target": one.target}
    return {}


PLACES: tuple[Rule[CheckedJob], ...] = (
    Rule(
        "a set of jobs and replicas of the server",
        lambda job: job.strategy.replicas,
        "strategy.num_replicas={strategy.replicas}: a job of a set has the tasks for which the cluster gave it places",
        "use strategy.num_replicas=0",
    ),
    Rule(
        "a set of jobs and disturbances of what they share",
        _of_all,
        "straggler={written.names.straggler}: {kind} of {target}, which belongs to all jobs",
        "disturb workers or servers, or choose straggler=none",
    ),
)
"""A job has the tasks that the cluster gives places to, and disturbs nobody's machines."""


@dataclass(frozen=True, kw_only=True)
class InSet:
    """A job among the others of its set."""

    job: CheckedJob
    policy: Policy
    prevention: Prevention
    asks: bool
    """Whether a job of the set asks for room on hosts."""
    grows: bool
    """Whether a job of the set asks for nodes while it runs."""
    servers_on: str
    """Machines to which the placement restricts servers; ``any`` for a placement that does not."""

    @property
    def names(self) -> Names:
        """The choices of the config groups."""
        return self.job.written.names

    @property
    def asks_for_nodes(self) -> bool:
        """Whether this job does."""
        return asks_for_nodes(self.job)


IN_SET: tuple[Rule[InSet], ...] = (
    # a cluster gives places to workers and servers, and where a preempted job resumes its aggregators are not
    Rule(
        "preemption and aggregators",
        lambda one: one.policy.preempts and one.job.strategy.aggregators,
        "policy={names.policy}: preempts, and strategy={names.strategy} has aggregators on hosts, which would stay "
        "there",
        "set strategy.tree_fanout=null (of mlfabric num_aggregators=0), or choose a policy that does not preempt",
    ),
    Rule(
        "prevention where no job asks",
        lambda one: one.prevention.takes and not one.asks,
        "prevention={names.prevention}: no job asks for anything, so it has no effect",
        "use strategy=star_h strategy.prevent=true and replay.detail=iterations, or prevention=none",
    ),
    # by the choice: whether a pattern draws a disturbance in one job's time depends on the seed
    Rule(
        "disturbances and jobs that only hold their GPUs",
        lambda one: one.job.config.replay.detail == "gpus_only" and one.names.straggler != UNDISTURBED,
        "straggler={names.straggler}: slows nobody down with replay.detail=gpus_only, by which jobs only hold their "
        "GPUs",
        "use straggler=none, or replay.detail=iterations",
    ),
    Rule(
        "nodes asked for and jobs that only hold their GPUs",
        lambda one: one.asks_for_nodes and one.job.config.replay.detail == "gpus_only",
        "strategy={names.strategy}: asks for nodes as it trains, and with replay.detail=gpus_only no job does",
        "use replay.detail=iterations",
    ),
    # a preempted job gives all its places back, and the record of grants has no place for a job that waits
    Rule(
        "nodes asked for and preemption",
        lambda one: one.asks_for_nodes and one.policy.preempts,
        "policy={names.policy}: preempts jobs, and strategy={names.strategy} gives single nodes back",
        "choose policy=fifo, backfill or sjf",
    ),
    Rule(
        "nodes asked for and servers on machines of one kind",
        lambda one: one.asks_for_nodes and one.servers_on != "any",
        "placement.servers_on={servers_on}: servers that strategy={names.strategy} asks for go where cores are left",
        "use placement.servers_on=any",
    ),
    Rule(
        "a Brain that dies where no job asks",
        lambda one: one.job.config.replay.brain_away_s is not None and not one.grows,
        "replay.brain_away_s={job.config.replay.brain_away_s}: no job asks for nodes, so it has no effect",
        "use strategy=dlrover, or null",
    ),
)
"""When all jobs are known."""

SECTIONS: dict[str, tuple[Rule[Any], ...]] = {
    "Sets of jobs": SETS,
    "Jobs of a set by themselves": MODELS,
    "Jobs of a set and their places": PLACES,
    "Jobs of a set among the others": IN_SET,
}
"""Rules by their subject, as the page shows them."""
