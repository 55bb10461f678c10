"""Which nodes a job has, and which server holds which part of the parameters (pure).

A change gives another :class:`Layout` whose version is one higher; nothing is changed in place, so callers can keep a
layout. Numbers are never reused: a node that has left does not come back, a newcomer has the next number of its role.
A server that has just joined holds nothing until the vector is repartitioned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

import msgspec

from runtime.core.vectors import cut_by_shares
from strategies.protocol import NodeId


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Made by :meth:`initial` and changed by the methods that return another. Refusals are ``ValueError``."""

    version: int
    workers: tuple[NodeId, ...]
    """The workers, by number."""
    servers: tuple[NodeId, ...]
    """The servers, by number, with those that hold nothing yet."""
    shares: tuple[tuple[NodeId, float], ...]
    """The servers that hold parameters, in the order of the vector, each with its share of it; in any unit."""
    next_worker: int
    next_server: int

    @classmethod
    def initial(cls, num_workers: int, num_servers: int, shares: Sequence[float] = (), num_replicas: int = 0) -> Layout:
        """Version 0 of a job of this size: numbers from 0, and a share for every server; none: the same for all.

        Replicas are servers without a share.
        """
        servers = tuple(NodeId.server(number) for number in range(num_servers))
        return cls(
            version=0,
            workers=tuple(NodeId.worker(number) for number in range(num_workers)),
            servers=(*servers, *(NodeId.server(num_servers + number) for number in range(num_replicas))),
            shares=tuple(zip(servers, shares or (1.0,) * num_servers, strict=True)),
            next_worker=num_workers,
            next_server=num_servers + num_replicas,
        )

    # ---- what it says ------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """All of them, servers first."""
        return (*self.servers, *self.workers)

    @property
    def holders(self) -> tuple[NodeId, ...]:
        """The servers that hold parameters, in the order of the vector."""
        return tuple(server for server, _ in self.shares)

    def ranges(self, num_floats: int) -> dict[NodeId, tuple[int, int]]:
        """[lo, hi) of a vector of so many floats, by server that holds parameters."""
        parts = cut_by_shares(num_floats, [share for _, share in self.shares])
        return dict(zip(self.holders, parts, strict=True))

    def next_number(self, role: str) -> int:
        """The number of the next ``worker`` or ``server``, which nobody has had."""
        return {"worker": self.next_worker, "server": self.next_server}[role]

    # ---- changes -----------------------------------------------------------------------------------------------------

    def with_worker(self, node: NodeId) -> Layout:
        """The layout with another worker."""
        self._check_new(node, "worker")
        return self._change(workers=(*self.workers, node), next_worker=node.number + 1)

    def without_worker(self, node: NodeId) -> Layout:
        """A worker has left for good."""
        _check_member(node, self.workers)
        return self._change(workers=tuple(other for other in self.workers if other != node))

    def with_server(self, node: NodeId) -> Layout:
        """A server more, which holds nothing."""
        self._check_new(node, "server")
        return self._change(servers=(*self.servers, node), next_server=node.number + 1)

    def without_server(self, node: NodeId) -> Layout:
        """A server has left for good; it must not hold anything."""
        _check_member(node, self.servers)
        if node in self.holders:
            raise ValueError(f"{node}: holds parameters; repartition the vector among the others first")
        return self._change(servers=tuple(other for other in self.servers if other != node))

    def repartitioned(self, servers: Sequence[NodeId], shares: Sequence[float]) -> Layout:
        """The vector is cut again: these servers hold it, in this order and in proportion to their shares."""
        if not servers or len(set(servers)) != len(servers) or len(shares) != len(servers):
            raise ValueError(f"{len(servers)} servers and {len(shares)} shares: give one share for each server")
        for server in servers:
            _check_member(server, self.servers)
        if wrong := [share for share in shares if not 0 < share < inf]:
            raise ValueError(f"share {wrong[0]}: must be positive and finite")
        return self._change(shares=tuple(zip(servers, map(float, shares), strict=True)))

    def _check_new(self, node: NodeId, role: str) -> None:
        if node.role != role or node.number < self.next_number(role):
            following = NodeId(role, self.next_number(role))
            raise ValueError(f"{node}: numbers are never reused; the next {role} is {following}")

    def _change(self, **fields: object) -> Layout:
        return msgspec.structs.replace(self, version=self.version + 1, **fields)

    def describe(self) -> dict[str, object]:
        """The fields of a record's ``LayoutChanged``: nodes as texts, shares by server in the order of the vector."""
        return {
            "version": self.version,
            "nodes": [str(node) for node in self.nodes],
            "shares": {str(server): share for server, share in self.shares},
        }


def _check_member(node: NodeId, members: Iterable[NodeId]) -> None:
    if node not in members:
        raise ValueError(f"{node}: there is no such node")
