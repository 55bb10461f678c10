"""A strategy whose servers follow a script, by either kind of switch; for tests and measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import EachGate
from strategies.parts.hooks import State
from strategies.parts.scaling.changes import Decision, Resize
from strategies.parts.scaling.scaler import Scaler
from strategies.parts.scaling.usage import Given
from strategies.protocol import AnyEvent, Grad, NodeId, Started

NODE = Given(cores=2, memory_bytes=2**32)


@final
class Script:
    """A planner that wants so many servers from a time on: pairs of seconds and their number."""

    def __init__(self, servers: Sequence[tuple[float, int]]) -> None:
        self.servers = list(servers)

    def start(self, started: Started, given: Mapping[NodeId, Given]) -> None:
        self.left = list(self.servers)

    def observe_event(self, event: AnyEvent, given: Mapping[NodeId, Given]) -> None:
        pass

    def applied(self, grads: tuple[Grad, ...]) -> None:
        pass

    @property
    def urgent(self) -> bool:
        return False

    def decide(self, t: float, given: Mapping[NodeId, Given]) -> Decision | None:
        if not self.left or t < self.left[0][0]:
            return None
        _, count = self.left.pop(0)
        wanted = Resize(role="server", count=count, cores=NODE.cores, memory_bytes=NODE.memory_bytes)
        return Decision(t=t, stage="script", rule="script", changes=(wanted,))

    def settled(self, t: float, granted: bool, given: Mapping[NodeId, Given]) -> None:
        pass

    def log_state(self) -> State:
        return {"steps_left": len(self.left)}


@final
@dataclass(kw_only=True)
class Resized(Composition):
    """ASP. ``servers``: see :class:`Script`; ``seamless``: see :class:`strategies.parts.scaling.resizing.Resizing`."""

    servers: tuple[tuple[float, int], ...] = ()
    seamless: bool = True
    data: str = "dynamic"

    def compose(self) -> Parts:
        scaler = Scaler(
            Script(self.servers),
            worker_cores=NODE.cores,
            server_cores=NODE.cores,
            memory_bytes=NODE.memory_bytes,
            seamless=self.seamless,
            launch_s=20.0,
        )
        return Parts(gate=EachGate(), actions={"script": scaler}, decide_every_s=0.1, lr_rule="unit")
