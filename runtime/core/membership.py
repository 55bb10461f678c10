"""Who is there, in which incarnation (pure)."""

from __future__ import annotations

from typing import Literal

import msgspec

MemberState = Literal["launching", "here", "pending", "left"]
"""``pending``: its next incarnation waits for a place."""


class Member(msgspec.Struct):
    """One worker: its current incarnation and whether that is there, on its way, or gone for good."""

    incarnation: int = 0
    state: MemberState = "launching"


class Membership:
    """Incarnations fence the dead off: what a former incarnation still says is not heard."""

    def __init__(self, workers: range) -> None:
        self.members = {worker: Member() for worker in workers}

    def begin(self, worker: int, incarnation: int) -> None:
        """The job begins with this one, which is here."""
        self.members[worker] = Member(incarnation=incarnation, state="here")

    def joined(self, worker: int, incarnation: int) -> bool:
        """True if this is the incarnation that we wait for."""
        member = self.members[worker]
        if member.state not in ("launching", "pending") or member.incarnation != incarnation:
            return False
        member.state = "here"
        return True

    def lost(self, worker: int, restarting: bool) -> int:
        """The current incarnation is gone; returns its number."""
        member = self.members[worker]
        gone = member.incarnation
        member.state = "launching" if restarting else "left"
        member.incarnation += 1
        return gone

    def restarted(self, worker: int) -> int:
        """The current incarnation is killed, to be started again elsewhere, some time; returns its number."""
        gone = self.lost(worker, restarting=False)
        self.members[worker].state = "pending"
        return gone

    def is_here(self, worker: int) -> bool:
        """Connected and able to compute."""
        return worker in self.members and self.members[worker].state == "here"

    def is_expected(self, worker: int) -> bool:
        """Here, or on its way."""
        return worker in self.members and self.members[worker].state not in ("left", "pending")

    def here(self) -> tuple[int, ...]:
        """Everybody who can compute."""
        return tuple(worker for worker, member in self.members.items() if member.state == "here")

    def anyone_pending(self) -> bool:
        """Somebody waits for a place."""
        return any(member.state == "pending" for member in self.members.values())

    def anyone_launching(self) -> bool:
        """Somebody is on its way."""
        return any(member.state == "launching" for member in self.members.values())
