"""Members of a job and their incarnations (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

MemberState = Literal["launching", "here", "pending", "left"]
"""States of a worker; ``pending``: its next incarnation waits for a place."""


class Member(msgspec.Struct):
    """One worker: its current incarnation, and whether that is connected, starting, pending or gone for good."""

    incarnation: int = 0
    state: MemberState = "launching"


class Membership:
    """Members with incarnations, by which messages of earlier processes are fenced."""

    def __init__(self, workers: Iterable[int]) -> None:
        self.members = {worker: Member() for worker in workers}

    def begin(self, worker: int, incarnation: int) -> None:
        """Begin the job with this connected incarnation."""
        self.members[worker] = Member(incarnation=incarnation, state="here")

    def admit(self, worker: int) -> None:
        """A worker that nobody had before will join; nobody waits for it."""
        self.members[worker] = Member(state="pending")

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
