"""Files that come in pieces from agents elsewhere: logs, and the final parameters. Nothing else is accepted."""

from __future__ import annotations

import os
import re
from pathlib import Path

from runtime.live.joining.site import SAVED
from runtime.live.joining.wire import PIECE_BYTES, Piece
from runtime.live.transport.messages import MalformedMessage
from runtime.record.logs import open_log

LOG = re.compile(r"[a-z]+(-[0-9]+\.[0-9]+)?\.log")
AGENT_LOG = "agent.log"
MAX_LOG_BYTES = 64 << 20
"""Of one log; the rest is left out."""


class Pieces:
    """Writes the files of one node; ``agent_log``: the path of its agent's log, next to the tasks' logs.

    ``saved_to``: the path of the final parameters, where they are once they have come whole; None: they are not asked
    for.
    """

    def __init__(self, agent_log: Path, saved_to: Path | None) -> None:
        self.agent_log, self.saved_to = agent_log, saved_to
        self._written: dict[str, int] = {}

    @property
    def num_bytes(self) -> int:
        """Written so far, of all files together."""
        return sum(self._written.values())

    def write(self, piece: Piece) -> None:
        """Append a piece; raises :class:`MalformedMessage` for any other file."""
        if len(piece.data) > PIECE_BYTES:
            raise MalformedMessage(f"a piece of {len(piece.data)} bytes")
        before = self._written.get(piece.name)
        if piece.name != SAVED and (before or 0) + len(piece.data) > MAX_LOG_BYTES:
            return
        path, fresh = self._path(piece.name), before is None
        is_log = piece.name != SAVED
        with os.fdopen(open_log(path, fresh=fresh), "ab") if is_log else path.open("wb" if fresh else "ab") as file:
            file.write(piece.data)
        self._written[piece.name] = (before or 0) + len(piece.data)

    def end(self, *, whole: bool) -> bool:
        """Nothing more comes; returns whether the final parameters are incomplete, and therefore left out."""
        if SAVED not in self._written:
            return False
        half = self._path(SAVED)
        if whole:
            assert self.saved_to is not None
            half.replace(self.saved_to)
        else:
            half.unlink(missing_ok=True)
        return not whole

    def _path(self, name: str) -> Path:
        if name == AGENT_LOG:
            return self.agent_log
        if name == SAVED and self.saved_to is not None:
            return self.saved_to.with_name(f".{SAVED}")
        if LOG.fullmatch(name):
            return self.agent_log.with_name(name)
        raise MalformedMessage(f"a file called {name[:80]!r}")
