"""Sync-Switch's schedule: synchronous first, then asynchronous, with a rule for stragglers (Li et al., 2021; pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from reading.ranges import NonNegativeFloat, Number, OneOf, PositiveFloat, check_settings
from strategies.parts.gates.base import Verdict
from strategies.parts.hooks import Order, Peers
from strategies.parts.nodes import Pause, is_due
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Command,
    Grad,
    Joined,
    Lost,
    NodeId,
    Restart,
    Restored,
    ServerLost,
    Started,
    Wake,
    Woke,
)
from strategies.sync_switch.flagged import FlagDetector
from strategies.sync_switch.switching import SwitchingGate


@final
class Relaunch:
    """Restarts every server, one after the other, and then all workers at once.

    A server's restart stores a checkpoint first and rolls all nodes to it, so nothing applied is lost; until it is
    complete, other commands are void. Workers come last: with a fail-over that rolls all back, they return to the last
    server's checkpoint. A node that crashes meanwhile has a new process already and is not restarted again.

    ``here`` are the present workers, ``todo`` the nodes that still have their old process, ``ordered`` those whose
    restart was commanded (void after a ``Restored``), ``awaited`` the workers whose new process has not joined yet.
    """

    def __init__(self, workers: Iterable[int], num_servers: int) -> None:
        self.here, self.num_servers = set(workers), num_servers
        self.under_way = self.halted = False
        self.todo: set[NodeId] | None = None
        self.ordered: set[NodeId] = set()
        self.awaited: set[int] = set()

    def begin(self) -> None:
        """Begin: no worker should start to compute from now on; restarts follow once none computes."""
        self.under_way, self.todo = True, None

    def owns(self, event: Lost) -> bool:
        """Whether this loss is due to one of its own restarts."""
        return not event.restarting and NodeId.worker(event.worker) in self.ordered

    def observe_event(self, event: AnyEvent) -> None:
        match event:
            case Lost(worker=worker):
                self.here.discard(worker)
                if self.under_way and (event.restarting or self.owns(event)):
                    self.awaited.add(worker)
                else:
                    self.awaited.discard(worker)
                self._mark_done(NodeId.worker(worker))
            case Joined(worker=worker):
                self.here.add(worker)
                self.awaited.discard(worker)
            case ServerLost(server=server):
                self.halted = True
                self._mark_done(NodeId.server(server))
            case Restored():
                self.halted = False
                self.here = set(event.workers)
                self.ordered.clear()
                self.awaited.clear()  # an absent worker may have left for good: a paused job receives no Lost

    def _mark_done(self, node: NodeId) -> None:
        self.ordered.discard(node)
        if self.todo is not None:
            self.todo.discard(node)

    def proceed(self, idle: bool) -> list[Restart]:
        """Restarts to command after an event, given whether no worker computes; ends when none remain."""
        if not self.under_way or self.halted or (self.todo is None and not idle):
            return []
        if self.todo is None:
            servers = {NodeId.server(server) for server in range(self.num_servers)}
            self.todo = servers | {NodeId.worker(worker) for worker in self.here}
        servers = {node for node in self.todo if node.role == "server"}
        workers = {NodeId.worker(worker) for worker in self.here} & self.todo
        nodes = sorted(servers)[:1] or sorted(workers)
        self.under_way = bool(nodes or self.awaited)
        new = [node for node in nodes if node not in self.ordered]
        self.ordered.update(new)
        return [Restart(node=str(node)) for node in new]


@dataclass(kw_only=True)
class SwitchSettings:
    """When modes change, and how.

    Attributes:
        bsp_frac: part of the job's samples that are trained synchronously first; 1 with no straggler is BSP, 0 is ASP.
        straggler_policy: ``greedy``, ``elastic`` or ``none``.
        probe_s: seconds between two series of probes; left-out workers are probed one after another.
        switch: ``hot`` or ``restart``.
        switch_s: seconds that a hot switch takes.
    """

    bsp_frac: Annotated[float, Number(0.0, most=1.0)] = 0.0625
    straggler_policy: Annotated[str, OneOf("greedy", "elastic", "none")] = "greedy"
    probe_s: PositiveFloat = 10.0
    switch: Annotated[str, OneOf("hot", "restart")] = "hot"
    switch_s: NonNegativeFloat = 0.0


@final
@dataclass(kw_only=True)
class SyncThenAsync(SwitchSettings):
    """Changes modes after an update, and only when the last change is over.

    :class:`strategies.sync_switch.SyncSwitch` explains the fields.
    """

    looks_at: ClassVar[tuple[type, ...]] = (SwitchingGate, FlagDetector)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.switch == "restart" and self.switch_s:
            raise ValueError(f"switch_s={self.switch_s}: is what switch=hot takes; with switch=restart it must be 0")

    @property
    def needs(self) -> frozenset[type[Command]]:
        """``Restart`` only where the settings use it: such a strategy receives the expected pending time."""
        return frozenset({Wake, Restart}) if self.switch == "restart" else frozenset({Wake})

    def validate_length(self, epochs: int | None) -> None:
        if 0 < self.bsp_frac < 1 and epochs is None:
            raise ValueError(
                f"bsp_frac={self.bsp_frac}: is part of a job without a number of epochs; set workload.epochs, or "
                "bsp_frac to 0 or 1"
            )

    def meet(self, peers: Peers) -> None:
        self._gate = peers.one(SwitchingGate)
        self._stragglers = peers.one(FlagDetector)

    # ---- events -----------------------------------------------------------------------------------------------------

    def start(self, started: Started) -> None:
        total = math.inf if started.total_samples is None or self.bsp_frac == 1 else started.total_samples
        self._sync_samples = self.bsp_frac and self.bsp_frac * total
        self._trained, self._switches = [0], 0
        self._updated = False
        self._pause, self._relaunch = Pause(), Relaunch(started.workers, started.num_servers)
        self._stragglers.restarted = self._relaunch.ordered
        self._probe_due_s = math.inf

    def observe_event(self, event: AnyEvent) -> None:
        """Note lost workers and rolled-back samples; after a restore the gate begins in the wanted mode."""
        self._updated = False
        match event:
            case Lost():
                self._pause.forget(event.worker)
            case Restored():
                del self._trained[event.version + 1 :]
                if self.switch == "restart" and self._gate.together != self._wants_sync():
                    self._begin_relaunch()
                self._pause = Pause(math.inf if self._relaunch.under_way else None)
                self._probe_due_s = math.inf
        self._relaunch.observe_event(event)
        if isinstance(event, Started | Restored):
            self._gate.together = self._wants_sync()
            self._gate.slow = self._stragglers.left_out if self.straggler_policy == "elastic" else frozenset()

    def applied(self, grads: tuple[Grad, ...]) -> None:
        """Count the trained samples by version, because parameters may be rolled back."""
        self._updated = True
        self._trained.append(self._trained[-1] + sum(grad.samples for grad in grads))

    def then(self, event: AnyEvent) -> Sequence[Verdict | AnyCommand]:
        """Probe when its timer fires; after an update, change to the other mode if wanted."""
        if isinstance(event, Woke):
            if event.tag != "probe" or not is_due(event.t, self._probe_due_s):
                return ()
            self._probe_due_s = math.inf
            return [Verdict(go=self._gate.probe())]
        return self._switch_if_wanted(event.t) if self._updated else ()

    def settle(self, event: AnyEvent, commands: list[AnyCommand], order: Order) -> list[AnyCommand]:
        """Hold Computes during a switch, add its restarts, and release the held Computes when it ends."""
        commands = self._pause.hold(commands)
        if self._gate.out and self._probe_due_s == math.inf:
            self._probe_due_s = event.t + self.probe_s
            commands.append(Wake(at_s=self._probe_due_s, tag="probe"))
        commands += self._relaunch.proceed(idle=self._gate.computing <= self._pause.withheld)
        if self._pause.until_s == math.inf and not self._relaunch.under_way:
            self._pause.until_s = event.t
        elif not isinstance(event, Woke):
            return commands
        return [*commands, *(order(worker) for worker in self._pause.ends(event.t))]

    # ---- modes ------------------------------------------------------------------------------------------------------

    def _wants_sync(self) -> bool:
        if self._trained[-1] >= self._sync_samples:
            return False
        return self.straggler_policy != "greedy" or not self._stragglers.flagged

    def _switch_if_wanted(self, t: float) -> Sequence[Verdict | AnyCommand]:
        """Change to the other mode if wanted and the last switch is over; a restarted cluster begins in it."""
        if self._gate.together == self._wants_sync() or self._pause.until_s is not None:
            return ()
        if self.switch == "restart":
            self._begin_relaunch()
            self._pause.until_s = math.inf
            return ()
        self._switches += 1
        verdicts = self._gate.switch()
        if not self.switch_s:
            return verdicts
        self._pause.until_s = t + self.switch_s
        return [*verdicts, Wake(at_s=self._pause.until_s, tag="switched")]

    def _begin_relaunch(self) -> None:
        if not self._relaunch.under_way:
            self._switches += 1
            self._relaunch.begin()

    def log_state(self) -> dict[str, float | int | str]:
        return {"switches": self._switches}
