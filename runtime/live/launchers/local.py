"""Agents as processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, final

from runtime.api import AgentStart, RunContext
from runtime.config.parse import Cluster
from runtime.house import program, surroundings
from runtime.live.joining.site import Site
from runtime.live.transport.loop import Loop
from runtime.record.logs import open_log

EXIT_S = 2.0


@final
@dataclass(frozen=True, kw_only=True)
class ThisMachine:
    """``launcher=local``: all tasks run on this machine, and one agent starts them."""

    elsewhere: ClassVar[bool] = False
    needs_broker: ClassVar[bool] = False

    def check(self, cluster: Cluster, around: RunContext, port: int) -> None:
        """Nothing to check: the rest of the configuration is about this machine."""

    def unable(self) -> dict[str, str]:
        return {}

    def await_nodes(self, task: dict[str, Any], framework: str, device: str, port: int) -> None:
        """Nobody to wait for."""

    def loop(self) -> Loop | None:
        return None

    def site(self) -> Site:
        return Site()

    def make(self) -> LocalLauncher:
        return LocalLauncher()

    def release(self) -> None:
        """Nothing to release: agents end with their jobs."""

    def describe(self) -> list[dict[str, Any]]:
        return []


@final
class LocalLauncher:
    """See :class:`runtime.api.Launcher`. An agent dies with this process, and everything it has forked dies with it."""

    def __init__(self) -> None:
        self._agents: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, node: str, agent: AgentStart) -> None:
        with os.fdopen(open_log(agent.log), "ab") as log:
            process = subprocess.Popen(
                program("runtime.live.tasks.agent", str(os.getpid())),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=surroundings(),
                process_group=0,
                pass_fds=agent.fds,
            )
        self._agents[node] = process
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as stdin:  # broken: it has died, as we shall see
            stdin.write(agent.spec)

    def ended(self, node: str) -> str | None:
        process = self._agents.get(node)
        if process is None:
            return "it was never started"
        code = process.poll()
        return None if code is None else f"exit code {code}"

    def end(self, node: str) -> None:
        if self.ended(node) is None:
            process = self._agents[node]
            os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):  # the kernel holds it, and ends it when it lets go
                process.wait(EXIT_S)

    def replace(self, node: str) -> float:
        return 0.0

    def address(self, node: str) -> str | None:
        return None

    def cores(self, node: str) -> int:
        return len(os.sched_getaffinity(0))

    def kill_all(self) -> None:
        for process in self._agents.values():
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
