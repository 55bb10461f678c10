"""``launcher=join``: agents that somebody has started elsewhere, and that join by address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

from runtime.api import RunContext
from runtime.errors import ConfigError
from runtime.live.joining.token import NEW, read_token
from runtime.live.launchers.meeting import Meeting
from runtime.live.launchers.rendezvous import Rendezvous


@final
@dataclass(kw_only=True)
class Join(Meeting):
    """Waits for ``nodes`` agents; every field is described in ``conf/launcher/join.yaml``."""

    name: ClassVar[str] = "join"
    needs_broker: ClassVar[bool] = False
    cure: ClassVar[str] = ""
    token_file: str | None
    gpus_per_node: int

    def __post_init__(self) -> None:
        """Check every field by itself."""
        super().__post_init__()
        if not 0 < self.port < 65536:
            raise ConfigError(f"launcher.port={self.port}: must be between 1 and 65535, since agents need to know it")
        if self.gpus_per_node < 0:
            raise ConfigError(f"launcher.gpus_per_node={self.gpus_per_node}: must be 0 or more")
        if self.token_file is not None:
            self.token_file = str(Path(self.token_file).absolute())  # the job may change its directory

    def check_own(self, around: RunContext) -> None:
        if self.token_file is None:
            raise ConfigError(f"launcher.token_file=null: name the file with the token; {NEW}")
        read_token(self.token_file, "launcher.token_file")

    def token(self) -> bytes:
        assert self.token_file is not None
        return read_token(self.token_file, "launcher.token_file")

    def gpus_of_agents(self) -> int:
        return self.gpus_per_node

    def summon(self, rendezvous: Rendezvous, token: bytes) -> Callable[[], None]:
        return lambda: None  # somebody else starts them

    def start_again(self, start: int) -> None:
        """Somebody else starts them."""

    def dismiss(self) -> None:
        """They end by themselves."""
