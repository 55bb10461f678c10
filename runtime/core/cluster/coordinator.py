"""The automaton of a cluster: reports of a runtime in, orders to it out (pure).

It keeps the books, asks the policy after every report, holds the answer against the laws, and writes the record of the
cluster. Times are seconds of the cluster's clock. Its notes, in the order in which a job can meet them:

- ``Submitted``: the fields of the :class:`strategies.protocol.JobRequest`;
- ``Queued`` (``job``, ``attained_s``): it waits, since it did not start at once or has given its GPUs back;
- ``Placed`` (``job``, ``workers``, ``servers``: numbers of machines; ``starts``: before this one): it holds its GPUs;
- ``Started`` (``job``): its tasks compute;
- ``Moved`` (``job``, ``task``, ``host``): one of its tasks, which its strategy restarts, is on another machine now;
- ``Preempted`` (``job``): it was ordered to give its GPUs back; ``Queued`` follows when they are free;
- ``Ended`` (``job``, ``status``, ``attained_s``): it is over, and its GPUs are free.

Where strategies ask for nodes, :mod:`runtime.core.cluster.brain` answers, with notes of its own.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import assert_never

from msgspec.structs import asdict, replace

from runtime.core.cluster.brain.executor import Elasticity, Executor
from runtime.core.cluster.brain.grants import Task
from runtime.core.cluster.checks import problem_of
from runtime.core.cluster.inputs import (
    AnyInput,
    JobEnded,
    JobGone,
    JobStarted,
    JobSubmitted,
    NodeInput,
    TaskMoved,
    Woke,
)
from runtime.core.cluster.places import elsewhere
from runtime.core.cluster.port import ClusterNote, ClusterPort
from runtime.core.desk import OnHost
from strategies.protocol import (
    ClusterCommand,
    JobRequest,
    JobState,
    Machine,
    NodeId,
    Placement,
    Places,
    Policy,
    PreemptJob,
    ProtocolError,
    Room,
    StartJob,
)


class ClusterCoordinator:
    """Books, laws and record of a cluster.

    Args:
        machines: numbered from 0.
        policy: a fresh one, which chooses the jobs that start and the jobs that are preempted.
        placement: chooses their machines.
        port: the runtime; it carries orders out, and reports by :meth:`receive`.
        note: writes the record.
        elasticity: how nodes come to jobs while they run; None: no strategy asks for any.
    """

    def __init__(
        self,
        machines: Sequence[Machine],
        policy: Policy,
        placement: Placement,
        port: ClusterPort,
        note: ClusterNote,
        elasticity: Elasticity | None = None,
    ) -> None:
        self.room, self.empty = Room(machines), Room(machines)
        self.policy, self.placement, self.port, self.note = policy, placement, port, note
        self.nodes: Executor | None = None
        if elasticity is not None:
            self.nodes = Executor(elasticity, self.room, placement, note, self._resized)
            self.placement = self.nodes.placement
        self.t = 0.0
        """Time of the last report."""
        self.num_submitted = self.num_waiting = 0
        self._jobs: dict[str, JobState] = {}
        self._inbox: deque[tuple[float, AnyInput]] = deque()
        self._busy = False
        self._undecided = False
        """Whether something was reported since the policy decided last."""
        self._moving: Counter[tuple[str, NodeId]] = Counter()
        """How often a worker got another GPU and has not left the one before."""
        self._to_queue: dict[str, None] = {}
        self._wake_s = math.inf
        policy.begin(self.room.machines)

    @property
    def jobs(self) -> Mapping[str, JobState]:
        """Every job that was submitted and has not ended, in the order of submission."""
        return self._jobs

    @property
    def gpus_used(self) -> list[int]:
        """GPUs that jobs hold, by the number of the machine."""
        return [machine.gpus - self.room.free[machine.number] for machine in self.room.machines]

    def problem_of(self, request: JobRequest) -> str | None:
        """Why a job cannot be submitted here, in one line; None: it can."""
        if request.job in self._jobs:
            return f"job {request.job}: there is another one of this name"
        return problem_of(request, self.empty, self.policy, self.placement)

    def receive(self, t: float, *inputs: AnyInput) -> None:
        """Reports of one moment, after all of which the policy decides once; time never runs backwards.

        While a worker has not left a GPU that it gives back the policy is not asked, since that GPU counts as free.

        Raises ``ValueError`` for a job that cannot be submitted here, and :class:`ProtocolError` for a report or a
        decision that the protocol forbids.
        """
        self._inbox.extend((t, given) for given in inputs)
        if self._busy:  # the port reports while it carries an order out
            return
        self._busy = True
        try:
            while self._inbox:
                while self._inbox:
                    t, given = self._inbox.popleft()
                    self.t = max(self.t, t)
                    self._undecided |= self._book(given)
                if self._undecided and not self._moving:
                    self._undecided = False
                    self._decide()
        finally:
            self._busy = False
        self._ask_to_wake()

    def relocate(self, t: float, job: str, node: NodeId) -> int | None:
        """Where a task goes that its job restarts: a worker's GPU changes at this moment. None: it stays where it is.

        The placement chooses among the free GPUs. The runtime reports ``TaskMoved`` when the task's process there has
        ended, unless the job has ended or given its places back before.
        """
        state = self._jobs.get(job)
        if state is None or state.places is None:  # it has ended, or its tasks are all about to start elsewhere
            return None
        machine = elsewhere(state.request, node, state.places.of(node), self.room, self.placement)
        if machine is None:
            return None
        self.t = max(t, self.t)
        places = self.room.move(job, node, machine)
        self.note(self.t, "Moved", job=job, task=str(node), host=machine)
        self._become(state, replace(state, places=places))
        if node.role == "worker":
            self._moving[job, node] += 1
        return machine

    def allot(self, t: float, job: str, node: NodeId, cores: float, reserve: OnHost) -> str | None:
        """A node is to have so many cores of its machine; returns why not, None if it has them from this moment on.

        The runtime reports ``CoresReturned`` after that.
        """
        assert self.nodes is not None, "no strategy asks for cores"
        self.t = max(t, self.t)
        return self.nodes.allot(self.t, Task(job, node), cores, reserve)

    # ---- reports -----------------------------------------------------------------------------------------------------

    def _book(self, given: AnyInput) -> bool:
        """Book a report; returns whether there may be something to decide."""
        match given:
            case JobSubmitted():
                self._on_submitted(given.request)
            case JobStarted():
                state = self._expect(given.job, given, "starting", "leaving")
                if state.phase == "starting":  # else the order to leave was on its way
                    self._become(state, replace(state, phase="running", since_s=self.t))
                    self.note(self.t, "Started", job=given.job)
                return False
            case JobEnded():
                self._on_ended(given)
            case JobGone():
                self._gone(self._expect(given.job, given, "leaving"), given.attained_s)
            case TaskMoved():
                self._moving -= Counter([(given.job, given.node)])
            case Woke():
                if self.t < self._wake_s:  # a request that another one has replaced
                    return False
                self._wake_s = math.inf
            case _:
                self._book_nodes(given)
        return True

    def _book_nodes(self, given: NodeInput) -> None:
        if self.nodes is None:
            raise ProtocolError(f"{type(given).__name__}, and no strategy of this cluster asks for nodes")
        self.nodes.book(self.t, given)

    def _resized(self, job: str, request: JobRequest, places: Places) -> None:
        """A job has other nodes."""
        state = self._jobs[job]
        self._become(state, replace(state, request=request, places=places))

    def _on_submitted(self, request: JobRequest) -> None:
        if problem := self.problem_of(request):
            raise ValueError(problem)
        state = JobState(request=request, number=self.num_submitted, since_s=self.t)
        self.num_submitted += 1
        self.num_waiting += 1
        self._to_queue[request.job] = None
        self.note(self.t, "Submitted", **asdict(request))
        self._become(None, state)

    def _on_ended(self, given: JobEnded) -> None:
        """A preempted job may end while it waits: by the last evaluation of its stored parameters."""
        began = given.job in self._jobs and self._jobs[given.job].starts > 0
        phases = ("starting", "running", "leaving", *(["waiting"] if began else []))
        state = self._expect(given.job, given, *phases)
        job, attained_s = state.request.job, state.attained_at(self.t)
        if state.phase == "waiting":
            self.num_waiting -= 1
        else:
            self.room.release(job)
        self._all_left(job)
        if self.nodes is not None:
            self.nodes.ended(job)
        self.note(self.t, "Ended", job=job, status=given.status, attained_s=attained_s)
        self._become(state, None)

    def _gone(self, state: JobState, attained_s: float | None) -> None:
        job = state.request.job
        attained_s = state.attained_s if attained_s is None else attained_s
        self.room.release(job)
        self._all_left(job)
        self.num_waiting += 1
        self.note(self.t, "Queued", job=job, attained_s=attained_s)
        waits = replace(state, phase="waiting", places=None, since_s=self.t, attained_s=attained_s)
        self._become(state, waits)

    def _all_left(self, job: str) -> None:
        """None of the job's tasks is anywhere any more."""
        for moving in [one for one in self._moving if one[0] == job]:
            del self._moving[moving]

    def _expect(self, job: str, given: AnyInput, *phases: str) -> JobState:
        state = self._jobs.get(job)
        if state is None:
            raise ProtocolError(f"{type(given).__name__} of job {job}, which is not in the cluster")
        if state.phase not in phases:
            raise ProtocolError(f"{type(given).__name__} of job {job}, which is {_describe(state)}")
        return state

    # ---- decisions ---------------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        if self.num_waiting and not self._brain_lost:
            for command in self.policy.decide(self.t, self.room.copy(), self.placement):
                self._carry_out(command)
        for job in self._to_queue:
            state = self._jobs.get(job)
            if state is not None and state.phase == "waiting":
                self.note(self.t, "Queued", job=job, attained_s=state.attained_s)
        self._to_queue.clear()
        if self.nodes is not None:
            waiting = (state.request for state in self._jobs.values() if state.phase == "waiting")
            self.nodes.decide(self.t, next(waiting, None))

    @property
    def _brain_lost(self) -> bool:
        """Whether nobody decides about nodes, those that jobs start with among them."""
        return self.nodes is not None and self.nodes.brain is None

    def _carry_out(self, command: ClusterCommand) -> None:
        state = self._jobs.get(command.job)
        if state is None:
            raise self._unlawful(command, "which is not in the cluster")
        match command:
            case StartJob(places=places):
                if state.phase != "waiting":
                    raise self._unlawful(command, f"which is {_describe(state)}: only a waiting job can start")
                self.room.take(state.request, places)
                self.num_waiting -= 1
                fields = {"workers": places.workers, "servers": places.servers, "starts": state.starts}
                cores = {} if self.nodes is None else self.nodes.started(state.request, places)
                self.note(self.t, "Placed", job=command.job, **fields, **cores)
                now = {"phase": "starting", "places": places, "since_s": self.t, "starts": state.starts + 1}
                self._become(state, replace(state, **now))
                self.port.start(state, places)
            case PreemptJob():
                if not self.policy.preempts:
                    raise self._unlawful(command, "and the policy has not declared that it preempts")
                if state.phase not in ("starting", "running"):
                    raise self._unlawful(command, f"which is {_describe(state)}: only a job with GPUs can be preempted")
                self.note(self.t, "Preempted", job=command.job)
                now = {"phase": "leaving", "attained_s": state.attained_at(self.t), "since_s": self.t}
                self._become(state, replace(state, **now))
                self.port.preempt(state)
            case _:
                assert_never(command)

    def _unlawful(self, command: ClusterCommand, why: str) -> ProtocolError:
        what = f"{type(command).__name__} of job {command.job}"
        return ProtocolError(f"{type(self.policy).__name__} at {self.t:g} s: {what}, {why}")

    def _become(self, old: JobState | None, new: JobState | None) -> None:
        if new is not None:
            self._jobs[new.request.job] = new
        elif old is not None:
            del self._jobs[old.request.job]
        self.policy.changed(old, new)

    def _ask_to_wake(self) -> None:
        if self._undecided:  # it is about to be asked anyway
            return
        next_s = self.policy.next_s(self.t) if self.num_waiting else math.inf
        if self.nodes is not None:
            next_s = min(next_s, self.nodes.next_s())
        if self.num_waiting and not self.room.held and next_s == math.inf and not self._brain_lost:
            raise ProtocolError(
                f"{type(self.policy).__name__} at {self.t:g} s: nothing runs, {self.num_waiting} jobs wait, and it "
                "starts none of them"
            )
        if next_s != self._wake_s:
            self._wake_s = next_s
            self.port.wake(next_s)


def _describe(state: JobState) -> str:
    return f"{state.phase} since {state.since_s:g} s (start {state.starts})"
