"""A strategy for tests that asks for nodes at random events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from strategies.protocol import (
    Allocate,
    Apply,
    Arrived,
    Command,
    Compute,
    Denied,
    Failed,
    Joined,
    Launch,
    Lost,
    NodeId,
    Repartition,
    Restart,
    Restored,
    Retire,
    ServerJoined,
    ServerLost,
    Started,
    Strategy,
)

CORES = (None, 1.0, 2.0)


@dataclass(eq=False)
class Wanderer(Strategy):
    """Applies every gradient at once, and after every tenth of them or so asks for something about nodes.

    ``counts`` are the commands that it has given, ``told`` the events that it has received, by name.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset(
        {Compute, Apply, Launch, Retire, Repartition, Allocate, Restart}
    )

    seed: int
    most_workers: int = 7
    most_servers: int = 5
    often: float = 0.15
    """Probability that an arrival is answered with a wish."""
    most_wishes: int | None = None
    """After so many there are no more; None: no limit."""

    def __post_init__(self) -> None:
        self.random = Random(f"{self.seed}/wanderer")
        self.idle: set[int] = set()
        self.busy: set[int] = set()
        self.servers: set[int] = set()
        """Those that can be reached."""
        self.holders: tuple[int, ...] = ()
        self.awaited: set[str] = set()
        self.next = {"worker": 0, "server": 0}
        self.counts: Counter[str] = Counter()
        self.told: Counter[str] = Counter()

    def handle(self, event: Any) -> list[Any]:
        self.told[type(event).__name__] += 1
        if isinstance(event, Lost | ServerLost):
            self.told[event.cause] += 1
        commands = list(self.answer(event))
        commands += [self.compute(worker) for worker in sorted(self.idle)]
        calm = self.most_wishes is not None and self.counts.total() >= self.most_wishes
        if (
            not calm
            and isinstance(event, Arrived)
            and self.random.random() < self.often
            and (wish := self.wish()) is not None
        ):
            self.counts[type(wish).__name__] += 1
            commands.append(wish)
        return commands

    def compute(self, worker: int) -> Compute:
        self.idle.discard(worker)
        self.busy.add(worker)
        return Compute(worker=worker, num_samples=self.random.randint(1, 3))

    def answer(self, event: Any) -> Iterator[Any]:
        """What follows at once; ``idle`` are those who compute next."""
        match event:
            case Started():
                self.next = {"worker": len(event.workers), "server": event.num_servers}
                self.holders = tuple(range(event.num_servers))
                self.servers, self.idle = set(self.holders), set(event.workers)
            case Arrived(grad=grad):
                self.free(grad.worker)
                if grad.samples:
                    yield Apply(grads=(grad.id,), weights=(1.0 / grad.samples,))
            case Failed():
                self.free(event.worker)
            case Joined():
                self.awaited.discard(f"worker:{event.worker}")
                self.idle.add(event.worker)
            case Lost():
                self.gone(event.worker)
            case Denied() | ServerJoined() | ServerLost() | Restored():
                self.of_nodes(event)

    def of_nodes(self, event: Denied | ServerJoined | ServerLost | Restored) -> None:
        match event:
            case Denied():
                self.awaited.discard(event.node)
            case ServerJoined():
                self.awaited.discard(f"server:{event.server}")
                self.servers.add(event.server)
            case ServerLost(holding=False):
                self.servers.discard(event.server)
            case Restored():
                self.busy, self.idle, self.holders = set(), set(event.workers), event.servers
                self.awaited -= {f"worker:{worker}" for worker in event.workers}

    def free(self, worker: int) -> None:
        if worker in self.busy:
            self.busy.discard(worker)
            self.idle.add(worker)

    def gone(self, worker: int) -> None:
        self.idle.discard(worker)
        self.busy.discard(worker)

    # ---- wishes ------------------------------------------------------------------------------------------------------

    def wish(self) -> Any:
        """One command about nodes; None if there is nothing to ask for."""
        draw = self.random
        kind = draw.choice(("worker", "server", "retire", "retire", "divide", "divide", "allocate", "restart"))
        match kind:
            case "worker" | "server":
                return self.launch(kind)
            case "retire":
                return self.retire()
            case "divide" if self.holders:
                servers = draw.sample(sorted(self.servers), draw.randint(1, len(self.servers)))
                shares = tuple(draw.choice((1.0, 2.0, 0.5)) for _ in servers)
                return Repartition(servers=tuple(servers), shares=draw.choice(((), shares)))
            case "allocate" if self.busy:
                return Allocate(node=f"worker:{draw.choice(sorted(self.busy))}", cpu_cores=draw.choice(CORES))
            case "restart" if self.busy:
                return Restart(node=self.moved())
        return None

    def launch(self, role: str) -> Launch | None:
        most = self.most_workers if role == "worker" else self.most_servers
        there = len(self.idle | self.busy) if role == "worker" else len(self.servers)
        if (role == "server" and not self.holders) or there + len(self.awaited) >= most:
            return None
        node = str(NodeId(role, self.next[role]))
        self.next[role] += 1
        self.awaited.add(node)
        return Launch(
            node=node, cpu_cores=self.random.choice(CORES), priority=self.random.choice(("normal", "low", "low"))
        )

    def retire(self) -> Retire | None:
        """Anybody: also who is awaited, holds parameters, or is the last (those are denied)."""
        nodes = [f"worker:{worker}" for worker in self.idle | self.busy]
        nodes += [f"server:{server}" for server in self.servers]
        nodes += self.awaited
        node = self.random.choice(sorted(nodes))
        if node in self.awaited:
            self.awaited.discard(node)
        elif node.startswith("server") and NodeId.parse(node).number not in self.holders:
            self.servers.discard(NodeId.parse(node).number)
        return Retire(node=node)

    def moved(self) -> str:
        nodes = [f"worker:{worker}" for worker in sorted(self.busy)] + [f"server:{server}" for server in self.holders]
        return self.random.choice(nodes)
