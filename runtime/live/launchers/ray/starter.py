"""``launcher=ray``: the nodes of a Ray cluster."""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import ClassVar, Literal, final

from runtime.api import RunContext
from runtime.errors import ConfigError
from runtime.house import ROOT, module_name
from runtime.live.joining.token import STDIN, TOKEN_BYTES
from runtime.live.launchers.meeting import Meeting
from runtime.live.launchers.ray.broker import the_broker
from runtime.live.launchers.ray.capacity import SPREAD
from runtime.live.launchers.ray.requests import Request
from runtime.live.launchers.rendezvous import Rendezvous

ENDPOINT = re.compile(r"(?P<host>[^:/]+):(?P<port>[0-9]{1,5})")
REACH_S = 3.0
AGENT_WAIT_S = 20
"""Seconds that an agent tries to reach the run."""


@final
@dataclass(kw_only=True)
class OnRay(Meeting):
    """Has agents started on ``nodes`` nodes; every field is described in ``conf/launcher/ray.yaml``."""

    name: ClassVar[str] = "ray"
    needs_broker: ClassVar[bool] = True
    cure: ClassVar[str] = "ray status, and Ray's own logs, say why the others did not come"
    address: str
    auth_token_file: str | None
    placement: Literal["STRICT_SPREAD", "SPREAD", "PACK"]
    cpus_per_node: float
    gpus_per_node: float
    labels: dict[str, str | int] | None
    directory: str | None

    def __post_init__(self) -> None:
        """Check every field by itself."""
        super().__post_init__()
        if not 0 <= self.port < 65536:
            raise ConfigError(f"launcher.port={self.port}: must be between 0 (any free one) and 65535")
        known = ENDPOINT.fullmatch(self.address)
        if self.address not in ("auto", "local") and (not known or not 0 < int(known["port"]) < 65536):
            raise ConfigError(f"launcher.address={self.address}: must be auto, local, or HOST:PORT of a Ray cluster")
        if not 0 < self.cpus_per_node < inf:
            raise ConfigError(f"launcher.cpus_per_node={self.cpus_per_node:g}: must be more than 0")
        if not 0 <= self.gpus_per_node < inf:
            raise ConfigError(f"launcher.gpus_per_node={self.gpus_per_node:g}: must be 0 or more")
        if self.gpus_per_node > 1 and self.gpus_per_node % 1:
            raise ConfigError(
                f"launcher.gpus_per_node={self.gpus_per_node:g}: Ray gives parts of one GPU only; use a whole "
                "number, or less than 1"
            )
        if self.address == "local" and self.nodes > 1 and self.placement == SPREAD:
            raise ConfigError(
                f"launcher.nodes={self.nodes}: launcher.address=local is one node; set launcher.placement=PACK, or "
                "launcher.nodes=1"
            )
        if self.auth_token_file is not None:
            self.auth_token_file = str(Path(self.auth_token_file).absolute())

    def check_own(self, around: RunContext) -> None:
        if find_spec("ray") is None:
            raise ConfigError("launcher=ray: Ray is not installed; pip install 'stragglab[ray]' on every node")
        if self.auth_token_file is not None and not Path(self.auth_token_file).is_file():
            raise ConfigError(
                f"launcher.auth_token_file={self.auth_token_file}: is not there; name the file with Ray's own token"
            )
        if known := ENDPOINT.fullmatch(self.address):
            try:
                socket.create_connection((known["host"], int(known["port"])), REACH_S).close()
            except OSError as error:
                words = "nobody answers" if isinstance(error, TimeoutError) else str(error).rpartition("] ")[2].lower()
                raise ConfigError(
                    f"launcher.address={self.address}: {words}; start Ray there (ray start --head), or look for a "
                    "firewall"
                ) from None

    def token(self) -> bytes:
        return secrets.token_bytes(TOKEN_BYTES)

    def summon(self, rendezvous: Rendezvous, token: bytes) -> Callable[[], None]:
        broker = the_broker()
        agent, join = module_name("runtime.live.agent"), f"{self.here}:{rendezvous.hub.address.port}"
        broker.start(
            Request(
                address=self.address,
                auth_token_file=self.auth_token_file or "",
                nodes=self.nodes,
                placement=self.placement,
                cpus_per_node=self.cpus_per_node,
                gpus_per_node=self.gpus_per_node,
                labels={name: str(value) for name, value in (self.labels or {}).items()},
                directory=self.directory or str(ROOT),
                words=(
                    agent,
                    "--join",
                    join,
                    "--token-file",
                    STDIN,
                    "--wait-s",
                    str(AGENT_WAIT_S),
                    *(["--tls"] if self.tls else []),
                ),
                token=token.hex(),
                wait_s=self.wait_s,
                again=self.rejoin_s > 0,
            )
        )
        return broker.look

    def start_again(self, start: int) -> None:
        the_broker().start_again(start)

    def dismiss(self) -> None:
        the_broker().release()
