"""A run's requests to Ray and the answers: lines of JSON on pipes between its own processes."""

from __future__ import annotations

import msgspec


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Agents on ``nodes`` nodes."""

    address: str
    """``auto``, ``local``, or HOST:PORT."""
    auth_token_file: str = ""
    """The token of the Ray cluster itself; empty: as Ray's own variables say."""
    nodes: int
    placement: str
    cpus_per_node: float
    gpus_per_node: float
    labels: dict[str, str] = {}
    directory: str
    """Where Stragglab is on every node."""
    words: tuple[str, ...]
    """Arguments of the agent."""
    token: str
    """As agents read it from standard input; it leaves these pipes for actors only."""
    wait_s: float
    """Seconds to wait until the nodes are free."""
    again: bool = False
    """Whether an agent that is lost is replaced."""

    @property
    def bundle(self) -> dict[str, float]:
        """Return the resources that are reserved on every node."""
        wanted = {"CPU": self.cpus_per_node, "GPU": self.gpus_per_node}
        return {name: amount for name, amount in wanted.items() if amount}


class Start(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To the broker: visit Ray for this."""

    request: Request


class Again(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To the broker, and from it to the visit: the agent of this start is lost to the job, start another."""

    start: int


class End(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To the broker: the job is over."""


class NoAgents(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """There will be no agents: one line."""

    reason: str


class Left(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An agent has ended, or its actor."""

    where: str
    line: str


class Released(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Nothing of the job is left in the Ray cluster."""


AnyOrder = Start | Again | End
AnyAnswer = NoAgents | Left | Released

orders = msgspec.json.Decoder(AnyOrder)
answers = msgspec.json.Decoder(AnyAnswer)
requests = msgspec.json.Decoder(Request)
successions = msgspec.json.Decoder(Again)


def line_of(message: AnyOrder | AnyAnswer | Request) -> bytes:
    """A message as the line of JSON that goes through the pipe between run, broker and visit."""
    return msgspec.json.encode(message) + b"\n"
