"""Process groups of ``torch.distributed`` among replicas, made anew whenever the members change."""

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
from runtime.live.transport.acceptor import LOOK_EVERY_S
from runtime.live.transport.auth import Identity
from runtime.live.transport.messages import Peer

MEETING_DEADLINE_S = 10.0
"""Members of a new group meet within so long, or somebody is gone."""
DEADLINE = timedelta(seconds=MEETING_DEADLINE_S)
MEETING_PLACE = "groups"
"""Folder of a run where they meet: gloo's rendezvous is a file."""


class TorchGroup:
    """One member's end. ``backend`` is ``gloo`` or ``nccl`` (a CUDA device for each member).

    Members meet when they first need each other. Torch cannot be interrupted while it waits for them, so that is left
    to a thread, which ``look`` can make us forget; a member that is lost later shows as an error of the call.
    """

    def __init__(self, backend: str, run_dir: str, me: Identity, address: str, look: Callable[[], None]) -> None:
        self.backend, self.me, self.address, self.look = backend, me, address, look
        self.folder = Path(run_dir) / MEETING_PLACE
        self.generation = 0
        self.peers: tuple[Peer, ...] = ()
        self._joined: tuple[int, tuple[Peer, ...]] | None = None
        self._group: Any = None

    def form(self, generation: int, peers: Sequence[Peer]) -> None:
        """These are the members from now on."""
        self.generation, self.peers = generation, tuple(peers)

    @property
    def rank(self) -> int:
        """Ours among the members."""
        return [peer.worker for peer in self.peers].index(self.me.id)

    def _join(self) -> None:
        """Be in a group of exactly the members of now."""
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
        import torch.distributed as dist

        store, rank, size = self.meeting_place(DEADLINE), self.rank, len(self.peers)
        if self.backend == "gloo":
            return dist.ProcessGroupGloo(store, rank, size, timeout=DEADLINE)
        return dist.ProcessGroupNCCL(store, rank, size, dist.ProcessGroupNCCL.Options())

    def meeting_place(self, deadline: timedelta) -> Any:
        """Of exactly these members; waiting in it ends with an error at the deadline."""
        import torch.distributed as dist

        self.folder.mkdir(exist_ok=True)
        members = "-".join(f"{peer.worker}.{peer.incarnation}" for peer in self.peers)
        path = str(self.folder / f"{self.generation}-{members}")
        store = dist.FileStore(path, len(self.peers))  # type: ignore[attr-defined]
        store.set_timeout(deadline)
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = interface_of(self.address)
        return store

    def all_reduce(self, vector: FloatVector) -> None:
        """Leave the sum over all members in the vector of each; raises ``ConnectionError``."""
        if len(self.peers) == 1:
            return
        try:
            self._join()
            self._sum(vector)
        except RuntimeError as error:  # how torch tells of a lost member
            raise ConnectionError(str(error).splitlines()[0]) from error

    def _sum(self, vector: FloatVector) -> None:
        import torch

        ours = torch.from_numpy(vector)
        if self.backend == "gloo":
            self._group.allreduce([ours]).wait(DEADLINE)
            return
        there = ours.to(f"cuda:{self.rank}")
        self._group.allreduce([there]).wait(DEADLINE)
        ours.copy_(there)

    def close(self) -> None:
        """Leave the group: the others learn it."""
        self._joined = self._group = None


def _into(future: Future[Any], call: Callable[[], Any]) -> None:
    """What ``call`` returns or raises."""
    try:
        future.set_result(call())
    except Exception as error:  # noqa: BLE001  (whoever waits raises it)
        future.set_exception(error)


def interface_of(address: str) -> str:
    """Name of the network interface that has an address; raises ``ConnectionError``."""
    for name, ours in psutil.net_if_addrs().items():
        if any(one.address == address for one in ours):
            return str(name)
    raise ConnectionError(f"no interface here has the address {address}")
