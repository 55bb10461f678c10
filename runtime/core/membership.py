"""The members of a job: their states, and their rings or groups (pure).

Coordinator and recovery of a job share one object, and both runtimes read it. The coordinator changes nodes, what
the strategy knows of them, and children of the ring; the recovery changes processes, holders of parameters, and the
ring. Random schedules validate the invariants after every event (``tests/unit/core/test_members.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from runtime.core.layout import Layout
from runtime.core.recovery.task import TaskLife
from strategies.protocol import NodeId

MemberState = Literal["launching", "here", "pending", "left"]
"""States of a worker; ``pending``: its next incarnation waits for a place."""


class Member(msgspec.Struct):
    """One worker: its current incarnation, and whether that is connected, starting, pending or gone for good."""

    incarnation: int = 0
    state: MemberState = "launching"


class Membership:
    """All members, and the groups that they form.

    ``layout``: nodes, and the servers that hold parameters; ``members``: workers, as the strategy knows them;
    ``tasks``: processes, by node or auxiliary task.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.members = {node.number: Member() for node in layout.workers}
        self.tasks: dict[NodeId, TaskLife] = {}
        self.awaited: set[NodeId] = set()
        """Nodes that were launched and have not joined."""
        self.ring: tuple[NodeId, ...] = ()
        """Replicas that receive the order of an update now, in their order; children among them take no part."""
        self.parents: dict[int, int] = {}
        """The parent of every child, as the last update left it; empty: the whole ring takes part."""

    # ---- nodes -------------------------------------------------------------------------------------------------------

    def admit(self, node: NodeId) -> None:
        """A node more, of a number that nobody had before (else ``ValueError``): it holds nothing, nobody waits."""
        if node.role == "server":
            self.layout = self.layout.with_server(node)
        else:
            self.layout = self.layout.with_worker(node)
            self.members[node.number] = Member(state="pending")
        self.awaited.add(node)

    def remove(self, node: NodeId) -> None:
        """A node that will not start again is no member any more; raises ``ValueError`` for one that is needed."""
        self.awaited.discard(node)
        if node.role == "server":
            self.layout = self.layout.without_server(node)
        elif self.is_expected(node.number):
            raise ValueError(f"{node}: has a process; it must end first")
        else:
            self.layout = self.layout.without_worker(node)

    def divide(self, shares: Sequence[tuple[NodeId, float]]) -> None:
        """These servers hold the parameters from now on."""
        if tuple(shares) != self.layout.shares:
            servers, parts = zip(*shares, strict=True)
            self.layout = self.layout.repartitioned(servers, parts)

    # ---- workers -----------------------------------------------------------------------------------------------------

    def begin(self, worker: int, incarnation: int) -> None:
        """Begin the job with this connected incarnation."""
        self.members[worker] = Member(incarnation=incarnation, state="here")

    def joined(self, worker: int, incarnation: int) -> bool:
        """Mark as connected; True if this is the expected incarnation."""
        member = self.members[worker]
        if member.state not in ("launching", "pending") or member.incarnation != incarnation:
            return False
        member.state = "here"
        return True

    def lost(self, worker: int, restarting: bool) -> int:
        """Mark the current incarnation as gone; returns its number."""
        member = self.members[worker]
        gone = member.incarnation
        member.state = "launching" if restarting else "left"
        member.incarnation += 1
        return gone

    def postponed(self, worker: int) -> None:
        """Mark that a worker that has never joined joins with its next incarnation; still nobody waits for it."""
        self.members[worker].incarnation += 1

    def restarted(self, worker: int) -> int:
        """Mark the current incarnation as killed and the next as pending; returns the old number."""
        gone = self.lost(worker, restarting=False)
        self.members[worker].state = "pending"
        return gone

    def is_here(self, worker: int) -> bool:
        """Whether a worker is connected and able to compute."""
        return worker in self.members and self.members[worker].state == "here"

    def is_expected(self, worker: int) -> bool:
        """Whether a worker is connected or starting."""
        return worker in self.members and self.members[worker].state not in ("left", "pending")

    def here(self) -> tuple[int, ...]:
        """All workers that can compute."""
        return tuple(worker for worker, member in self.members.items() if member.state == "here")

    def anyone_pending(self) -> bool:
        """Whether some worker waits for a place."""
        return any(member.state == "pending" for member in self.members.values())

    def anyone_launching(self) -> bool:
        """Whether some worker is starting."""
        return any(member.state == "launching" for member in self.members.values())
