"""The recovery of a job on a heap of events: processes take as long to start as the test says, all else no time."""

from __future__ import annotations

from collections.abc import Callable

from runtime.core.coordinator import Coordinator
from runtime.core.recovery import effects, inputs
from runtime.core.recovery.automaton import Recovery
from runtime.core.recovery.rules import Rules
from runtime.core.recovery.task import Key

KILLED = "killed"


class Recovering:
    """Mixed into a rig that has a heap; carries out what the one recovery decides."""

    core: Coordinator
    t: float
    launch_s: float
    away_for_s: float = 0.0
    """How long a preempted job waits for places."""
    stable: tuple[int, bytes]
    push: Callable[[float, int, Callable[[float], None]], None]
    server_is_lost: Callable[[float, effects.ServerLost], None]
    restore: Callable[[float], None]

    def everybody_is_there(self) -> None:
        """Before the job begins."""
        job = self.core.job
        self.recovery = Recovery(Rules(failover=job.failover, max_losses=job.max_losses), self.core.members)
        self._starts_at: dict[Key, float] = {}
        self.happen(self.t, inputs.Begin())
        self.happen(self.t, inputs.Save(*self.stable))

    def kill(self, t: float, key: Key, back_s: float | None) -> bool:
        """A process is gone, and the next one is there at ``back_s``, if at all. False if there is none to kill."""
        task = self.recovery.tasks[key]
        if not task.expects(task.incarnation):
            return False
        if back_s is not None:  # two outages of one server last as long as the longer
            self._starts_at[key] = max(back_s, self._starts_at.get(key, t)) if key[0] == "server" else back_s
        self.happen(t, inputs.Gone(key, task.incarnation, KILLED, for_good=back_s is None))
        return True

    def happen(self, t: float, given: inputs.AnyInput) -> None:
        """Something has, and all that follows at once."""
        for effect in self.recovery.receive(given):
            self._processes(t, effect)
            self._parameters(t, effect)
            self._connections(t, effect)
            self._news(t, effect)

    def _later(self, at_s: float, given: inputs.AnyInput) -> None:
        self.push(at_s, 0, lambda t: self.happen(t, given))

    def _processes(self, t: float, effect: effects.AnyEffect) -> None:
        match effect:
            case effects.Launch(key, incarnation, "start"):
                self.happen(t, inputs.Ready(key, incarnation))
            case effects.Launch(key, incarnation, "place" | "new" | "resumed"):
                self._later(t + self.launch_s, inputs.Ready(key, incarnation))
            case effects.Launch(key, incarnation):
                self._later(self._starts_at[key], inputs.Ready(key, incarnation))
            case effects.Wait(key, incarnation, pending_s):
                self._later(t + pending_s, inputs.PlaceFree(key, incarnation))
            case effects.MayLeave(key, incarnation):
                self._later(t, inputs.Leave(key, incarnation))

    def _parameters(self, t: float, effect: effects.AnyEffect) -> None:
        match effect:
            case effects.Store(number, savers=savers):
                for saver in savers:
                    self.happen(t, inputs.Saved(saver, number))
            case effects.Load(number, generation, savers):
                version, state = self.recovery.state.checkpoints.contents[number]
                for server in savers:
                    self.happen(t, inputs.Loaded(server, generation, version, state))

    def _connections(self, t: float, effect: effects.AnyEffect) -> None:
        match effect:
            case effects.Attach(key, generation):
                self.happen(t, inputs.Attached(key, self.recovery.tasks[key].incarnation, generation))
            case effects.Halt(key, generation):
                task = self.recovery.tasks[key]
                self.happen(t, inputs.Halted(key, task.incarnation, generation, inputs.NOTHING))
            case effects.Reconfigure(key, generation):
                attached = inputs.Attached(key, self.recovery.tasks[key].incarnation, generation)
                if self.recovery.state.started:
                    self._later(t, attached)
                else:
                    self.happen(t, attached)

    def _news(self, t: float, effect: effects.AnyEffect) -> None:
        match effect:
            case effects.WorkerLost() | effects.WorkerJoined() | effects.ServerJoined() | effects.RolledBack():
                self.core.receive(t, effect)
            case effects.ServerLost():
                self.server_is_lost(t, effect)
            case effects.Suspended():
                self._later(t + self.away_for_s, inputs.Resume())
            case effects.Restored(version, state):
                assert state is not None
                self.stable = (version, state)
                self.restore(t)

    def restart_node(self, node: str, pending_s: float) -> None:
        """The strategy wants it elsewhere."""
        role, _, number = node.partition(":")
        self.happen(self.t, inputs.Restart((role, int(number)), pending_s))
