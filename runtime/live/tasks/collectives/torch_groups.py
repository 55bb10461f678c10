"""Process groups of ``torch.distributed`` among replicas, created again whenever the members change."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from runtime.core.vectors import FloatVector
from runtime.live.joining.shared_folder import MEETING_PLACE
from runtime.live.transport.acceptor import LOOK_EVERY_S
from runtime.live.transport.auth import Identity
from runtime.live.transport.messages import Peer

MEETING_DEADLINE_S = 10.0
"""Seconds within which the members of a new group must join; otherwise one counts as gone."""
DEADLINE = timedelta(seconds=MEETING_DEADLINE_S)
SUM_DEADLINE = timedelta(hours=1)
"""More than any sum takes. Gloo gives up by itself when nothing has come from a member for :data:`DEADLINE`."""


class TorchGroup:
    """One member's end, by gloo, on vectors of the host.

    A group is joined at its first use. Torch cannot be interrupted while it waits for members, so a thread joins, which
    is abandoned when ``look`` raises; a member lost later causes an error of the call.
    """

    def __init__(self, folder: str, me: Identity, address: str, look: Callable[[], None]) -> None:
        self.me, self.address, self.look = me, address, look
        self.folder = Path(folder) / MEETING_PLACE
        self.generation = 0
        self.peers: tuple[Peer, ...] = ()
        self._joined: tuple[int, tuple[Peer, ...]] | None = None
        self._group: Any = None

    def form(self, generation: int, peers: Sequence[Peer]) -> None:
        """These are the members from now on."""
        self.generation, self.peers = generation, tuple(peers)

    @property
    def rank(self) -> int:
        """Our rank among the members."""
        return [peer.worker for peer in self.peers].index(self.me.id)

    def _join(self) -> None:
        """Join a group of exactly the current members."""
        now = (self.generation, self.peers)
        if self._joined == now:
            return
        self.close()
        meeting: Future[Any] = Future()
        threading.Thread(target=_into, args=(meeting, self._meet), name="meeting", daemon=True).start()
        while True:
            try:
                self._group = meeting.result(LOOK_EVERY_S)
                break
            except TimeoutError:
                self.look()
        self._joined = now

    def _meet(self) -> Any:
        return self._make(self.meeting_place(DEADLINE), self.rank, len(self.peers))

    def _make(self, store: Any, rank: int, size: int) -> Any:
        """A group of ``size`` members, which meet in ``store``."""
        import torch.distributed as dist

        return dist.ProcessGroupGloo(store, rank, size, timeout=DEADLINE)

    def meeting_place(self, deadline: timedelta) -> Any:
        """The rendezvous of exactly these members; waiting ends with an error at the deadline."""
        import torch.distributed as dist

        self.folder.mkdir(exist_ok=True)
        members = "-".join(f"{peer.worker}.{peer.incarnation}" for peer in self.peers)
        path = str(self.folder / f"{self.generation}-{members}")
        store = dist.FileStore(path, len(self.peers))  # type: ignore[attr-defined]
        store.set_timeout(deadline)
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = interface_of(self.address)
        return store

    def all_reduce(self, vector: FloatVector) -> None:
        """Sum the members' vectors in place, on every member; raises ``ConnectionError``."""
        if len(self.peers) == 1:
            return
        try:
            self._join()
            self._sum(vector)
        except RuntimeError as error:  # torch's error for a lost member
            raise ConnectionError(str(error).splitlines()[0]) from error

    def _sum(self, vector: FloatVector) -> None:
        """Until it is done or gloo gives up: gloo may write to the vector until then."""
        import torch

        self._group.allreduce([torch.from_numpy(vector)]).wait(SUM_DEADLINE)

    def close(self) -> None:
        """Leave the group, which the others notice."""
        self._joined = self._group = None


def _into(future: Future[Any], call: Callable[[], Any]) -> None:
    """Store what ``call`` returns or raises."""
    try:
        future.set_result(call())
    except Exception as error:  # noqa: BLE001  (the waiting thread raises it)
        future.set_exception(error)


def interface_of(address: str) -> str:
    """Name of the network interface with this address; raises ``ConnectionError``."""
    for name, ours in psutil.net_if_addrs().items():
        if any(one.address == address for one in ours):
            return str(name)
    raise ConnectionError(f"no interface here has the address {address}")
