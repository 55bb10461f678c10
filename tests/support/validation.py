"""What holds between the structures of a job whenever nothing is under way: who is a member, and of what (pure).

Tests call it after every event (:mod:`tests.support.validating`), when the orders that follow have been carried out;
production never does.
"""

from __future__ import annotations

from collections.abc import Iterator

from runtime.core.coordinator import Coordinator
from runtime.core.executor import members_of
from runtime.core.recovery.automaton import Recovery
from runtime.core.recovery.states import Phase, TaskState
from runtime.core.recovery.task import REACHABLE, TaskLife
from strategies.protocol import NodeId

STARTING = frozenset({TaskState.PENDING, TaskState.LAUNCHING, TaskState.READY, TaskState.HELD})
PROCESS = {"here": REACHABLE, "launching": STARTING, "pending": STARTING, "left": frozenset({TaskState.LEFT})}
"""The state of a worker that the strategy knows: the states of its process that this allows."""


class Validation:
    """Compares a coordinator with the recovery of its job; the job has begun and has not ended."""

    def __init__(self, job: Coordinator, recovery: Recovery) -> None:
        self.job, self.recovery, self.state = job, recovery, recovery.state
        self.members = job.members
        self.trains = self.state.phase == Phase.RUNNING and not job.course.halted

    def violations(self) -> list[str]:
        """Everything that does not hold; empty if all is well."""
        checks = (
            self._nodes,
            self._workers,
            self._holders,
            self._ring,
            self._children,
            self._copies,
            self._processes,
            self._halts,
            self._work,
            self._data,
        )
        return [f"{check.__name__[1:]}: {found}" for check in checks for found in check()]

    def _nodes(self) -> Iterator[str]:
        """Both know the same nodes; one that was launched may still be without a task, and its denial on its way."""
        known, awaited = set(self.members.layout.nodes), self.members.awaited
        there = {key for key, life in self.recovery.tasks.items() if _is_node(life) and life.state != TaskState.LEFT}
        if there - known or known - there - awaited:
            yield f"the coordinator has {_shown(known - there)} besides, the recovery {_shown(there - known)}"
        for node in awaited - known:
            yield f"{node} is awaited, and is no member"
        for node in awaited & there:
            if self.recovery.tasks[node].notified or (node.role == "worker" and self.members.is_here(node.number)):
                yield f"{node} is awaited, and is there"
        listed = [task.key for task in (*self.state.servers, *self.state.clients)]
        gone = {key for key in self.recovery.tasks if key not in listed}
        if len(set(listed)) < len(listed) or any(self.recovery.tasks[key].state != TaskState.LEFT for key in gone):
            yield f"lists of tasks differ from what there is: {_shown(gone)}"

    def _workers(self) -> Iterator[str]:
        """The strategy knows what the processes do."""
        present = {node.number for node in self.members.layout.workers}
        for worker, member in self.members.members.items():
            if (member.state != "left") != (worker in present):
                yield f"worker {worker} is {member.state}, and {'a' if worker in present else 'no'} member"
            life = self.recovery.tasks.get(NodeId.worker(worker))
            if life is None or member.state == "left":
                if life is not None and life.state != TaskState.LEFT:
                    yield f"worker {worker} has left, and its process is {life.state}"
                continue
            if life.state not in PROCESS[member.state] or (
                self.trains and member.state == "here" and life.state != TaskState.ATTACHED
            ):
                yield f"worker {worker} is {member.state}, and its process is {life.state} ({self.state.phase})"
            if life.incarnation != member.incarnation:
                yield f"worker {worker} is at incarnation {member.incarnation}, its process at {life.incarnation}"
            if life.notified != (member.state == "here"):
                yield f"worker {worker} is {member.state}, and notified: {life.notified}"
        if present - self.members.members.keys():
            yield f"workers {sorted(present - self.members.members.keys())} have no state"

    def _holders(self) -> Iterator[str]:
        """Somebody holds the parameters."""
        holders = self.members.layout.holders
        if bool(holders) != bool(self.job.job.num_servers):
            yield f"{len(holders)} servers hold the parameters of a job with {self.job.job.num_servers}"
        for key in holders:
            state = self.recovery.tasks[key].state if key in self.recovery.tasks else TaskState.LEFT
            if state == TaskState.LEFT or (self.state.phase == Phase.RUNNING and state != TaskState.READY):
                yield f"{key} holds parameters, and is {state} ({self.state.phase})"

    def _ring(self) -> Iterator[str]:
        """All replicas that may compute sum an update, and else only newcomers, who copy the parameters first."""
        ring, tasks = self.members.ring, self.recovery.tasks
        if len(set(ring)) < len(ring) or any(key not in tasks or tasks[key].state == TaskState.LEFT for key in ring):
            yield f"{_shown(ring)} are not one replica each"
        if self.job.job.num_servers:
            if ring:
                yield f"{_shown(ring)} are a ring in a job with servers"
            return
        if not self.trains:
            return
        here = {NodeId.worker(worker) for worker in self.members.here()}
        new = {key for key in ring if key in tasks and tasks[key].state == TaskState.READY}
        if here - set(ring) or set(ring) - here - new:
            yield f"{_shown(ring)} are in the ring, {_shown(here)} may compute"
        if (primary := self.recovery.policy.primary) not in here:
            yield f"{primary} delivers to auxiliary tasks, and is not there"

    def _children(self) -> Iterator[str]:
        """A child and its parent are there; a parent is in the ring."""
        parents, ledger = self.members.parents, self.job.ledger
        for child, parent in parents.items():
            if not (self.members.is_here(child) and self.members.is_here(parent)) or parent in parents:
                yield f"worker {child} is a child of worker {parent}"
        if parents and (self.job.job.num_servers or self.job.course.halted):
            yield f"{parents} are children without a ring"
        computing = {order.grad_id for order in ledger.busy.values()} | ledger.grads.keys()
        if lost := self.job.executor.attachments.kept.keys() - computing:
            yield f"gradients {sorted(lost)} are kept for nobody"

    def _copies(self) -> Iterator[str]:
        """Replicas of the servers that follow are there, hold nothing else, and are processes that can be reached."""
        replication, job = self.job.executor.replication, self.job
        if job.course.halted:
            return
        there = {task.id: task for task in self.state.replicas() if task.state in REACHABLE}
        if replication.followed.keys() != there.keys():
            yield f"servers {sorted(replication.followed)} follow, {sorted(there)} are there"
        for server in replication.followed.keys() & there.keys():
            if replication.incarnations[server] != there[server].incarnation:
                yield f"server {server} follows as incarnation {replication.incarnations[server]}"
        if wrong := {key for key in replication.asked if key[0] not in replication.followed}:
            yield f"{wrong} are on their way to servers that are not there"

    def _processes(self) -> Iterator[str]:
        """A task has somebody who keeps it from starting exactly if it waits."""
        for key, life in self.recovery.tasks.items():
            if bool(life.holders) != (life.state in (TaskState.HELD, TaskState.PENDING)):
                yield f"{key} is {life.state}, and kept by {sorted(life.holders)}"
            if life.notified and life.state not in REACHABLE:
                yield f"{key} is announced, and is {life.state}"
        for what in (self.state.leaving, self.state.moving):
            if what is not None and self.state.phase != Phase.RUNNING:
                yield f"{what} is under way during a recovery"

    def _halts(self) -> Iterator[str]:
        """While parameters are nowhere all work is void; it is not void without somebody who ends that."""
        state, halted = self.state, self.job.course.halted
        ends = (state.leaving, state.moving, state.suspending)
        if state.phase != Phase.RUNNING and not halted:
            yield f"the coordinator continues in {state.phase}"
        if state.phase == Phase.RUNNING and halted and all(one is None for one in ends):
            yield "all are halted for nothing"

    def _work(self) -> Iterator[str]:
        """Workers compute once at a time; what waits for a process is reserved; during a halt there is nothing."""
        ledger, reserved, members = self.job.ledger, self.job.executor.reserved, self.members
        if self.job.course.halted and (ledger.busy or ledger.starved or ledger.grads or ledger.ready or reserved):
            yield "there is work during a halt"
        if both := ledger.busy.keys() & ledger.starved.keys():
            yield f"workers {sorted(both)} compute, and wait to"
        for worker in ledger.busy.keys() | ledger.starved.keys():
            if not members.is_expected(worker):
                yield f"worker {worker} has work, and is not expected"
        waiting = {worker for worker in ledger.busy if not members.is_here(worker)}
        if waiting != reserved.keys():
            yield f"workers {sorted(waiting)} have work and no process, {sorted(reserved)} have it reserved"
        if lost := ledger.ready.keys() - {order.grad_id for order in ledger.busy.values()}:
            yield f"gradients {sorted(lost)} are held by nobody"

    def _data(self) -> Iterator[str]:
        """Samples are out exactly for gradients that are computed or wait to be used; rounds have negative numbers."""
        ledger, shards = self.job.ledger, self.job.shards
        if self.job.course.halted:
            return
        plain = [grad for grad in ledger.grads.values() if grad.round is None]
        orders = {order.grad_id for order in ledger.busy.values() if order.round is None and order.samples}
        out = {grad_id for grad_id in shards.out if grad_id >= 0}
        if (uses := orders | set(members_of(plain))) != out:
            yield f"samples are out for {sorted(out)}, in use for {sorted(uses)}"
        if wrong := {worker for worker in shards.departed if self.members.is_here(worker)}:
            yield f"workers {sorted(wrong)} have left their samples, and are here"


def _is_node(life: TaskLife) -> bool:
    return life.role in ("worker", "server")


def _shown(nodes: object) -> str:
    return ", ".join(sorted(map(str, nodes))) or "none"  # type: ignore[call-overload]
