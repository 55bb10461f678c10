"""Where agents join: accepts those that agree with us until all are there, then passes orders to them.

The link to each agent is apart from the job's own connections. While a job runs both ends say that they are there;
silence for ``lease_s`` ends the agent's tasks on its side, and the job on ours.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from runtime.errors import ConfigError
from runtime.house import NAME, module_name
from runtime.live.joining import wire
from runtime.live.joining.agreement import difference, of_data, of_gpus, of_stranger
from runtime.live.joining.facts import Facts
from runtime.live.joining.ways import CURE, coordinators_door, door_of
from runtime.live.launchers.pieces import Pieces
from runtime.live.transport.auth import Identity
from runtime.live.transport.hub import Hub, Key
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import MalformedMessage, Message
from runtime.live.transport.silence import AGENT_HEARTBEAT_S, Listening

TURN_S = 0.5
ANSWER_S = 30.0
"""Seconds within which an agent says whom it reaches: it gives up the first who does not answer after 3."""
END_S = 10.0
"""Seconds within which an agent ends its tasks, or sends more of their files."""
OVER = "the job is over"
NAMED = 3
"""Number of refused agents, or of closed ways, that a message names."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The agents that the driver waits for."""

    nodes: int
    listen: str
    port: int
    wait_s: float
    lease_s: float
    token: bytes
    ours: Facts
    framework: str
    task: dict[str, Any]
    prepared: wire.Prepared
    gpus: int = 0
    """GPUs that every agent must see."""
    fake_gpus: bool = False
    shared: str = ""
    """A directory that must be there on every machine; empty: none."""
    tasks_port: int = 0
    """At which tasks will call the coordinator; 0: at any free one."""
    certificate: str = ""
    """Key and certificate with which we listen; empty: agents join without TLS."""
    launcher: str = "join"
    """As in ``launcher=NAME``, for messages."""
    cure: str = ""
    """Advice if too few agents have joined; empty: start agents."""


class Rendezvous:
    """Listens from its construction on; raises ``OSError`` if it cannot."""

    def __init__(self, wanted: Wanted, say: Callable[[str], None] | None = None) -> None:
        self.wanted, self.loop = wanted, Loop()
        self._say: Callable[[str], None] = say or (lambda line: print(f"{NAME}: {line}", file=sys.stderr))
        self.hub = Hub(
            self.loop,
            wanted.token,
            "tcp",
            wanted.port,
            "",
            lambda identity: identity.role == "agent" and identity.key not in self.hub.peers,
            self._on_message,
            self._on_closed,
            host=wanted.listen,
            decode=wire.decode,
            certificate=wanted.certificate,
        )
        self.hub.on_stranger = lambda address, error: self._turn_away(address, of_stranger(error))
        self.members: dict[Key, Facts] = {}
        """Agents that take part, in the order in which they have joined."""
        self.keys: dict[str, Key] = {}
        """Of the agents by node, once all are there."""
        self._candidates: dict[Key, Facts] = {}
        self._ports: dict[Key, int] = {}
        """Of the doors of members; 0: it has none."""
        self._answers: dict[Key, str] = {}
        """Members' answers about their connections to others ..."""
        self._asked = 0
        """... and how often they were asked."""
        self._starts: dict[Key, int] = {}
        """The numbers under which our launcher has started them."""
        self._refusals: list[str] = []
        self._heard_s: dict[Key, float] = {}
        self._ended: dict[Key, str] = {}
        self._pieces: dict[Key, Pieces] = {}
        self._beaten_s = 0.0
        self._listening = Listening(AGENT_HEARTBEAT_S, wanted.lease_s, 0.0)
        self._gathering = True
        self._vacant: list[str] = []
        """Nodes whose agent is lost, and whose place another may take."""
        self._filling: set[Key] = set()
        """Agents that have taken such a place and have no order to begin yet."""
        self._ending = False
        """Whether the job is over, so that nobody is needed any more."""
        self.vacated: Callable[[int], None] = lambda start: None
        """Called with the number under which our launcher has started an agent that is given up; 0: it has not."""

    # ---- until all are there -----------------------------------------------------------------------------------------

    def await_nodes(self, look: Callable[[], None] = lambda: None) -> None:
        """Wait for all agents, which then try to reach each other.

        Raises :class:`ConfigError` with the missing nodes, or the closed way, and sends all agents home. ``look`` is
        called again and again meanwhile; it raises :class:`ConfigError` when there is nobody to wait for.
        """
        wanted, deadline = self.wanted, self.loop.now + self.wanted.wait_s
        self._progress()
        while not self._is_complete():
            self._await_members(deadline, look)
            self._try_ways(look)
        self._gathering = False
        for key in self._candidates:
            self._refuse(key, f"launcher.nodes={wanted.nodes}: all have joined already", later=True)
        ordered = sorted(self.members, key=lambda key: tuple(map(int, self.members[key].address.split("."))))
        self.keys = {f"node{number}": key for number, key in enumerate(ordered)}

    def _is_complete(self) -> bool:
        """Whether all are there and have said that they reach each other."""
        return len(self.members) == self.wanted.nodes and self.members.keys() <= self._answers.keys()

    def _await_members(self, deadline: float, look: Callable[[], None]) -> None:
        while len(self.members) < self.wanted.nodes:
            if self.loop.now >= deadline:
                reason = self._missing()
                self.dismiss("the run does not start, since not all nodes have joined")
                raise ConfigError(reason)
            self._turn(deadline, look)

    def _try_ways(self, look: Callable[[], None]) -> None:
        """Have all members connect to each other, and to where the coordinator will listen; returns if one leaves."""
        wanted, deadline = self.wanted, self.loop.now + ANSWER_S
        try:
            own = coordinators_door(wanted.listen, wanted.tasks_port)
        except ConfigError as error:
            self.dismiss(str(error))
            raise
        with own:
            doors = [door_of("this machine", own)]
            doors += [
                wire.Door(name=facts.name, host=facts.address, port=self._ports[key])
                for key, facts in self.members.items()
                if self._ports[key]
            ]
            self._answers, self._asked = {}, self._asked + 1
            for key in list(self.members):
                self.hub.send(key, wire.Reach(doors=tuple(doors), number=self._asked))
            while len(self.members) == wanted.nodes and not self._is_complete():
                if self.loop.now >= deadline:
                    silent = self.members.keys() - self._answers.keys()
                    self._answers |= dict.fromkeys(silent, "does not say whom it reaches")
                self._turn(deadline, look)
        problems = [f"{self.members[key].name} {said}" for key, said in self._answers.items() if said]
        if problems:
            reason = f"launcher.nodes={wanted.nodes}: {'; '.join(problems[:NAMED])}; {CURE}"
            self.dismiss(reason)
            raise ConfigError(reason)

    def _turn(self, deadline: float, look: Callable[[], None]) -> None:
        self.loop.turn(max(0.0, min(TURN_S, deadline - self.loop.now)))
        try:
            look()
        except ConfigError as error:
            self.dismiss(str(error))
            raise

    def _progress(self) -> None:
        wanted, here = self.wanted, len(self.members)
        if here < wanted.nodes:
            where = f"{wanted.listen}:{self.hub.address.port}"
            waiting = f"waiting for {wanted.nodes - here} at {where} for {wanted.wait_s:g} s at most"
            self._say(f"launcher={self.wanted.launcher}: {here} of {wanted.nodes} nodes joined, {waiting}")
        else:
            names = ", ".join(facts.name for facts in self.members.values())
            self._say(f"launcher={self.wanted.launcher}: {here} of {wanted.nodes} nodes joined: {names}")

    def _missing(self) -> str:
        wanted = self.wanted
        here = ", ".join(facts.name for facts in self.members.values())
        words = f"launcher.nodes={wanted.nodes}: {len(self.members)} joined within launcher.wait_s={wanted.wait_s:g}"
        words += f" ({here})" if here else ""
        if self._refusals:
            words += f"; refused: {'; '.join(self._refusals[:NAMED])}"
        agent, place = module_name("runtime.live.agent"), f"{wanted.listen}:{self.hub.address.port}"
        start = f"start python -m {agent} --join {place} --token-file FILE"
        return f"{words}; {wanted.cure or f'{start} on every machine'}"

    def dismiss(self, reason: str) -> None:
        """Send everybody home, and close."""
        for key in list(self.hub.peers):
            self.hub.send(key, wire.Refused(reason=reason))
        self.close()

    def _refuse(self, key: Key, reason: str, *, later: bool = False) -> None:
        self.hub.send(key, wire.Refused(reason=reason, later=later))
        self._candidates = {one: facts for one, facts in self._candidates.items() if one != key}

    def _turn_away(self, name: str, reason: str) -> None:
        if self._gathering or self._vacant:
            self._refusals.append(f"{name}: {reason}")
            self._say(f"launcher={self.wanted.launcher}: refused {name}: {reason}")

    # ---- from agents -------------------------------------------------------------------------------------------------

    def _on_message(self, identity: Identity, message: Message) -> None:
        key = identity.key
        self._heard_s[key] = self.loop.now
        match message:
            case wire.Enlist():
                self._enlist(key, message)
            case wire.Prepared() if key in self._candidates:
                self._prepared(key, message)
            case wire.Reached() if key in self.members:
                if message.number == self._asked:  # not of a question before one of them left
                    self._answers[key] = message.problem
            case wire.Alive():
                pass
            case wire.Piece() if key in self._pieces:
                self._pieces[key].write(message)
            case wire.Ended():
                self._over(key, message.reason, whole=True)
            case _:
                raise MalformedMessage(f"{type(message).__name__}, out of turn")

    def _enlist(self, key: Key, enlist: wire.Enlist) -> None:
        facts, wanted = enlist.facts, self.wanted
        if self._ending:
            self._refuse(key, OVER, later=True)
            return
        if not (self._gathering or self._vacant) or len(self.members) >= wanted.nodes:
            self._refuse(key, f"launcher.nodes={wanted.nodes}: all have joined already", later=True)
            return
        if enlist.protocol != wire.PROTOCOL:
            reason = f"version: joins by protocol {enlist.protocol} there, {wire.PROTOCOL} here; install the same"
        else:
            reason = difference(facts, wanted.ours, wanted.framework) or of_gpus(
                facts, wanted.gpus, fake=wanted.fake_gpus
            )
        if reason:
            self._turn_away(facts.name, reason)
            self._refuse(key, reason)
            return
        self._candidates[key] = facts
        self._starts[key] = enlist.start
        self.hub.send(key, wire.Prepare(task=wanted.task, shared=wanted.shared))

    def _prepared(self, key: Key, theirs: wire.Prepared) -> None:
        facts, wanted = self._candidates[key], self.wanted
        if self._ending:
            self._refuse(key, OVER, later=True)
        elif reason := of_data(theirs, wanted.prepared):
            self._turn_away(facts.name, reason)
            self._refuse(key, reason)
        elif len(self.members) >= wanted.nodes:
            self._refuse(key, f"launcher.nodes={wanted.nodes}: all have joined already", later=True)
        else:
            del self._candidates[key]
            self.members[key] = facts
            self._ports[key] = theirs.port
            if self._vacant:
                node = self._vacant.pop(0)
                self.keys[node] = key
                self._filling.add(key)
                self._say(f"launcher={self.wanted.launcher}: {facts.name} takes the place of {node}")
            else:
                self._progress()

    def _on_closed(self, identity: Identity, reason: str) -> None:
        key = identity.key
        self._candidates.pop(key, None)
        if self._gathering:
            if self.members.pop(key, None) is not None:
                self._answers.pop(key, None)
                self._progress()
        elif key in self.members:
            self._over(key, f"its agent is gone ({reason})")
            if key in self._filling:
                self.vacate(next(node for node, known in self.keys.items() if known == key))

    # ---- while a job runs --------------------------------------------------------------------------------------------

    def begin(self, node: str, begin: wire.Begin, pieces: Pieces) -> None:
        """Start the tasks' agent of a node; ``pieces`` writes its files."""
        key = self.keys[node]
        self._filling.discard(key)
        self._pieces[key] = pieces
        self._heard_s[key] = self.loop.now
        self.hub.send(key, begin)
        if not self._beaten_s:
            self._listening.restart(self.loop.now)
            self._beat()

    def _beat(self) -> None:
        """Send a heartbeat, and look which agents have sent theirs."""
        now, lease_s = self.loop.now, self.wanted.lease_s
        missed_s = self._listening.missed_s(now)
        self._heard_s = {key: min(now, heard_s + missed_s) for key, heard_s in self._heard_s.items()}
        self._beaten_s = now
        for key in list(self.hub.peers):
            self.hub.send(key, wire.Alive())
            if key in self._pieces and now - self._heard_s[key] > lease_s:
                self._over(key, f"no word from it for launcher.lease_s={lease_s:g}")
                self.hub.hang_up(key)
        self.loop.after(AGENT_HEARTBEAT_S, self._beat)

    def ended(self, node: str) -> str | None:
        """How the tasks' agent of a node ended; None while it runs, or can be started."""
        return "nobody has taken its place" if node in self._vacant else self._ended.get(self.keys[node])

    def vacate(self, node: str) -> None:
        """The next agent that agrees takes the place of this node's, which has ended, or will by its own lease."""
        key = self.keys.pop(node)
        self.members.pop(key, None)
        self.hub.hang_up(key)
        self._vacant.append(node)
        self._say(f"launcher={self.wanted.launcher}: {node} is lost; another agent may take its place")
        self.vacated(self._starts.pop(key, 0))

    def end(self, node: str) -> None:
        """The job is over: end what runs there, and wait until its logs are here. Others may send theirs meanwhile."""
        self._ending = True
        key = self.keys.get(node)
        if key is None or key in self._ended or key not in self.hub.peers:
            return
        if key in self._filling:
            self._filling.discard(key)
            self._refuse(key, OVER, later=True)
            self._over(key, "it was never started")
            return
        self.hub.send(key, wire.Finish())
        deadline = self.loop.now + END_S
        while key not in self._ended and self.loop.now < deadline:
            before = self._pieces[key].num_bytes
            self._hear()
            if self._pieces[key].num_bytes > before:
                deadline = self.loop.now + END_S
        self._over(key, f"it did not end within {END_S:g} s")

    def _hear(self) -> None:
        """Read what agents send, and say that we are here, without the loop: the job's own callbacks are over."""
        if self.loop.now - self._beaten_s >= AGENT_HEARTBEAT_S:
            self._beaten_s = self.loop.now
            for key in list(self.hub.peers):
                self.hub.send(key, wire.Alive())
        peers = {channel.sock.fileno(): (identity, channel) for identity, channel in self.hub.peers.values()}
        poll = select.poll()
        for descriptor in peers:
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(AGENT_HEARTBEAT_S * 1e3):
            identity, channel = peers[descriptor]
            try:
                for message in channel.receive():
                    self._on_message(identity, message)
            except OSError as error:
                self._over(identity.key, f"its agent is gone ({error})")
                self.hub.hang_up(identity.key)

    def _over(self, key: Key, reason: str, *, whole: bool = False) -> None:
        """The tasks' agent has ended; ``whole``: all that it left has been sent."""
        if key in self._ended:
            return
        self._ended[key] = reason
        if key in self._pieces and self._pieces[key].end(whole=whole):
            name = self.members[key].name
            self._say(f"launcher={self.wanted.launcher}: the final parameters of {name} are left out: {reason}")

    def hang_up_now(self) -> None:
        """Close all links at once, from a signal handler: the kernel tells the agents. Leaves no part of a file."""
        for _, channel in self.hub.peers.values():
            os.close(channel.sock.detach())
        self._leave_out()

    def _leave_out(self) -> None:
        """Agents send nothing more; incomplete final parameters are left out."""
        for key, pieces in self._pieces.items():
            if key not in self._ended:
                pieces.end(whole=False)

    def close(self) -> None:
        """Close listener and links; the loop stays."""
        self.hub.close()
        self._leave_out()
