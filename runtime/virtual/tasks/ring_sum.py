"""One sum around a ring of tasks on machines, message by message: the model of ``live/tasks/collectives/ring.py``.

Every message uses the links and the processors that all tasks share, so a ring is as fast as its slowest hop is at that
moment. Undisturbed, n members on equal machines take 2 (n - 1) times what a message of 1/n of the vector does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import final

import msgspec

from runtime.core.vectors import PARAMETER_BYTES, server_range
from runtime.virtual.costs import Costs
from runtime.virtual.machines.interface import Then
from runtime.virtual.machines.tenancy import Machines


class Member(msgspec.Struct, eq=False):
    """One task of the ring; its messages are numbered from 0."""

    name: str
    path: tuple[str, str]
    """To the next neighbour."""
    latency_s: float
    """Of the hosts on that path."""
    done: Then | None = None
    """Called when its sum is complete; None: it has not come to this order yet."""
    sent: int = 0
    arrived: int = 0
    added: int = 0
    sending: bool = False
    adding: bool = False


@final
class RingSum:
    """A sum over the tasks ``names``, in the ring's order, of which each joins when it has come to that order.

    Message m of rank r is part (r - m) % n of the vector: n - 1 partial sums, then n - 1 whole parts. It leaves when r
    has added or stored m messages and its own before has left, since both take turns on one connection. A member is
    done when it has sent and received all. Messages that arrive before it has joined wait in a buffer. Buffers
    are not limited; even so a sender is not done before its last message has left.
    """

    def __init__(self, machines: Machines, costs: Costs, names: Sequence[str], num_parameters: int) -> None:
        self.machines, self.costs = machines, costs
        size = len(names)
        ends = [server_range(num_parameters, size, part) for part in range(size)]
        self._part_bytes = [PARAMETER_BYTES * (hi - lo) for lo, hi in ends]
        self._messages = 2 * (size - 1)
        self.members: list[Member] = []
        for rank, name in enumerate(names):
            path = (name, names[(rank + 1) % size])
            self.members.append(Member(name, path, machines.passage(path).latency_s if size > 1 else 0.0))
        self.waiting = size
        """Members whose sum is not complete."""

    def join(self, rank: int, done: Then) -> None:
        """A member has come to this order; ``done()`` is called when it has the sum."""
        member = self.members[rank]
        member.done = done
        if not self._messages:
            self._end(member)
            return
        self._send(rank)
        self._add(rank)

    def _send(self, rank: int) -> None:
        """Send the next message if it is there and its turn."""
        member = self.members[rank]
        turn = member.sent
        if member.done is None or member.sending or turn == self._messages or member.added < turn:
            return
        member.sending = True
        num_bytes = self._part_bytes[(rank - turn) % len(self.members)]
        # the latency is counted afterwards: the next message does not wait for it
        carry, left = self.costs.carry_s(num_bytes), partial(self._on_sent, rank)
        self.machines.send(member.name, member.path, num_bytes, -member.latency_s, left, carry)

    def _on_sent(self, rank: int) -> None:
        member, following = self.members[rank], (rank + 1) % len(self.members)
        member.sending = False
        member.sent += 1
        latency_s = member.latency_s + self.costs.latency_s + self.costs.ring_step_s
        self.machines.sleep(self.members[following].name, latency_s, partial(self._on_arrived, following))
        self._send(rank)
        self._end(member)

    def _on_arrived(self, rank: int) -> None:
        self.members[rank].arrived += 1
        self._add(rank)

    def _add(self, rank: int) -> None:
        """Add or store the next message that has arrived."""
        member = self.members[rank]
        if member.done is None or member.adding or member.added == member.arrived:
            return
        member.adding = True
        num_bytes = self._part_bytes[(rank - 1 - member.added) % len(self.members)]
        self.machines.work(member.name, self.costs.ring_per_byte_s * num_bytes, partial(self._on_added, rank))

    def _on_added(self, rank: int) -> None:
        member = self.members[rank]
        member.adding = False
        member.added += 1
        self._send(rank)
        self._add(rank)
        self._end(member)

    def _end(self, member: Member) -> None:
        if member.sent == member.added == self._messages and member.done is not None:
            self.waiting -= 1
            done, member.done = member.done, None
            done()
