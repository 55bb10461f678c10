"""Where agents join, however they were started: for ``launcher=join`` and ``launcher=ray``."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from runtime.api import RunContext
from runtime.backends.devices.choice import CPU, FAKE
from runtime.cluster.hosts import BITS_PER_MBIT
from runtime.config.parse import Cluster
from runtime.core.collectives.known import SCHEDULES
from runtime.errors import ConfigError
from runtime.live.joining import wire
from runtime.live.joining.data import prepare
from runtime.live.joining.facts import look_here
from runtime.live.joining.shared_folder import SharedFolder
from runtime.live.joining.site import Site
from runtime.live.joining.ways import coordinators_door, open_door, words_of
from runtime.live.launchers.interfaces import addresses, interface_address
from runtime.live.launchers.orders import MeetingLauncher
from runtime.live.launchers.rendezvous import Rendezvous, Wanted
from runtime.live.transport.loop import Loop
from runtime.live.transport.secured import new_certificate
from runtime.live.transport.silence import AGENT_HEARTBEAT_S
from strategies.protocol import Repartition

SALT_BYTES = 32
MOST_NODES = 1000
"""Of a run; more is assumed to be a typo."""
LONGEST_S = 30 * 86_400.0
"""A month in seconds: no job waits longer. The kernel cannot wait for many times that at once."""
WITHOUT = "launcher=local does without"
_open: list[Rendezvous] = []
"""The one that listens now: a job that fails before it starts leaves it to the next one of a sweep."""


@dataclass(kw_only=True)
class Meeting(ABC):
    """Waits for ``nodes`` agents. Subclasses define the token, and how agents start."""

    nodes: int
    listen: str | None
    port: int
    wait_s: float
    lease_s: float
    rejoin_s: float
    link_mbps: float | None
    shared_dir: str | None
    tls: bool
    trusts_network: bool
    elsewhere: ClassVar[bool] = True
    name: ClassVar[str]
    """As in ``launcher=NAME``."""
    cure: ClassVar[str]
    """Advice if too few agents have joined; empty: start agents."""
    _shared: SharedFolder | None = field(default=None, init=False)
    """Our own directory below ``shared_dir``."""
    _salt: bytes = field(default=b"", init=False)
    """Of the job's secret."""

    def __post_init__(self) -> None:
        """Check every field by itself."""
        if not 1 <= self.nodes <= MOST_NODES:
            raise ConfigError(f"launcher.nodes={self.nodes}: must be between 1 and {MOST_NODES}")
        if not 0 < self.wait_s <= LONGEST_S:
            raise ConfigError(f"launcher.wait_s={self.wait_s:g}: must be more than 0, and at most {LONGEST_S:.0f}")
        if not 4 * AGENT_HEARTBEAT_S <= self.lease_s <= LONGEST_S:
            raise ConfigError(
                f"launcher.lease_s={self.lease_s:g}: must be between {4 * AGENT_HEARTBEAT_S:g} and {LONGEST_S:.0f}"
            )
        if self.link_mbps is not None and not 0 < self.link_mbps < inf:
            raise ConfigError(
                f"launcher.link_mbps={self.link_mbps:g}: must be more than 0, or null where no link is slowed"
            )
        if not 0 <= self.rejoin_s <= LONGEST_S:
            raise ConfigError(
                f"launcher.rejoin_s={self.rejoin_s:g}: must be 0 (a lost node ends the job) or more, and at most "
                f"{LONGEST_S:.0f}"
            )
        if self.rejoin_s and self.shared_dir is None:
            raise ConfigError(
                f"launcher.rejoin_s={self.rejoin_s:g}: the checkpoints of a lost machine would be lost with it; set "
                "launcher.shared_dir, or launcher.rejoin_s=0"
            )
        self.here = interface_address(self.listen)
        """The address at which we listen."""

    @abstractmethod
    def check_own(self, around: RunContext) -> None:
        """Check what only this launcher has; raises :class:`ConfigError`."""

    @abstractmethod
    def token(self) -> bytes:
        """The token of the next job."""

    @abstractmethod
    def summon(self, rendezvous: Rendezvous, token: bytes) -> Callable[[], None]:
        """Have agents started that join there, if that is ours to do.

        Returns what is called again and again until all have joined, and raises :class:`ConfigError` if they cannot.
        """

    @abstractmethod
    def start_again(self, start: int) -> None:
        """The job has lost an agent that :meth:`summon` has had started under this number (0: none), and waits."""

    @abstractmethod
    def dismiss(self) -> None:
        """The job is over: end what :meth:`summon` has started."""

    # ---- before the run ----------------------------------------------------------------------------------------------

    def check(self, cluster: Cluster, around: RunContext, port: int) -> None:
        if cluster.hosts is not None:
            raise ConfigError(
                f"launcher={self.name}: cluster.hosts are emulated on one machine; set cluster=local, or {WITHOUT}"
            )
        if around.transport != "tcp":
            raise ConfigError(
                f"topology.transport={around.transport}: machines share no memory; use topology.transport=tcp"
            )
        self._check_collective(around.collective)
        self._check_links(around)
        if around.collective and self.shared_dir is None:
            raise ConfigError(
                "launcher.shared_dir=null: a checkpoint of replicas is stored by one of them and read by all; name a "
                "directory of all machines"
            )
        self.check_own(around)
        self._check_listen()
        if port and port == self.port:
            raise ConfigError(
                f"runtime.port={port}: is launcher.port, where agents join; choose another, or 0 for any free one"
            )
        coordinators_door(self.here, port).close()
        if self.shared_dir is not None and not os.access(self.shared_dir, os.W_OK | os.X_OK):
            raise ConfigError(f"launcher.shared_dir={self.shared_dir}: is no directory that can be written")

    def _check_collective(self, collective: str) -> None:
        """Gloo's own connections are neither authenticated nor encrypted: any process that reaches them can join."""
        if collective in ("", *SCHEDULES):
            return
        setting = f"topology.collective={collective}"
        if collective == "nccl":
            raise ConfigError(f"{setting}: is built for one machine; use topology.collective=ring, or {WITHOUT}")
        if self.tls:
            raise ConfigError(
                f"launcher.tls=true: the connections of {setting} are not encrypted; use topology.collective=ring, or "
                "launcher.tls=false"
            )
        if not self.trusts_network:
            raise ConfigError(
                f"{setting}: whoever reaches its ports could take part, since its connections prove no token; use "
                "topology.collective=ring, or launcher.trusts_network=true where only the run's machines can"
            )

    def _check_links(self, around: RunContext) -> None:
        """Check that only links between workers and servers are to be paced."""
        if cut := around.targets_of("cut"):
            raise ConfigError(
                f"launcher={self.name}: connections can be paced, and nothing cuts {cut[0]}; choose kind bandwidth, or "
                "cluster=hosts on one machine"
            )
        if not (slowed := around.targets_of("bandwidth")):
            return
        if self.link_mbps is None:
            raise ConfigError(
                f"launcher.link_mbps=null: {slowed[0]} has no rate to throttle; set it to that of the slowest "
                "machine's interface"
            )
        if around.collective or around.replicas:
            setting = (
                f"topology.collective={around.collective}"
                if around.collective
                else f"strategy.num_replicas={around.replicas}"
            )
            raise ConfigError(
                f"{setting}: {slowed[0]} is slowed by pacing what workers and servers send to each other, and not what "
                "replicas do; choose topology=ps without replicas, or another straggler"
            )

    def _check_listen(self) -> None:
        try:
            open_door(self.here, self.port).close()
        except OSError as error:
            raise ConfigError(
                f"launcher.listen={self.listen}, launcher.port={self.port}: {words_of(error)}; this machine has "
                f"{addresses()}"
            ) from None

    def unable(self) -> dict[str, str]:
        alone = "launcher.shared_dir=null: servers take over what those of other machines have stored; name a directory"
        return {} if self.shared_dir else {Repartition.__name__: f"{alone} of all machines"}

    def gpus_of_agents(self) -> int:
        """How many GPUs every agent must see."""
        return 0

    def await_nodes(self, task: dict[str, Any], framework: str, device: str, port: int) -> None:
        self.release()
        token = self.token()
        self._salt = secrets.token_bytes(SALT_BYTES)
        certificate = new_certificate() if self.tls else ""
        prepared = prepare(task)
        if prepared.problem:
            raise ConfigError(f"workload: {prepared.problem}")
        self._shared = None if self.shared_dir is None else SharedFolder(Path(self.shared_dir))
        wanted = Wanted(
            nodes=self.nodes,
            listen=self.here,
            port=self.port,
            wait_s=self.wait_s,
            lease_s=self.lease_s,
            token=token,
            launcher=self.name,
            cure=self.cure,
            ours=look_here(self.here, capabilities=False),
            framework=framework,
            gpus=0 if device == CPU else self.gpus_of_agents(),
            fake_gpus=device == FAKE,
            task=task,
            prepared=prepared,
            tasks_port=port,
            shared=self._shared_path,
            certificate=certificate,
        )
        try:
            _open.append(Rendezvous(wanted))
            with _interruptible():
                _open[-1].await_nodes(self.summon(_open[-1], token))
        except BaseException:
            self.release()
            raise

    # ---- the run -----------------------------------------------------------------------------------------------------

    @property
    def _shared_path(self) -> str:
        return "" if self._shared is None else str(self._shared.path)

    @property
    def _rendezvous(self) -> Rendezvous:
        return _open[-1]

    def loop(self) -> Loop | None:
        return self._rendezvous.loop

    def site(self) -> Site:
        there = self._rendezvous
        return Site(
            nodes=tuple(there.keys),
            lease_s=self.lease_s + 4 * AGENT_HEARTBEAT_S,
            addresses={node: there.members[key].address for node, key in there.keys.items()},
            listen=self.here,
            secret=wire.secret_of(there.wanted.token, self._salt),
            certificate=there.wanted.certificate,
            checkpoints=self._shared_path,
            link_bytes_per_s=None if self.link_mbps is None else self.link_mbps * BITS_PER_MBIT / 8,
        )

    def make(self) -> MeetingLauncher:
        return MeetingLauncher(self._rendezvous, self._salt, self.rejoin_s, self.start_again)

    def release(self) -> None:
        while _open:
            _open.pop().close()
        self.dismiss()
        if self._shared is not None:
            self._shared.remove()
            self._shared = None

    def describe(self) -> list[dict[str, Any]]:
        there = self._rendezvous
        return [{"node": node, **msgspec.to_builtins(there.members[key])} for node, key in there.keys.items()]


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C and similar signals unwind, so that all preparations are undone."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, leave) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
