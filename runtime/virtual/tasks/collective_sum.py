"""One sum over tasks on machines, message by message, as a schedule says.

Every message uses the links and the processors that all tasks share, so a ring is as fast as its slowest hop is at that
moment. Undisturbed, n members of a ring on equal machines take 2 (n - 1) times what a message of 1/n of the vector
does. A ring is the model of ``live/tasks/collectives/ring.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import final

import msgspec

from runtime.core.collectives.known import Summing
from runtime.core.collectives.schedule import Message, Turns, turns_of
from runtime.core.vectors import PARAMETER_BYTES
from runtime.virtual.clock import MACHINE
from runtime.virtual.costs import Costs
from runtime.virtual.machines.interface import Then
from runtime.virtual.machines.tenancy import Machines


@lru_cache(maxsize=16)
def _turns_of(summing: Summing, size: int, num_parameters: int) -> list[Turns]:
    """The same for all updates of a job."""
    return turns_of(summing.schedule(size), num_parameters)


class Member(msgspec.Struct, eq=False):
    """One task of the sum; its messages are numbered from 0."""

    name: str
    sends: tuple[Message, ...]
    receives: tuple[tuple[int, int], ...]
    """The source and the bytes of the messages that it receives."""
    here: bool = False
    """Whether it takes part already."""
    done: Then | None = None
    """Called when its sum is complete; None: it has not come to this order yet."""
    sent: int = 0
    arrived: set[int] = msgspec.field(default_factory=set)
    """Messages that it has received and not added yet."""
    added: int = 0
    sending: bool = False
    adding: bool = False
    begun_s: float = 0.0
    """When it came."""
    rounds: int = 0
    """Rounds that it has ended; only counted where they are bounded."""


@final
class CollectiveSum:
    """A sum over the tasks ``names``, in the order of their ranks, of which each joins when it has come to that order.

    A message leaves when its sender has sent its earlier ones, since all take turns, and has added or stored what it
    needs. Received messages are added in the order of the schedule. A member is done when it has sent and received all.

    Around a ring, messages that arrive before a member has joined wait in a buffer. Buffers are not limited; even so a
    sender is not done before its last message has left. In other schedules a message leaves when its target has added
    all earlier ones, and its sender goes on when it has arrived.

    ``beside``: another thread of each task adds, while the task may compute.

    With a bound (``Summing.bound_s``) a member has the sum so long after it has joined, as in OptiReduce (Warraich et
    al., NSDI 2025): of K rounds, each a message to and from it, k end after k / K of that time. A message that has
    not left or has not been added by then is lost. ``lost(bytes)`` is called at the end of a sum that has lost any.
    """

    def __init__(
        self,
        machines: Machines,
        costs: Costs,
        names: Sequence[str],
        num_parameters: int,
        summing: Summing,
        *,
        beside: bool = False,
        lost: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.machines, self.costs, self.names = machines, costs, list(names)
        self.num_bytes = PARAMETER_BYTES * num_parameters
        self._work = machines.work_beside if beside else machines.work
        self.members = [
            Member(name, *turns)
            for name, turns in zip(names, _turns_of(summing, len(names), num_parameters), strict=True)
        ]
        self._buffered = summing.schedule(len(names)).buffered
        self._bound_s, self._lost, self._abandoned = summing.bound_s, lost, False
        self.lost_bytes = 0
        """Of messages that were late, so far."""
        self._latencies_s: dict[tuple[str, str], float] = {}
        """Of the hosts between two members."""
        self.waiting = len(names)
        """Members whose sum is not complete."""

    def join(self, rank: int, done: Then) -> None:
        """A member has come to this order; ``done()`` is called when it has the sum."""
        member = self.members[rank]
        member.done = done
        self.begin(rank)
        self._end(rank)

    def begin(self, rank: int) -> None:
        """A member takes part, before it has come to the order: its share is there."""
        member = self.members[rank]
        if not member.here:
            member.here, member.begun_s = True, self.machines.clock.now
            self._limit(rank)
            self._send(rank)
            self._add(rank)
            self._admit(member)

    def _admit(self, member: Member) -> None:
        """Let the next message to a member come, if it is sent only then."""
        if not self._buffered and member.added < len(member.receives):
            self._send(member.receives[member.added][0])

    def _send(self, rank: int) -> None:
        """Send the next message if it is there and its turn."""
        member = self.members[rank]
        if not member.here or member.sending or member.sent == len(member.sends):
            return
        number, place, num_bytes, needs = member.sends[member.sent]
        target = self.members[number]
        if member.added < needs or not (self._buffered or (target.here and target.added == place)):
            return
        member.sending = True
        path = (member.name, target.name)
        # the latency is counted afterwards: around a ring the next message does not wait for it
        carry, left = self.costs.carry_s(num_bytes), partial(self._on_sent, rank)
        self.machines.send(member.name, path, num_bytes, -self._latency_s(path), left, carry)

    def _latency_s(self, path: tuple[str, str]) -> float:
        if path not in self._latencies_s:
            self._latencies_s[path] = self.machines.passage(path).latency_s
        return self._latencies_s[path]

    def _on_sent(self, rank: int) -> None:
        member = self.members[rank]
        message = member.sends[member.sent]
        name = self.members[message.target].name
        latency_s = self._latency_s((member.name, name)) + self.costs.latency_s + self.costs.ring_step_s
        if self._buffered:
            self.machines.sleep(name, latency_s, partial(self._on_arrived, message.target, message.place))
            self._go_on(rank)
        else:
            self.machines.sleep(name, latency_s, partial(self._on_taken, rank, message.target, message.place))

    def _on_taken(self, source: int, rank: int, place: int) -> None:
        self._on_arrived(rank, place)
        self._go_on(source)

    def _go_on(self, rank: int) -> None:
        """Its message is sent."""
        member = self.members[rank]
        member.sending = False
        member.sent += 1
        self._send(rank)
        self._end(rank)

    def _on_arrived(self, rank: int, place: int) -> None:
        self.members[rank].arrived.add(place)
        self._add(rank)

    def _add(self, rank: int) -> None:
        """Add or store the next message if it has arrived."""
        member = self.members[rank]
        if not member.here or member.adding or member.added not in member.arrived:
            return
        member.adding = True
        _, num_bytes = member.receives[member.added]
        self._work(member.name, self.costs.ring_per_byte_s * num_bytes, partial(self._on_added, rank))

    def _on_added(self, rank: int) -> None:
        member = self.members[rank]
        member.adding = False
        member.arrived.discard(member.added)
        member.added += 1
        self._send(rank)
        self._add(rank)
        self._admit(member)
        self._end(rank)

    def abandon(self) -> None:
        """It will not be complete: do nothing more to its members."""
        self._abandoned = True

    # ---- a bounded sum -----------------------------------------------------------------------------------------------

    def _limit(self, rank: int) -> None:
        """A member begins a round, which has an end."""
        member = self.members[rank]
        if self._bound_s is not None and member.rounds < len(member.sends):
            at_s = member.begun_s + self._bound_s * (member.rounds + 1) / len(member.sends)
            self.machines.clock.at(at_s, MACHINE, self._on_bound, rank, member.rounds)

    def _on_bound(self, rank: int, number: int) -> None:
        """The round is over, unless the member has ended it before."""
        member = self.members[rank]
        if self._abandoned or member.rounds != number:
            return
        self.machines.forget(member.name)  # the message that it sends, and what it adds
        member.sending = member.adding = False
        if member.added == number:
            self.lost_bytes += member.receives[number][1]
        member.sent, member.added = number + 1, max(member.added, number + 1)
        self._end(rank)
        self._send(rank)
        self._add(rank)

    def _end(self, rank: int) -> None:
        member = self.members[rank]
        if self._bound_s is not None and member.rounds < min(member.sent, member.added):
            member.rounds += 1
            self._limit(rank)
        if member.done is None or member.sent < len(member.sends) or member.added < len(member.receives):
            return
        self.waiting -= 1
        if not self.waiting and self.lost_bytes:
            self._lost(self.lost_bytes)
        done, member.done = member.done, None
        done()
