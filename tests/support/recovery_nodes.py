"""Books of the nodes of a recovery: who is a member, who holds the parameters, and which repartition is under way.

They belong to :class:`tests.support.recovery_world.World`; nothing in them is taken from the automaton.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.core.recovery import effects
from runtime.core.recovery.task import Key

MAX_NEW = 2
"""Nodes of each role that a world launches: more would add states and no cases."""

Shares = tuple[tuple[Key, float], ...]


def servers_of(shares: Shares) -> tuple[Key, ...]:
    return tuple(server for server, _ in shares)


class Nodes:
    """``all`` are the members that the coordinator knows, ``shares`` those of the servers that hold parameters.

    ``moving`` are the shares that a repartition has asked for; ``spoiled``: a loss came first, so the old ones stay.
    """

    def __init__(self, num_workers: int, num_servers: int) -> None:
        self.numbers = {"worker": num_workers, "server": num_servers}
        self.start = dict(self.numbers)
        self.all = {Key(role, number) for role, count in self.numbers.items() for number in range(count)}
        self.shares: Shares = tuple((Key("server", number), 1.0) for number in range(num_servers))
        self.joined = {server for server, _ in self.shares}
        """Servers of which the coordinator knows that they can be reached."""
        self.moving: Shares | None = None
        self.spoiled = False
        self.version = 0
        """The version of the parameters that are to move."""

    @property
    def holders(self) -> tuple[Key, ...]:
        return servers_of(self.shares)

    def of_role(self, role: str) -> list[Key]:
        return sorted(key for key in self.all if key.role == role)

    # ---- what may be asked for ---------------------------------------------------------------------------------------

    def launchable(self) -> list[str]:
        """Roles of which another node may be launched: without servers all are replicas."""
        roles = ("worker", "server") if self.shares else ("worker",)
        return [role for role in roles if self.numbers[role] < self.start[role] + MAX_NEW]

    def dismissible(self) -> list[Key]:
        """Who may be ended: no server that holds parameters, and not the last worker."""
        workers = self.of_role("worker")
        idle = [server for server in self.of_role("server") if server not in self.holders]
        return [*(workers if len(workers) > 1 else []), *idle]

    def divisions(self) -> list[Shares]:
        """Ways to divide the parameters: all, all in the other order and unevenly, the first alone, the last alone."""
        servers = sorted(self.joined)
        if not servers:
            return []
        uneven = tuple((server, 1.0 + server.number) for server in reversed(servers))
        found = [tuple((server, 1.0) for server in servers), uneven, ((servers[0], 1.0),), ((servers[-1], 2.0),)]
        return list(dict.fromkeys(found))

    # ---- it is asked for ---------------------------------------------------------------------------------------------

    def launch(self, role: str) -> Key:
        """The next number of the role."""
        node = Key(role, self.numbers[role])
        self.numbers[role] += 1
        self.all.add(node)
        return node

    def end(self, node: Key) -> None:
        assert node in self.all, f"{node} leaves twice"
        assert node not in self.holders, f"{node} leaves with its part of the parameters"
        self.all.remove(node)
        self.joined.discard(node)

    def move(self, shares: Shares, version: int) -> None:
        self.moving, self.version, self.spoiled = shares, version, False

    # ---- what is ordered and reported --------------------------------------------------------------------------------

    def lost(self, node: Key) -> None:
        """A process has ended or is to end: a repartition that needs its node, or what it held, is spoiled."""
        if node in self.holders or node in servers_of(self.moving or ()):
            self.spoiled = True

    def keep(self, savers: Iterable[Key]) -> None:
        assert tuple(savers) == self.holders, "whoever holds the parameters stores them, and nobody else"

    def read(self, savers: Iterable[Key]) -> None:
        """These read the parameters: those that held them, or those among which they are divided now."""
        savers = tuple(savers)
        if self.moving is not None and not self.spoiled and savers == servers_of(self.moving):
            self.shares = self.moving
        elif self.moving is not None and savers != self.holders:  # the loss came after the change
            assert savers == servers_of(self.moving)
            self.shares = self.moving
        assert savers == self.holders, "only holders read"

    def server_joined(self, effect: effects.ServerJoined) -> None:
        node = Key("server", effect.server)
        assert node in self.all
        assert node not in self.joined, "it joins once"
        assert node.number >= self.start["server"], "the servers of the start need no announcement"
        self.joined.add(node)

    def server_lost(self, effect: effects.ServerLost) -> None:
        node = Key("server", effect.server)
        assert effect.holding == (node in self.holders), f"{node}: who holds the parameters is no matter of opinion"
        if not effect.holding:
            self.end(node)

    def restored(self, shares: Shares, version: int) -> None:
        """A repartition ends in exactly one Restored."""
        if self.spoiled and self.moving == shares and servers_of(shares) == self.holders:
            self.shares = shares  # the loss came after the change, which nobody could see: the same servers read
        assert shares == self.shares, "the coordinator learns who has read"
        if self.moving is not None:
            assert self.spoiled or (shares, version) == (self.moving, self.version), "nothing came in between"
        self.moving = None
