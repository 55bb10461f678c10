"""Rules of sets of jobs, which share hosts."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.config.checking import show
from runtime.config.instantiate import TARGET, locate
from runtime.config.parse import ON_THIS_MACHINE, Config
from runtime.config.rules import Rule
from strategies.protocol import Policy

SPREAD = "spread"
"""``cluster.hosts.placement`` where nobody sets it."""


@dataclass(frozen=True, kw_only=True)
class SetFacts:
    """The configuration of a set of jobs."""

    config: Config
    policy: Policy
    real_time: bool
    """Whether its time is that of this machine."""

    @property
    def computes(self) -> bool:
        """Whether its jobs compute gradients."""
        return bool(locate(self.config.backend[TARGET]).computes)  # type: ignore[attr-defined]


def _placed(jobs: SetFacts) -> dict[str, object]:
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
        _placed,
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
)
"""In the order in which they are looked at."""
