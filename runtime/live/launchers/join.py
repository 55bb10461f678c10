"""``launcher=join``: agents that somebody has started elsewhere, and that join by address."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, ClassVar, final

import msgspec
import psutil

from runtime.api import OF_NODES, AgentStart, RunContext
from runtime.config.parse import Cluster
from runtime.errors import ConfigError
from runtime.live.joining import wire
from runtime.live.joining.data import prepare
from runtime.live.joining.facts import look_here
from runtime.live.joining.site import SAVED, Site
from runtime.live.joining.token import NEW, read_token
from runtime.live.launchers.pieces import Pieces
from runtime.live.launchers.rendezvous import HEARTBEAT_S, Rendezvous, Wanted
from runtime.live.transport.loop import Loop
from runtime.live.transport.task_spec import TaskSpec

SALT_BYTES = 32
WITHOUT = "launcher=local does without"
_open: list[Rendezvous] = []
"""The one that listens now: a job that fails before it starts leaves it to the next one of a sweep."""


@final
@dataclass(kw_only=True)
class Join:
    """Waits for ``nodes`` agents; every field is described in ``conf/launcher/join.yaml``."""

    nodes: int
    listen: str | None
    port: int
    token_file: str | None
    wait_s: float
    lease_s: float
    rejoin_s: float
    shared_dir: str | None
    elsewhere: ClassVar[bool] = True
    _shared: str = field(default="", init=False)
    """Our own directory below ``shared_dir``."""
    _salt: bytes = field(default=b"", init=False)
    """Of the job's secret."""

    def __post_init__(self) -> None:
        """Check every field by itself."""
        if self.nodes < 1:
            raise ConfigError(f"launcher.nodes={self.nodes}: must be 1 or more")
        if not 0 < self.port < 65536:
            raise ConfigError(f"launcher.port={self.port}: must be between 1 and 65535, since agents need to know it")
        if not self.wait_s > 0:
            raise ConfigError(f"launcher.wait_s={self.wait_s:g}: must be more than 0")
        if self.lease_s < 4 * HEARTBEAT_S:
            raise ConfigError(f"launcher.lease_s={self.lease_s:g}: must be at least {4 * HEARTBEAT_S:g}")
        if not 0 <= self.rejoin_s < inf:
            raise ConfigError(f"launcher.rejoin_s={self.rejoin_s:g}: must be 0 (a lost node ends the job) or more")
        if self.rejoin_s and self.shared_dir is None:
            raise ConfigError(
                f"launcher.rejoin_s={self.rejoin_s:g}: the checkpoints of a lost machine would be lost with it; set "
                "launcher.shared_dir, or launcher.rejoin_s=0"
            )
        self.address = interface_address(self.listen)
        """As checked."""
        if self.token_file is not None:
            self.token_file = str(Path(self.token_file).absolute())  # the job may change its directory

    # ---- before the run ----------------------------------------------------------------------------------------------

    def check(self, cluster: Cluster, around: RunContext) -> None:
        if cluster.hosts is not None:
            raise ConfigError(
                f"launcher=join: cluster.hosts are emulated on one machine; set cluster=local, or {WITHOUT}"
            )
        if around.transport != "tcp":
            raise ConfigError(
                f"topology.transport={around.transport}: machines share no memory; use topology.transport=tcp"
            )
        if around.collective:
            raise ConfigError(
                f"topology.collective={around.collective}: replicas on several machines are not supported yet; use "
                f"topology=ps, or {WITHOUT}"
            )
        if around.watches_use:
            raise ConfigError(
                f"launcher=join: what tasks use is sampled on this machine only, and the strategy watches it; {WITHOUT}"
            )
        if self.token_file is None:
            raise ConfigError(f"launcher.token_file=null: name the file with the token; {NEW}")
        read_token(self.token_file, "launcher.token_file")
        self._check_listen()
        if self.shared_dir is not None and not os.access(self.shared_dir, os.W_OK | os.X_OK):
            raise ConfigError(f"launcher.shared_dir={self.shared_dir}: is no directory that can be written")

    def _check_listen(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((self.address, self.port))
            except OSError as error:
                words = (error.strerror or str(error)).lower()
                raise ConfigError(
                    f"launcher.listen={self.listen}, launcher.port={self.port}: {words}; this machine has {addresses()}"
                ) from None

    def unable(self) -> dict[str, str]:
        fixed = f"launcher=join: the nodes of a job and what they may use are fixed there; {WITHOUT}"
        return {command.__name__: fixed for command in OF_NODES}

    def gather(self, task: dict[str, Any], framework: str) -> None:
        assert self.token_file is not None
        self.release()
        self._salt = secrets.token_bytes(SALT_BYTES)
        prepared = prepare(task)
        if prepared.problem:
            raise ConfigError(f"workload: {prepared.problem}")
        self._shared = "" if self.shared_dir is None else tempfile.mkdtemp(prefix="stragglab-", dir=self.shared_dir)
        wanted = Wanted(
            nodes=self.nodes,
            listen=self.address,
            port=self.port,
            wait_s=self.wait_s,
            lease_s=self.lease_s,
            token=read_token(self.token_file, "launcher.token_file"),
            ours=look_here(self.address, capabilities=False),
            framework=framework,
            task=task,
            prepared=prepared,
            shared=self._shared,
        )
        try:
            _open.append(Rendezvous(wanted))
            with _interruptible():
                _open[-1].gather()
        except BaseException:
            self.release()
            raise

    # ---- the run -----------------------------------------------------------------------------------------------------

    @property
    def _rendezvous(self) -> Rendezvous:
        return _open[-1]

    def loop(self) -> Loop | None:
        return self._rendezvous.loop

    def site(self) -> Site:
        there = self._rendezvous
        return Site(
            nodes=tuple(there.keys),
            addresses={node: there.members[key].address for node, key in there.keys.items()},
            listen=self.address,
            secret=wire.secret_of(there.wanted.token, self._salt),
            checkpoints=self._shared,
        )

    def make(self) -> JoinLauncher:
        return JoinLauncher(self._rendezvous, self._salt, self.rejoin_s)

    def release(self) -> None:
        while _open:
            _open.pop().close()
        if self._shared:
            shutil.rmtree(self._shared, ignore_errors=True)
            self._shared = ""

    def describe(self) -> list[dict[str, Any]]:
        there = self._rendezvous
        return [{"node": node, **msgspec.to_builtins(there.members[key])} for node, key in there.keys.items()]


@final
class JoinLauncher:
    """See :class:`runtime.api.Launcher`; the agents run already, and start a tasks' agent each on demand."""

    def __init__(self, rendezvous: Rendezvous, salt: bytes, rejoin_s: float) -> None:
        self.rendezvous, self.salt, self.rejoin_s = rendezvous, salt, rejoin_s
        self._started: set[str] = set()

    def start(self, node: str, agent: AgentStart) -> None:
        self._started.add(node)
        spec = msgspec.msgpack.decode(agent.spec, type=TaskSpec)
        begin = wire.Begin(
            spec=msgspec.msgpack.encode(msgspec.structs.replace(spec, secret=b"")),
            salt=self.salt,
            lease_s=self.rendezvous.wanted.lease_s,
            heartbeat_s=HEARTBEAT_S,
        )
        saved_to = agent.log.parents[1] / SAVED
        self.rendezvous.begin(node, begin, Pieces(agent.log, saved_to if agent.saves else None))

    def ended(self, node: str) -> str | None:
        return self.rendezvous.ended(node) if node in self._started else "it was never started"

    def end(self, node: str) -> None:
        if node in self._started:
            self.rendezvous.end(node)

    def replace(self, node: str) -> float:
        if self.rejoin_s:
            self.rendezvous.vacate(node)
        return self.rejoin_s

    def address(self, node: str) -> str | None:
        return self.rendezvous.members[self.rendezvous.keys[node]].address

    def kill_all(self) -> None:
        with contextlib.suppress(OSError):
            self.rendezvous.hang_up_now()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C and the like unwind, so that nothing is left of what was prepared."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, leave) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def interface_address(text: str | None) -> str:
    """An IPv4 address of one interface; raises :class:`ConfigError` for all interfaces at once, and for names."""
    given = f"launcher.listen={'null' if text is None else text}"
    try:
        address = ipaddress.IPv4Address(text or "")
    except ValueError:
        raise ConfigError(f"{given}: name the IPv4 address of one interface; this machine has {addresses()}") from None
    if address.is_unspecified or address.is_multicast:
        raise ConfigError(f"{given}: would listen to everybody; name one interface's address: {addresses()}")
    return str(address)


def addresses() -> str:
    """The IPv4 addresses of this machine, for messages."""
    found = [
        f"{one.address} ({name})"
        for name, several in sorted(psutil.net_if_addrs().items())
        for one in several
        if one.family == socket.AF_INET
    ]
    return ", ".join(found) or "none"
