"""Process groups of ``torch.distributed`` among replicas, made anew whenever the members change."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import psutil

from runtime.live.auth import Identity
from runtime.live.messages import Peer
from runtime.vectors import FloatVector

MEETING_DEADLINE_S = 10.0
"""Members of a new group meet within so long, or somebody is gone."""
MEETING_PLACE = "groups"
"""Folder of a run where they meet: gloo's rendezvous is a file."""


class TorchGroup:
    """One member's end. ``backend`` is ``gloo`` or ``nccl`` (a CUDA device for each member).

    It cannot be interrupted: a member that is lost shows as an error of the call, or by its deadline.
    """

    def __init__(self, backend: str, run_dir: str, me: Identity, address: str) -> None:
        self.backend, self.me, self.address = backend, me, address
        self.folder = Path(run_dir) / MEETING_PLACE
        self.generation = 0
        self.peers: tuple[Peer, ...] = ()
        self._joined: tuple[int, tuple[Peer, ...]] | None = None

    def form(self, generation: int, peers: Sequence[Peer]) -> None:
        """These are the members from now on; they meet when they first need each other."""
        self.generation, self.peers = generation, tuple(peers)

    @property
    def rank(self) -> int:
        """Ours among the members."""
        return [peer.worker for peer in self.peers].index(self.me.id)

    def join(self) -> None:
        """Be in a group of exactly the members of now; raises ``ConnectionError``."""
        if self._joined != (self.generation, self.peers):
            self.close()
            self._translate(self._meet)
            self._joined = (self.generation, self.peers)

    def _meet(self) -> None:
        import torch.distributed as dist

        self.folder.mkdir(exist_ok=True)
        members = "-".join(f"{peer.worker}.{peer.incarnation}" for peer in self.peers)
        store = dist.FileStore(  # type: ignore[attr-defined]
            str(self.folder / f"{self.generation}-{members}"), len(self.peers)
        )
        deadline = timedelta(seconds=MEETING_DEADLINE_S)
        store.set_timeout(deadline)
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = interface_of(self.address)
        dist.init_process_group(self.backend, store=store, rank=self.rank, world_size=len(self.peers), timeout=deadline)

    def all_reduce(self, vector: FloatVector) -> None:
        """Leave the sum over all members in the vector of each; raises ``ConnectionError``."""
        if len(self.peers) > 1:
            self.join()
            self._translate(lambda: self._sum(vector))

    def _sum(self, vector: FloatVector) -> None:
        import torch
        import torch.distributed as dist

        ours = torch.from_numpy(vector)
        if self.backend == "gloo":
            dist.all_reduce(ours)
            return
        there = ours.to(f"cuda:{self.rank}")
        dist.all_reduce(there)
        ours.copy_(there)

    @staticmethod
    def _translate(call: Callable[[], None]) -> None:
        """Torch tells of a lost member by a ``RuntimeError``."""
        try:
            call()
        except RuntimeError as error:
            raise ConnectionError(str(error).splitlines()[0]) from error

    def close(self) -> None:
        """Leave the group."""
        if self._joined is not None:
            import torch.distributed as dist

            self._joined = None
            dist.destroy_process_group()


def interface_of(address: str) -> str:
    """Name of the network interface that has an address; raises ``ConnectionError``."""
    for name, ours in psutil.net_if_addrs().items():
        if any(one.address == address for one in ours):
            return str(name)
    raise ConnectionError(f"no interface here has the address {address}")
