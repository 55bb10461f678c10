"""The Brain: stages of a job, observations in, one change at a time out (DLRover sections 4.2, 4.3 and 6.1; pure).

The caller carries a decision out and calls ``settled`` when it has succeeded or failed; until then, and for
``min_interval_s`` after, nothing is decided. Only a worker that was out of memory is replaced at once; a server's
relief only waits for the change in progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import final

from reading.ranges import NonNegativeFloat, PositiveFloat, PositiveInt
from strategies.dlrover.adjust import Growth, JobNow, Rules, adjust, worker_memory
from strategies.dlrover.history import InitialPlan
from strategies.dlrover.plan import Limits, Need, Plan, is_enough, optimal_plan, planned_workers, whole_cores
from strategies.dlrover.used import after_server_oom, after_worker_oom, larger_servers, measured_need
from strategies.parts.scaling.changes import Change, Decision, Replace, Resize
from strategies.parts.scaling.usage import Given, UsageHistory, Use
from strategies.protocol import NodeId


@dataclass(kw_only=True)
class BrainSettings(Limits, Rules):
    """A job's limits, when it is adjusted, how long the Brain samples, and how often it looks.

    The defaults are the paper's, but for ``adjust_every_s`` and ``ps_interval_s``, which it does not give.

    Attributes:
        sample_s: seconds after which a sample is complete, or after ``sample_steps`` updates (60 s, 100).
        sample_steps: ... or steps, whichever is earlier ("more than 100 global steps").
        adjust_every_s: seconds between two looks at a running job.
        ps_interval_s: seconds between two changes of servers by these looks; workers are cheaper (section 3.1).
        min_interval_s: seconds from the end of one change to the next (section 6.1: "at least 60s").
    """

    sample_s: PositiveFloat = 60.0
    sample_steps: PositiveInt = 100
    adjust_every_s: PositiveFloat = 180.0
    ps_interval_s: NonNegativeFloat = 600.0
    min_interval_s: NonNegativeFloat = 60.0


MOST_SAMPLES = 3
"""Samples, with more cores for hot servers each time, or denied plans, before the job continues with what it has."""
CREATE = "create"
"""The rule of the first nodes."""
MOST_DOUBLINGS = 3
"""The wait stops growing at 8 times the first one: 48 minutes with the settings of the paper."""


@final
class Backoff:
    """A denied rule waits ``first_s``, and twice as long after every further denial; all others are followed as ever.

    The paper does not say what its Brain does on a full cluster. Asked at every look, the same change would be denied
    at every look.
    """

    def __init__(self, first_s: float) -> None:
        self.first_s = first_s
        self._denials: dict[str, int] = {}
        self._again_s: dict[str, float] = {}

    def waiting(self, t: float) -> frozenset[str]:
        """Rules that are not followed yet."""
        return frozenset(rule for rule, again_s in self._again_s.items() if t < again_s)

    def note_denial(self, rule: str, t: float) -> None:
        """Its change was denied at time ``t``."""
        times = self._denials.get(rule, 0)
        self._again_s[rule] = t + self.first_s * 2 ** min(times, MOST_DOUBLINGS)
        self._denials[rule] = times + 1

    def forget(self) -> None:
        """The cluster gave something, or took something back: earlier denials no longer count."""
        self._denials.clear()
        self._again_s.clear()


class Stage(StrEnum):
    """The purpose for which a job's resources are changed."""

    CREATE = "create"
    """The first nodes start."""
    SAMPLE = "sample"
    """One worker (after a hot start: all present workers) shows its use and the servers'."""
    OPTIMISE_SERVERS = "optimise servers"
    """The planned servers take the parameters over."""
    OPTIMISE_WORKERS = "optimise workers"
    """The cores that a worker uses with these servers are measured, then the other workers are added."""
    ADJUST = "adjust"
    """Rules look for problems, every now and then."""


class Step(StrEnum):
    """The outcome of a look at the job: it may end the stage."""

    GRANTED = "granted"
    """The change of this stage has been carried out."""
    DENIED = "denied"
    """It was not, and everything is as before."""
    PLANNED = "planned"
    """The plan wants other servers."""
    KEPT = "kept"
    """Nothing has to change in this stage."""
    UNSUITABLE = "unsuitable"
    """No plan fits what was measured."""


TABLE: Mapping[Stage, Mapping[Step, Stage]] = {
    Stage.CREATE: {Step.GRANTED: Stage.SAMPLE, Step.DENIED: Stage.CREATE},
    Stage.SAMPLE: {
        Step.GRANTED: Stage.SAMPLE,
        Step.DENIED: Stage.SAMPLE,
        Step.PLANNED: Stage.OPTIMISE_SERVERS,
        Step.KEPT: Stage.OPTIMISE_WORKERS,
        Step.UNSUITABLE: Stage.ADJUST,
    },
    Stage.OPTIMISE_SERVERS: {Step.GRANTED: Stage.OPTIMISE_WORKERS, Step.DENIED: Stage.SAMPLE},
    Stage.OPTIMISE_WORKERS: {
        Step.GRANTED: Stage.ADJUST,
        Step.DENIED: Stage.ADJUST,
        Step.KEPT: Stage.ADJUST,
        Step.UNSUITABLE: Stage.ADJUST,
    },
    Stage.ADJUST: {Step.GRANTED: Stage.ADJUST, Step.DENIED: Stage.ADJUST},
}


@final
class Brain:
    """Decides about one job.

    Args:
        settings: of its resources.
        iterations: steps that the job takes in all; None: not known.
        initial: its first nodes, from earlier jobs; None: with the nodes that it has.
    """

    def __init__(self, settings: BrainSettings, iterations: int | None, initial: InitialPlan | None = None) -> None:
        self.settings, self.iterations = settings, iterations
        self.stage = Stage.SAMPLE if initial is None else Stage.CREATE
        self.under_way: tuple[Change, ...] = ()
        self.update_cores = 0.0
        self._initial = initial
        self._usage = UsageHistory()
        self._peak_bytes, self._idle_s = dict[NodeId, int](), dict[NodeId, float]()
        self._out_of_memory = dict[NodeId, dict[NodeId, Given]]()
        self._of_stage = True
        self._steps = self._steps_before = self._enlarged = self._denied = 0
        self._since_s = self._settled_s = self._servers_s = self._looked_s = 0.0 if initial is None else -inf
        self._plan: Plan | None = None
        self._growth: Growth | None = None
        self._backoff, self._rule = Backoff(2 * settings.adjust_every_s), ""

    # ---- what happens ------------------------------------------------------------------------------------------------

    def observe(
        self,
        given: Mapping[NodeId, Given],
        uses: Mapping[NodeId, Use],
        steps: int,
        idle_s: Mapping[NodeId, float] | None = None,
    ) -> None:
        """Take what the nodes present since the last observation used; ``steps`` the job has taken so far.

        ``idle_s``: seconds since each worker's last progress.
        """
        self._usage.observe(given, uses)
        for node in given:
            self._peak_bytes[node] = max(self._peak_bytes.get(node, 0), uses[node].memory_bytes)
        self._steps, self._idle_s = steps, dict(idle_s or {})

    def out_of_memory(self, node: NodeId, given: Mapping[NodeId, Given]) -> None:
        """This node was killed for want of memory, perhaps again; ``given``: resources of all nodes, with it."""
        self._out_of_memory[node] = dict(given)

    @property
    def lacks_worker(self) -> bool:
        """Whether a worker was out of memory and its replacement is still to be decided."""
        return any(node.role == "worker" for node in self._out_of_memory)

    def still_there(self, given: Mapping[NodeId, Given]) -> None:
        """Forget servers that were out of memory and are replaced since; update what the others have."""
        self._out_of_memory = {
            node: then if node.role == "worker" else dict(given)
            for node, then in self._out_of_memory.items()
            if node.role == "worker" or node in given
        }

    def settle(self, t: float, granted: bool = True) -> None:
        """The last decision is carried out; or it was denied or given up, and everything is as before."""
        if not self.under_way:
            raise RuntimeError("nothing was decided that could have been settled")
        changes, self.under_way = self.under_way, ()
        if granted and _concerns_servers(changes):
            self._servers_s, self._growth = t, None
        if granted and _resizes_servers(changes):  # a server that was killed before holds other parameters now
            self._out_of_memory = {node: then for node, then in self._out_of_memory.items() if node.role == "worker"}
        if granted:
            self._backoff.forget()
        elif self._of_stage:
            self._backoff.note_denial(self._rule, t)
        if self._of_stage:
            self._denied += self.stage == Stage.OPTIMISE_SERVERS and not granted
            self.stage = TABLE[self.stage][Step.GRANTED if granted else Step.DENIED]
        self._settled_s = self._looked_s = self._since_s = t
        self._steps_before = self._steps
        self._usage.forget()

    # ---- what is decided ---------------------------------------------------------------------------------------------

    def decide(self, t: float) -> Decision | None:
        """The decision that is due now, if any; a decision without changes only says why everything stays."""
        node = self._next_relief()
        if node is not None:
            return self._after_oom(t, node, self._out_of_memory.pop(node))
        if self.under_way or t < self._settled_s + self.settings.min_interval_s:
            return None
        match self.stage:
            case Stage.CREATE if self._initial is not None and CREATE not in self._backoff.waiting(t):
                return self._create(t, self._initial)
            case Stage.SAMPLE if self._is_sampled(t):
                return self._optimise_servers(t)
            case Stage.OPTIMISE_WORKERS if t >= self._since_s + self.settings.sample_s:
                return self._optimise_workers(t)
            case Stage.ADJUST if self._usage.complete and t >= self._looked_s + self.settings.adjust_every_s:
                return self._adjust(t)
        return None

    def _change(
        self, t: float, rule: str, changes: tuple[Change, ...], numbers: dict[str, float], why: str = ""
    ) -> Decision:
        """A change of this stage."""
        self.under_way, self._of_stage, self._rule = changes, True, rule
        return Decision(t=t, stage=self.stage, rule=rule, changes=changes, numbers=numbers, why=why)

    def _stays(self, t: float, step: Step, rule: str, numbers: dict[str, float], why: str) -> Decision:
        """The stage ends without a change."""
        stage, self.stage = self.stage, TABLE[self.stage][step]
        self._looked_s = t
        return Decision(t=t, stage=stage, rule=rule, numbers=numbers, why=why)

    def _create(self, t: float, plan: InitialPlan) -> Decision:
        servers = Resize(role="server", count=plan.servers, cores=plan.server_cores, memory_bytes=plan.server_bytes)
        workers = Resize(role="worker", count=plan.workers, cores=plan.worker_cores, memory_bytes=plan.worker_bytes)
        return self._change(t, CREATE, (servers, workers), {"cores": plan.cores}, plan.source)

    def _is_sampled(self, t: float) -> bool:
        late = t >= self._since_s + self.settings.sample_s
        return late or self._steps - self._steps_before >= self.settings.sample_steps

    def _need(self) -> Need | None:
        return measured_need(self._usage) if self._usage.complete else None

    def _optimise_servers(self, t: float) -> Decision | None:
        need, settings = self._need(), self.settings
        if need is None:
            return None
        numbers: dict[str, float] = {"worker_cores_used": need.worker_cores, "update_cores": need.update_cores}
        larger = larger_servers(self._usage, settings, settings.hot_util)
        if larger is not None and self._enlarged < MOST_SAMPLES:
            self._enlarged += 1
            return self._change(t, "hot sample", (larger,), numbers)
        self.update_cores = need.update_cores
        try:
            self._plan = plan = optimal_plan(need, settings)
        except ValueError as error:
            return self._stays(t, Step.UNSUITABLE, "plan", numbers, str(error))
        servers = [self._usage.given[one] for one in self._usage.nodes("server")]
        enough = is_enough(plan, [one.cores for one in servers], settings)
        if enough or self._denied >= MOST_SAMPLES:
            self.stage = TABLE[self.stage][Step.KEPT]
            return self._optimise_workers(t)
        self.stage = TABLE[self.stage][Step.PLANNED]
        numbers |= {"workers": plan.workers, "worker_cores": plan.worker_cores, "servers": plan.servers}
        memory_bytes = max(one.memory_bytes for one in servers)
        change = Resize(role="server", count=plan.servers, cores=plan.server_cores, memory_bytes=memory_bytes)
        return self._change(t, "plan", (change, *self._resize_sample(plan)), numbers)

    def _resize_sample(self, plan: Plan) -> tuple[Change, ...]:
        """The workers of the sample get the planned cores, so that their use with these is measured."""
        given = [self._usage.given[one] for one in self._usage.nodes("worker")]
        if all(one.cores == plan.worker_cores for one in given):
            return ()
        memory_bytes = max(one.memory_bytes for one in given)
        return (Resize(role="worker", count=len(given), cores=plan.worker_cores, memory_bytes=memory_bytes),)

    def _optimise_workers(self, t: float) -> Decision | None:
        need, plan, limits = self._need(), self._plan, self.settings
        if need is None or plan is None:
            return None
        need = Need(worker_cores=need.worker_cores, update_cores=self.update_cores)
        server_cores = sum(self._usage.given[one].cores for one in self._usage.nodes("server"))
        numbers: dict[str, float] = {
            "worker_cores_used": need.worker_cores,
            "update_cores": need.update_cores,
            "server_cores": server_cores,
        }
        try:
            count, cores = planned_workers(need, plan.workers, server_cores, limits), whole_cores(need, limits)
        except ValueError as error:
            return self._stays(t, Step.UNSUITABLE, "workers", numbers, str(error))
        numbers |= {"workers": count, "worker_cores": cores}
        if [self._usage.given[one].cores for one in self._usage.nodes("worker")] == [cores] * count:
            return self._stays(t, Step.KEPT, "workers", numbers, "as planned")
        memory_bytes = worker_memory(self._usage)
        change = Resize(role="worker", count=count, cores=cores, memory_bytes=memory_bytes)
        return self._change(t, "workers", (change,), numbers)

    def _adjust(self, t: float) -> Decision | None:
        self._looked_s = t
        now = JobNow(
            usage=self._usage,
            update_cores=self.update_cores,
            limits=self.settings,
            iterations=self.iterations,
            idle_s=self._idle_s,
            growth=self._growth,
        )
        found = adjust(now, self.settings, self._backoff.waiting(t))
        if found is None:
            return None
        wait_s = self._servers_s + self.settings.ps_interval_s - t
        if _concerns_servers(found.changes) and wait_s > 0:
            why = f"servers may change again in {wait_s:.3g} s"
            return Decision(t=t, stage=self.stage, rule=found.rule, numbers=found.numbers, why=why)
        if found.update_cores is not None:
            self.update_cores = found.update_cores
            workers = len(self._usage.nodes("worker"))
            self._growth = Growth(workers=workers, server_cores_used=found.update_cores * workers)
        return self._change(t, found.rule, found.changes, found.numbers)

    def _next_relief(self) -> NodeId | None:
        """Which node that was out of memory is relieved now: a worker at once, a server if nothing is under way."""
        node = min(self._out_of_memory, key=lambda one: one.role != "worker", default=None)
        return None if node is None or (node.role == "server" and self.under_way) else node

    def _after_oom(self, t: float, node: NodeId, given: dict[NodeId, Given]) -> Decision:
        """Only another number of servers is a change that all others wait for."""
        own, change = given[node], self._relief(node, given)
        if isinstance(change, Resize):
            self.under_way, self._of_stage = (change,), False
        numbers: dict[str, float] = {"memory_bytes": own.memory_bytes}
        return Decision(t=t, stage=self.stage, rule="out of memory", changes=(change,), numbers=numbers)

    def _relief(self, node: NodeId, given: dict[NodeId, Given]) -> Replace | Resize:
        own = given[node]
        if node.role == "worker":
            return after_worker_oom(node, own)
        sampling = self.stage in (Stage.CREATE, Stage.SAMPLE)
        return after_server_oom(node, given, self._peak_bytes, sampling, self.settings)


def _concerns_servers(changes: tuple[Change, ...]) -> bool:
    """Whether parameters would have to move."""
    replaced = any(isinstance(one, Replace) and one.node.role == "server" for one in changes)
    return replaced or _resizes_servers(changes)


def _resizes_servers(changes: tuple[Change, ...]) -> bool:
    """Whether the parameters would be divided otherwise: a server takes the same part as the one that it replaces."""
    return any(isinstance(one, Resize) and one.role == "server" for one in changes)
