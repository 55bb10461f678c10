"""One job's worth of membership: from the first message to the driver until nothing of the job is left here.

The driver's silence for ``lease_s`` ends all tasks, even if the connection is open: a partition closes none.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

import msgspec

from runtime.api import AgentStart
from runtime.errors import ConfigError
from runtime.live.joining import wire
from runtime.live.joining.data import prepare
from runtime.live.joining.facts import Facts
from runtime.live.joining.shared_folder import remove_left
from runtime.live.joining.site import LOCAL, SAVED
from runtime.live.joining.ways import closed
from runtime.live.launchers.local import LocalLauncher
from runtime.live.transport.channel import LoopChannel
from runtime.live.transport.messages import MalformedMessage, Message, encode
from runtime.live.transport.silence import Listening
from runtime.live.transport.task_spec import TaskSpec

LOOK_EVERY_S = 0.1
FOLDERS = ("logs", "checkpoints")


class Cut(Exception):
    """The job is over here; ``exit_code``: 0 in good order."""

    def __init__(self, line: str, exit_code: int) -> None:
        super().__init__(line)
        self.exit_code = exit_code


class NotNeeded(ConfigError):
    """The driver has all its agents, or has ended, and may need others later."""


class Membership:
    """``folder``: where this machine keeps the job's files meanwhile; ``start``: the number to enlist with.

    ``door``: which others try to reach until the job begins; it is closed then, or at the end.
    """

    def __init__(
        self,
        channel: LoopChannel,
        token: bytes,
        facts: Facts,
        folder: Path | None,
        start: int = 0,
        door: socket.socket | None = None,
    ) -> None:
        self.channel, self.token, self.facts, self.folder, self.start = channel, token, facts, folder, start
        self.door = door
        self.launcher = LocalLauncher()
        self.begin: wire.Begin | None = None
        self.directory: Path | None = None
        self._heard_s = self._beaten_s = 0.0
        self._shared: Path | None = None
        self._listening: Listening
        self._finishing = False
        """Whether the driver wants the end."""
        self._home = Path.cwd()

    def run(self) -> NoReturn:
        """Serve one job; raises :class:`Cut` at its end, :class:`ConfigError` if the driver refuses us."""
        try:
            self._tell(wire.Enlist(facts=self.facts, start=self.start))
            while True:
                self._turn()
        except ConnectionError as error:
            if self.begin is None:
                raise NotNeeded(f"the driver is gone ({error}): nothing runs here") from None
            raise Cut(f"the driver is gone ({error}): all tasks here were ended", 1) from None
        finally:
            self.close()

    def close(self) -> None:
        """Nothing of the job is left."""
        with contextlib.suppress(OSError):
            self.launcher.end(LOCAL)
        os.chdir(self._home)
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)
        if self.begin is not None and self._shared is not None:
            remove_left(self._shared)  # of a driver of this machine that was killed
        self._shut()
        self.channel.sock.close()

    def _shut(self) -> None:
        """Let nobody try to reach us any more."""
        if self.door is not None:
            self.door.close()
            self.door = None

    def _turn(self) -> None:
        writing = [self.channel.sock] if self.channel.pending else []
        readable, writable, _ = select.select([self.channel.sock], writing, [], LOOK_EVERY_S)
        if writable:
            self.channel.flush()
        if readable:
            for message in self.channel.receive():
                self._heard_s = time.monotonic()
                self._obey(message)
        if self.begin is not None:
            self.look(self.begin)

    def look(self, begin: wire.Begin) -> None:
        """Say that we are here, look whether the driver is, and whether the tasks' agent still runs."""
        now = time.monotonic()
        self._heard_s = min(now, self._heard_s + self._listening.missed_s(now))
        if now - self._heard_s > begin.lease_s:
            raise Cut(f"no word from the driver for launcher.lease_s={begin.lease_s:g}: all tasks here were ended", 1)
        if now - self._beaten_s >= begin.heartbeat_s:
            self._beaten_s = now
            if not self.channel.pending:  # else there is no way through, and beats would only pile up
                self.channel.send(encode(wire.Alive()))
        if (how := self.launcher.ended(LOCAL)) is not None:
            self._report(begin, how)

    # ---- what the driver says ----------------------------------------------------------------------------------------

    def _obey(self, message: Message) -> None:
        match message:
            case wire.Refused():
                kind = NotNeeded if message.later else ConfigError
                raise kind(f"the driver refuses us: {message.reason}")
            case wire.Prepare():
                self._shared = Path(message.shared) if message.shared else None
                port = 0 if self.door is None else self.door.getsockname()[1]
                self._tell(msgspec.structs.replace(self._prepared(message), port=port))
            case wire.Reach():
                self._tell(wire.Reached(problem=closed(message.doors), number=message.number))
            case wire.Begin() if self.begin is None:
                self._start(message)
            case wire.Finish():
                self._finishing = True
                self.launcher.end(LOCAL)
            case wire.Alive():
                pass
            case _:
                raise MalformedMessage(f"{type(message).__name__}, which is not for an agent")

    @staticmethod
    def _prepared(message: wire.Prepare) -> wire.Prepared:
        if message.shared and not Path(message.shared).is_dir():
            return wire.Prepared(problem=f"launcher.shared_dir: {message.shared} is not on that machine")
        return prepare(message.task)

    def _start(self, begin: wire.Begin) -> None:
        """Start the tasks' agent in a directory of its own."""
        self._shut()
        self.directory = Path(tempfile.mkdtemp(prefix="stragglab-", dir=self.folder))
        for name in FOLDERS:
            (self.directory / name).mkdir()
        spec = msgspec.msgpack.decode(begin.spec, type=TaskSpec)
        secret = wire.secret_of(self.token, begin.salt)
        spec = msgspec.structs.replace(spec, secret=secret, run_dir=str(self.directory))
        os.chdir(self.directory)  # where the evaluator leaves the final parameters
        log = self.directory / "logs" / "agent.log"
        self.launcher.start(LOCAL, AgentStart(spec=msgspec.msgpack.encode(spec), log=log))
        self.listens(begin)
        print(f"agent: runs tasks of {self.facts.address}", file=sys.stderr)

    def listens(self, begin: wire.Begin) -> None:
        """From now on the driver owes heartbeats."""
        self.begin, self._heard_s = begin, time.monotonic()
        self._listening = Listening(LOOK_EVERY_S, begin.lease_s, self._heard_s)

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _report(self, begin: wire.Begin, how: str) -> None:
        """Send what the tasks left, then that they have ended."""
        assert self.directory is not None
        files = [(path.name, path) for path in sorted((self.directory / "logs").glob("*.log")) if path.stat().st_size]
        saved = self.directory / SAVED
        for name, path in (*files, *([(SAVED, saved)] if saved.is_file() else [])):
            with path.open("rb") as file:
                while data := file.read(wire.PIECE_BYTES):
                    self._tell(wire.Piece(name=name, data=data), begin.lease_s)
        self._tell(wire.Ended(reason=how), begin.lease_s)
        ok = self._finishing or how == "exit code 0"
        raise Cut("the job is over" if ok else f"the tasks' agent ended: {how}", 0 if ok else 1)

    def _tell(self, message: Message, within_s: float = 60.0) -> None:
        """Send all of a message; raises ``ConnectionError`` if the driver does not read it in time."""
        waits = self.channel.send(encode(message))
        until = time.monotonic() + within_s
        while waits:
            if time.monotonic() > until:
                raise ConnectionResetError("it does not read")
            if select.select([], [self.channel.sock], [], LOOK_EVERY_S)[1]:
                waits = self.channel.flush()
