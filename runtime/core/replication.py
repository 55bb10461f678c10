"""Replicas of the servers: which are present, and which gradients workers still keep for them (pure).

A worker keeps a gradient that it has announced until all present replicas have followed its update. Gradients of a lost
worker cannot be sent any more; a copy of all parameters can, at any time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, final

import msgspec

from runtime.core.job import Port, ReplicateOrder
from strategies.protocol import Grad, ProtocolError, Replicate


class Step(NamedTuple):
    """The optimizer's rule, from which a strategy can bound an update; as in ``Started``."""

    step: Literal["", "sgd", "tally"] = ""
    momentum: float = 0.0


def step_of(optimizer: Mapping[str, Any]) -> Step:
    """The rule of a job with replicas."""
    return Step("tally" if optimizer["name"] == "tally" else "sgd", float(optimizer.get("momentum") or 0.0))


class Kept(msgspec.Struct):
    """A gradient that its worker keeps."""

    worker: int
    version: int | None = None
    """The version of the update that it was applied in."""


@final
class Replication:
    """``followed`` has the version of every present replica, ``incarnations`` which process that is."""

    def __init__(self, port: Port, replicas: tuple[int, ...]) -> None:
        self.port, self._any = port, bool(replicas)
        self.followed = dict.fromkeys(replicas, 0)
        self.incarnations = dict.fromkeys(replicas, 0)
        self._kept: dict[int, Kept] = {}
        self.asked: dict[tuple[int, int | None], int | None] = {}
        """Transfers under way: replica and gradient, and the worker that sends it."""

    def ready(self, grad: Grad) -> None:
        """A worker holds it."""
        if self._any:
            self._kept[grad.id] = Kept(grad.worker)

    def applied(self, ids: tuple[int, ...], version: int) -> None:
        """The servers have used these."""
        if not self._kept:
            return
        for grad_id in ids:
            if grad_id in self._kept:
                self._kept[grad_id].version = version
        if not self.followed:
            self._prune()

    def dropped(self, ids: tuple[int, ...]) -> None:
        """Nobody will use these."""
        self._release(ids)

    def _release(self, ids: Iterable[int]) -> None:
        """Let workers forget what they keep of these."""
        let_go: defaultdict[int, list[int]] = defaultdict(list)
        for grad_id in ids:
            if (kept := self._kept.pop(grad_id, None)) is not None:
                let_go[kept.worker].append(grad_id)
                for server in self.followed:
                    self.asked.pop((server, grad_id), None)  # if it has not left yet, it does not come
        for worker, grads in let_go.items():
            self.port.release(worker, tuple(grads))

    def lost_worker(self, worker: int) -> None:
        """Forget what the lost worker kept."""
        self._kept = {grad_id: kept for grad_id, kept in self._kept.items() if kept.worker != worker}
        self.asked = {key: sender for key, sender in self.asked.items() if sender != worker}

    def _is_applied(self, grad_id: int) -> bool:
        return grad_id in self._kept and self._kept[grad_id].version is not None

    def void(self) -> None:
        """All roll back: workers keep nothing, and nobody follows before it has a copy."""
        self._kept.clear()
        self.asked.clear()
        self.followed = dict.fromkeys(self.followed, 0)

    def joined(self, server: int, incarnation: int) -> None:
        """A replica is there, and has nothing."""
        self.followed[server], self.incarnations[server] = 0, incarnation

    def lost(self, server: int) -> bool:
        """A replica is gone, or holds the parameters now; whether it was there."""
        self.asked = {key: worker for key, worker in self.asked.items() if key[0] != server}
        was_there = self.followed.pop(server, None) is not None
        self._prune()
        return was_there

    def replicated(self, server: int, version: int, grad_id: int | None) -> bool:
        """A replica has followed up to this version; whether it is present."""
        if server not in self.followed:
            return False
        self.asked.pop((server, grad_id), None)
        self.followed[server] = max(self.followed[server], version)
        self._prune()
        return True

    def _prune(self) -> None:
        """Forget the versions that all present replicas have followed."""
        least = min(self.followed.values(), default=math.inf)
        self._release([one for one, kept in self._kept.items() if kept.version is not None and kept.version <= least])

    def replicate(self, command: Replicate, version: int) -> None:
        """Let a replica receive something."""
        if command.server not in self.followed:
            there = ", ".join(map(str, sorted(self.followed))) or "none"
            raise ProtocolError(f"{command}: no replica has this number (there are {there})")
        if command.grad is None:
            on_their_way = [one for server, one in self.asked if server == command.server and one is not None]
            overtaken = tuple([one for one in on_their_way if self._is_applied(one)])
            self.asked[command.server, None] = None
            self.port.replicate(ReplicateOrder(server=command.server, version=version, overtaken=overtaken))
            return
        kept = self._kept.get(command.grad)
        if kept is None:
            raise ProtocolError(f"{command}: no worker keeps gradient {command.grad} (kept are {sorted(self._kept)})")
        self.asked[command.server, command.grad] = kept.worker
        self.port.replicate(
            ReplicateOrder(server=command.server, version=version, grad_id=command.grad, worker=kept.worker)
        )
