"""One job's visit to a Ray cluster: ``python -m runtime.live.launchers.ray.visit PARENT`` with a request on its input.

It reserves the nodes (a placement group), has an actor start an agent on each, reports agents that leave, and removes
everything when its input ends. It is a process of its own, since Ray's threads, signal handlers and time-outs would be
in the way of a run's. However it ends, Ray ends its actors, and the kernel ends the processes that they have started.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from runtime.containment import Isolation, contain, obstacle
from runtime.containment.process import die_with
from runtime.errors import ConfigError
from runtime.live.launchers.ray.capacity import Capacity, shortage
from runtime.live.launchers.ray.requests import (
    Again,
    AnyAnswer,
    Left,
    NoAgents,
    Request,
    line_of,
    requests,
    successions,
)

TURN_S = 0.2
ANSWER_S = 15
"""Seconds that Ray itself waits for its cluster."""
STORE_BYTES = 80_000_000
"""Ray's store of objects, of which we have none; it accepts no smaller one."""
PRIVATE = Path("/dev/shm")
TOKENS = re.compile("auth", re.IGNORECASE)


class Over(Exception):
    """Our input has ended: the job is over."""


def main() -> None:
    """Serve the job of the request on our input until that ends."""
    die_with(int(sys.argv[1]))
    orders = Orders()
    request = requests.decode(orders.first())
    answers = os.dup(1)
    os.dup2(2, 1)  # Ray's output is no answer
    local = request.address == "local"
    if contained := local and not obstacle(Isolation.PROCESSES):
        contain(Isolation.PROCESSES)  # a cluster of our own ends with us, however we end
    folder = tempfile.mkdtemp(prefix="ray-", dir=PRIVATE if contained else None) if local else ""
    try:
        set_environment(request, folder)
        import ray

        Visit(ray, request, lambda answer: _tell(answers, answer), orders, folder).run()
    except Over:
        pass
    except ConfigError as error:
        _tell(answers, NoAgents(reason=str(error)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tell(answers: int, answer: AnyAnswer) -> None:
    os.write(answers, line_of(answer))


def set_environment(request: Request, folder: str) -> None:
    """Before Ray is imported: how it authenticates, and how long it waits. ``folder``: of a cluster of our own."""
    os.environ.update(RAY_gcs_server_request_timeout_seconds=str(ANSWER_S))
    token_file = request.auth_token_file
    if folder:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        token_file = f"{folder}/token"
        Path(token_file).write_text(uuid.uuid4().hex)
        Path(token_file).chmod(0o600)
    if token_file:
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=token_file)


class Started(NamedTuple):
    """An actor's agent: the numbers of its node and of the start."""

    node: int
    start: int


class Orders:
    """The lines of our input."""

    def __init__(self, source: int = 0) -> None:
        self._source, self._waiting = source, b""

    def first(self) -> bytes:
        """The first line, as soon as it is there."""
        while b"\n" not in self._waiting:
            self._read()
        line, self._waiting = self._waiting.split(b"\n", 1)
        return line

    def wait(self, wait_s: float) -> list[Again]:
        """Return what has come, after so many seconds at most; raises :class:`Over` when our input ends."""
        if select.select([self._source], [], [], wait_s)[0]:
            self._read()
        *lines, self._waiting = self._waiting.split(b"\n")
        return [successions.decode(line) for line in lines]

    def _read(self) -> None:
        if not (data := os.read(self._source, 1 << 16)):
            raise Over
        self._waiting += data


class Visit:
    """``ray``: the module, or what behaves like it."""

    def __init__(self, ray: Any, request: Request, tell: Any, orders: Orders, folder: str = "") -> None:
        self.ray, self.request, self.tell, self.orders, self.folder = ray, request, tell, orders, folder
        self.group: Any = None
        self.actors: dict[int, Any] = {}
        """By number of the node."""
        self.running: dict[Any, Started] = {}
        """By the pending result of the actor's method."""
        self.done: dict[int, int] = {}
        """Numbers of nodes by start, of agents that have left in good order."""
        self.starts = 0

    def run(self) -> None:
        """Serve the job until our input ends; raises :class:`Over` then, :class:`ConfigError` if there are no nodes."""
        try:
            self.connect()
            self.reserve()
            for number in range(self.request.nodes):
                self.start(number)
            while True:
                self.look()
        finally:
            self.leave()

    def connect(self) -> None:
        """Join the cluster, or start one on this machine."""
        more: dict[str, Any] = {}
        if self.folder:
            more = {
                "include_dashboard": False,
                "object_store_memory": STORE_BYTES,
                "_node_ip_address": "127.0.0.1",
                "_temp_dir": self.folder,
            }
        try:
            self.ray.init(
                self.request.address,
                namespace=uuid.uuid4().hex,
                log_to_driver=False,
                logging_level="CRITICAL",
                **more,
            )
        except Exception as error:  # noqa: BLE001  (of whatever kind: Ray has many, and their words are for the user)
            raise ConfigError(why_not(error, self.request)) from None

    def reserve(self) -> None:
        """One bundle for each node; waits until they are free."""
        from_ray = [
            Capacity(
                address=node["NodeManagerAddress"],
                cpus=node["Resources"].get("CPU", 0.0),
                gpus=node["Resources"].get("GPU", 0.0),
                labels=node.get("Labels") or {},
            )
            for node in self.ray.nodes()
            if node["Alive"]
        ]
        if lacks := shortage(self.request, from_ray):
            raise ConfigError(lacks)
        wanted, nodes = self.request, self.request.nodes
        selector = {"bundle_label_selector": [dict(wanted.labels)] * nodes} if wanted.labels else {}
        self.group = self.ray.util.placement_group([wanted.bundle] * nodes, strategy=wanted.placement, **selector)
        until = time.monotonic() + wanted.wait_s
        while not self.group.wait(TURN_S):
            self.orders.wait(0.0)
            if time.monotonic() > until:
                raise ConfigError(
                    f"launcher.wait_s={wanted.wait_s:g}: the nodes of the Ray cluster did not become free in time; "
                    "ray status says what is in use"
                )

    def start(self, number: int) -> None:
        """An actor and its agent on a node."""
        place = self.ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            self.group, placement_group_bundle_index=number
        )
        wanted = self.request
        actor = self.ray.remote(node_class(self.ray)).options(
            num_cpus=wanted.cpus_per_node, num_gpus=wanted.gpus_per_node, max_restarts=0, scheduling_strategy=place
        )
        self.actors[number] = handle = actor.remote()
        self.starts += 1
        words = (*wanted.words, "--start", str(self.starts))
        self.running[handle.run.remote(wanted.directory, words, wanted.token)] = Started(number, self.starts)

    def look(self) -> None:
        """Report who has left; one that the job waits for again gets a successor."""
        for order in self.orders.wait(TURN_S):
            self.lose(order.start)
        for reference in self.ray.wait(list(self.running), timeout=0)[0] if self.running else ():
            number, start = self.running.pop(reference)
            try:
                code, line = self.ray.get(reference)
            except Exception as error:  # noqa: BLE001  (Ray has a dozen for a dead actor, whose words are all that we want)
                code, line = 1, f"its actor has died ({first_line(error)})"
            if not code:
                self.done[start] = number
                continue
            self.tell(Left(where=f"node {number}", line=line))
            if self.request.again:
                self.succeed(number)

    def lose(self, start: int) -> None:
        """The job has given an agent up, which Ray may not notice for minutes: it does not ask who is silent.

        Or it has left in good order while the job needs one.
        """
        if (number := self.done.pop(start, None)) is not None:
            self.succeed(number)
        for reference, started in self.running.items():
            if started.start == start:
                del self.running[reference]
                self.succeed(started.node)
                return

    def succeed(self, number: int) -> None:
        """Another actor in the place of a node's."""
        self.ray.kill(self.actors[number], no_restart=True)  # it still holds what is reserved
        self.start(number)

    def leave(self) -> None:
        """Take everything away; Ray itself does so, too, when it notices our end."""
        with contextlib.suppress(Exception):
            for actor in self.actors.values():
                self.ray.kill(actor, no_restart=True)
            if self.group is not None:
                self.ray.util.remove_placement_group(self.group)
        with contextlib.suppress(Exception):
            self.ray.shutdown()


def node_class(ray: Any) -> type:
    """The actor's class, which Ray is to send by value."""
    from runtime.live.launchers.ray import node

    ray.cloudpickle.register_pickle_by_value(node)
    return node.Node


def why_not(error: Exception, request: Request) -> str:
    """Why Ray does not let us in, in one line."""
    where = f"launcher.address={request.address}"
    texts = [str(one) for one in (error, error.__cause__) if one is not None]
    if any(TOKENS.search(text) for text in (*texts, type(error).__name__)):
        token_file = request.auth_token_file or "null"
        return (
            f"launcher.auth_token_file={token_file}: {where} does not accept it; name the file with the cluster's own"
        )
    if any("No node info found" in text for text in texts):
        return f"{where}: this machine is not a node of that cluster; ray start --address={request.address} adds it"
    if request.address == "auto" or any("could not find any running" in text.lower() for text in texts):
        return f"{where}: no Ray cluster runs on this machine; start one (ray start --head), or launcher.address=local"
    if any("failed to connect" in text.lower() for text in texts):
        return f"{where}: whoever listens there does not answer as a Ray cluster does; name the address of its head"
    return f"{where}: {first_line(error)}"


def first_line(error: Exception) -> str:
    """The first line of an error's text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


if __name__ == "__main__":
    main()
