"""A world around a recovery that answers in any given order, and checks invariants.

It has its own idea of which process lives, what it holds, what is stored and whom the coordinator believes to be there;
nothing of it is taken from the automaton.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

from runtime.core.recovery import effects, inputs
from runtime.core.recovery.inputs import NOTHING
from runtime.core.recovery.rules import Rules
from runtime.core.recovery.states import Phase, TaskState
from runtime.core.recovery.task import Key
from tests.support.members import recovery_of
from tests.support.recovery_nodes import Nodes, Shares

Action = tuple[Any, ...]


class Process(NamedTuple):
    """One incarnation of a task."""

    key: Key
    incarnation: int


class World:
    """``owed`` is what has been ordered and not answered; :meth:`possible` is what may happen next."""

    def __init__(self, rules: Rules, num_workers: int, num_servers: int, auxiliaries: tuple[str, ...] = ()) -> None:
        self.recovery = recovery_of(rules, num_workers, num_servers, auxiliaries)
        self.members = self.recovery.state.members
        """Changed here as the coordinator does it."""
        self.nodes = Nodes(num_workers, num_servers)
        self.alive: set[Process] = set()
        self.fenced: set[Process] = set()
        self.built: set[Process] = set()
        self.held: dict[Process, int] = {}
        """Versions of replicas, and of servers."""
        self.attached: dict[Process, int] = {}
        """The generation that a process is connected in."""
        self.ring: tuple[Key, ...] = ()
        self.owed: list[tuple[Any, ...]] = []
        self.late: list[inputs.AnyInput] = []
        """What the dead have said, and nobody has heard yet."""
        self.stored: dict[int, tuple[int, bytes]] = {}
        self.parts: dict[int, set[Key]] = {}
        self.complete = NOTHING
        self.loading = NOTHING
        self.halted = False
        self.begun = False
        self.failed: str | None = None
        self.version = 0
        self.generation = 0
        self.plan_holds: set[Key] = set()
        self.away = False
        """Whether the cluster has all places."""
        self.give(inputs.Begin())

    @property
    def newest(self) -> dict[Key, Process]:
        return {process.key: process for process in self.alive}

    # ---- what may happen ---------------------------------------------------------------------------------------------

    def possible(self, *, faults: bool = True) -> list[Action]:
        """Answers of different tasks, in any order; with ``faults`` also what nobody has ordered."""
        if self.failed:
            return []
        first = {about[1]: about for about in reversed(self.owed)}  # each carries out its orders in turn
        answers: list[Action] = [("answer", about) for about in first.values()]
        if not faults:
            return answers
        found: list[Action] = [("die", process) for process in sorted(self.alive)]
        found += [("late", number) for number in range(len(self.late))]
        starting = sorted(about[1] for about in self.owed if about[0] == "ready")
        found += [("crowd", one) for one in starting if one.incarnation and one.key.role != "server"]
        found += [("silent", process) for process in sorted(self.alive)]
        found += [("link lost", process) for process in sorted(self.attached) if process in self.alive]
        nodes = [key for key in self.recovery.tasks if key[0] in ("worker", "server")]
        found += [("release", key) if key in self.plan_holds else ("hold", key) for key in nodes]
        if self.begun and not self.halted:
            here = [("worker", worker) for worker in self.members.here()]
            found += [("restart", key) for key in nodes if key in self.nodes.holders or key in here]
            found += [("restart", key, False) for key in nodes if key in self.nodes.holders]
            found += [("save",)]
            found += [("admit", role) for role in self.nodes.launchable()]
            found += [("dismiss", key) for key in self.nodes.dismissible()]
            found += [("repartition", shares) for shares in self.nodes.divisions()]
            found += [("preempt",)]
        if self.away:
            found += [("resume",)]
        if self.may_update:
            found += [("update",)]
        return answers + found

    @property
    def may_update(self) -> bool:
        """Replicas are ordered one after another; a server's updates are no matter of theirs."""
        return self.begun and not self.halted and not any(about[0] == "step" for about in self.owed)

    def do(self, action: Action) -> None:
        kind, *about = action
        getattr(self, "_" + kind.replace(" ", "_"))(*about)

    def settle(self) -> None:
        """Nothing more goes wrong, and everything that was ordered is done."""
        for key in sorted(self.plan_holds):
            self.do(("release", key))
        for _ in range(1000):
            if rest := self.possible(faults=False):
                self.do(rest[0])
            elif self.away and not self.failed:
                self.do(("resume",))
            else:
                return
        raise AssertionError("answers without end")

    # ---- it happens --------------------------------------------------------------------------------------------------

    def _die(self, process: Process) -> None:
        """A worker that has started more than once and not computed yet finds its device full."""
        task = self.recovery.tasks[process.key]
        is_built = process.key.role == "worker" and task.state in (TaskState.READY, TaskState.ATTACHED)
        if is_built and task.incarnation == process.incarnation > 1 and not task.useful:
            self._crowd(process)
            return
        self._end(process)
        self.nodes.lost(process.key)
        self.give(inputs.Gone(*process, "killed"))

    def _crowd(self, process: Process) -> None:
        """Its device still has what its predecessor held there."""
        self._end(process)
        self.nodes.lost(process.key)
        self.give(inputs.Gone(*process, "CUDA out of memory", retryable=False, device_full=True))

    def _late(self, number: int) -> None:
        self.give(self.late.pop(number))

    def _silent(self, process: Process) -> None:
        self.nodes.lost(process.key)
        self.give(inputs.Silent(*process, "silent"))

    def _link_lost(self, process: Process) -> None:
        self.give(inputs.LinkLost(*process, self.attached[process], "reset"))

    def _hold(self, key: Key) -> None:
        self.plan_holds.add(key)
        self.nodes.lost(key)
        self.give(inputs.Hold(key, "killed by the plan"))

    def _release(self, key: Key) -> None:
        self.plan_holds.discard(key)
        self.give(inputs.Release(key))

    def _restart(self, key: Key, noticed: bool = True) -> None:
        """As the coordinator does it: it stores a checkpoint and halts before a server goes, and voids a worker.

        A server that the cluster evicts without notice goes without a checkpoint of the present version.
        """
        if key[0] == "server":
            if noticed:
                self._save()
            self.halted = True
        else:
            self.members.restarted(key[1])
            self._void_if_all_return(here=True)
        self.give(inputs.Restart(key, 1.0))

    def _admit(self, role: str) -> None:
        """As the coordinator does it: the node is a member at once, and nobody waits for it."""
        node = self.nodes.launch(role)
        self.members.admit(node)
        self.give(inputs.Admit(node, 1.0))

    def _dismiss(self, key: Key) -> None:
        """The coordinator has booked the loss before the process ends."""
        if key.role == "worker":
            self._void_if_all_return(here=self.members.is_here(key.number))
            self.members.lost(key.number, restarting=False)
        self.members.remove(key)
        self.nodes.end(key)
        self.give(inputs.Dismiss(key, "retired"))

    def _repartition(self, shares: Shares) -> None:
        """A checkpoint of the present version, and everything halts."""
        self._save()
        self.halted = True
        self.nodes.move(shares, self.version)
        self.give(inputs.Repartition(shares))

    def _preempt(self) -> None:
        """As the coordinator does it: a checkpoint of the present version, and everything halts."""
        self._save()
        self.halted = True
        self.give(inputs.Suspend())

    def _resume(self) -> None:
        self.away = False
        self.give(inputs.Resume())

    def _void_if_all_return(self, *, here: bool) -> None:
        if here and (self.recovery.rules.failover == "checkpoint" or not self.nodes.shares):
            self.halted = True
            self.nodes.spoiled = True

    def _save(self) -> None:
        self.give(inputs.Save(self.version, f"state of {self.version}".encode()))

    def _update(self) -> None:
        """Every replica steps when it comes to it; servers at once."""
        self.version += 1
        if self.ring:
            self.owed += [("step", self.newest[key], self.version) for key in self.ring]
        else:
            self.held |= {self.newest[server]: self.version for server in self.nodes.holders}

    def _answer(self, about: tuple[Any, ...]) -> None:
        self.owed.remove(about)
        kind, *rest = about
        answer: Callable[..., None] = getattr(self, f"_answer_{kind}")
        answer(*rest)

    def _answer_ready(self, process: Process) -> None:
        self.built.add(process)
        self.held.setdefault(process, NOTHING if process.key[0] == "worker" else 0)
        self.give(inputs.Ready(*process))

    def _answer_attached(self, process: Process, generation: int) -> None:
        self.attached[process] = generation
        self.give(inputs.Attached(*process, generation))

    def _answer_formed(self, process: Process, form: effects.Reconfigure) -> None:
        if form.source >= 0:
            self.held[process] = self.held[self.newest["worker", form.source]]
        elif form.number >= 0:
            self.held[process] = self.stored[form.number][0]
        elif form.anew:
            self.held[process] = 0
        self._answer_attached(process, form.generation)

    def _answer_halted(self, process: Process, generation: int) -> None:
        self.give(inputs.Halted(*process, generation, self.held[process]))

    def _answer_step(self, process: Process, version: int) -> None:
        """A ring is complete only if all are in it."""
        self.held[process] = version

    def _answer_saved(self, process: Process, number: int) -> None:
        self.parts[number].discard(process.key)
        self.give(inputs.Saved(process.key, number))

    def _answer_loaded(self, process: Process, number: int, generation: int) -> None:
        version, state = self.stored.get(number, (0, b""))
        self.held[process] = version
        self.give(inputs.Loaded(process.key, generation, version, state))

    def _answer_place(self, key: Key, incarnation: int) -> None:
        self.give(inputs.PlaceFree(key, incarnation))

    def _answer_leave(self, key: Key, incarnation: int) -> None:
        self.give(inputs.Leave(key, incarnation))

    def _end(self, process: Process) -> None:
        """It answers nothing any more; what it has said last may still be on its way."""
        self.alive.discard(process)
        generation = self.recovery.state.generation
        self.late = [
            *self.late[-3:],
            inputs.Ready(*process),
            inputs.Attached(*process, generation),
            inputs.Halted(*process, generation, 10**6),
            inputs.Gone(*process, "an error of its own", retryable=False),
        ][-4:]
        self.attached.pop(process, None)
        self.owed = [about for about in self.owed if process not in about]

    # ---- what is ordered ---------------------------------------------------------------------------------------------

    def give(self, given: inputs.AnyInput) -> None:
        """To the automaton; what it answers is checked and becomes owed."""
        received = self.recovery.receive(given)
        for effect in received:
            handler: Callable[[Any], None] = getattr(self, f"_on_{type(effect).__name__}")
            handler(effect)
        generation, layout = self.recovery.state.generation, self.members.layout
        assert generation >= self.generation, "generations only grow"
        halts = any(isinstance(effect, effects.Suspended) for effect in received)  # all end then, whatever they held
        if not halts and any(isinstance(effect, effects.ServerLost) and not effect.holding for effect in received):
            assert generation == self.generation, "nobody notices the loss of a server that held nothing"
        self.generation = generation
        assert self.failed or set(layout.nodes) == self.nodes.all, "the members that the coordinator knows"

    def _on_Launch(self, effect: effects.Launch) -> None:
        process = Process(effect.key, effect.incarnation)
        assert effect.key not in self.newest, f"{process} next to {self.newest[effect.key]}"
        former = [Process(effect.key, number) for number in range(effect.incarnation)]
        assert self.fenced.issuperset(former), "the dead are fenced off first"
        assert process not in self.fenced
        assert effect.key not in self.plan_holds, "the plan does not let it start"
        assert not self.away, "others have its place"
        self.alive.add(process)
        self.owed.append(("ready", process))

    def _on_Kill(self, effect: effects.Kill) -> None:
        self._end(Process(effect.key, effect.incarnation))

    def _on_Fence(self, effect: effects.Fence) -> None:
        process = Process(effect.key, effect.incarnation)
        assert process not in self.fenced, "nobody dies twice"
        assert process not in self.alive
        self.fenced.add(process)

    def _on_Wait(self, effect: effects.Wait) -> None:
        self.owed.append(("place", effect.key, effect.incarnation))

    def _on_Store(self, effect: effects.Store) -> None:
        if self.nodes.shares:
            self.nodes.keep(effect.savers)
        self.stored[effect.number] = (effect.version, effect.state)
        self.parts[effect.number] = set(effect.savers)
        self.owed += [("saved", self.newest[key], effect.number) for key in effect.savers if key in self.newest]

    def _on_Checkpointed(self, effect: effects.Checkpointed) -> None:
        assert not self.parts[effect.number], f"{self.parts[effect.number]} have not stored their parts"
        assert effect.number > self.complete
        self.complete = effect.number

    def _on_MayLeave(self, effect: effects.MayLeave) -> None:
        self.owed.append(("leave", effect.key, effect.incarnation))

    def _on_Load(self, effect: effects.Load) -> None:
        assert effect.number == self.complete, "the last that is complete"
        assert self.halted or not self.begun
        self.loading = effect.number
        self.nodes.read(effect.savers)
        self.owed += [("loaded", self._server(key), effect.number, effect.generation) for key in effect.savers]

    def _server(self, key: Key) -> Process:
        process = self.newest[key]
        assert process in self.built, f"{process} is not there yet"
        return process

    def _on_Attach(self, effect: effects.Attach) -> None:
        process = self.newest[effect.key]
        assert process in self.built
        assert effect.generation == self.recovery.state.generation
        if self.nodes.shares:
            assert effect.to == self.nodes.holders, "clients connect to those that hold parameters, in their order"
        for key in effect.to:
            other = self._server(key)
            if key[0] == "server" and effect.generation:
                assert not any(about[0] == "loaded" and about[1] == other for about in self.owed), "it still reads"
        self.owed.append(("attached", process, effect.generation))

    def _on_Halt(self, effect: effects.Halt) -> None:
        """What it had not stepped yet it never does."""
        process = self.newest[effect.key]
        self.attached.pop(process, None)
        formed = ("formed", "attached")
        self.owed = [about for about in self.owed if about[0] not in ("step", *formed) or about[1] != process]
        self.owed.append(("halted", process, effect.generation))

    def _on_Reconfigure(self, effect: effects.Reconfigure) -> None:
        process = self.newest[effect.key]
        assert process in self.built
        assert effect.key in effect.ring
        self.ring = effect.ring
        if effect.number >= 0:
            assert effect.number == self.complete
        if effect.source >= 0:
            source = self.newest["worker", effect.source]
            assert self.held[source] != NOTHING, "it has nothing to give"
            self.held[process] = NOTHING
        self.owed.append(("formed", process, effect))

    def _on_TransferState(self, effect: effects.TransferState) -> None:
        assert effect.key in self.newest
        assert Process(effect.to, effect.incarnation) in self.alive

    # ---- notifications of the coordinator ----------------------------------------------------------------------------

    def _on_Started(self, effect: effects.Started) -> None:
        assert not self.begun
        self.begun = True
        for worker in self.members.members:
            process = self.newest["worker", worker]
            assert process in self.attached
            self.members.begin(worker, process.incarnation)
        self._save()

    def _on_WorkerLost(self, effect: effects.WorkerLost) -> None:
        assert self.begun
        here = self.members.is_here(effect.worker)
        assert self.members.lost(effect.worker, effect.restarting) == effect.incarnation
        self._void_if_all_return(here=here)
        if not effect.restarting:
            self.members.remove(Key("worker", effect.worker))
            self.nodes.end(Key("worker", effect.worker))

    def _on_WorkerJoined(self, effect: effects.WorkerJoined) -> None:
        assert self.members.joined(effect.worker, effect.incarnation), "each incarnation joins once"
        assert Process(("worker", effect.worker), effect.incarnation) in self.attached

    def _on_AuxiliaryLost(self, effect: effects.AuxiliaryLost) -> None:
        assert self.begun

    def _on_AuxiliaryJoined(self, effect: effects.AuxiliaryJoined) -> None:
        assert Process((effect.role, 0), self.newest[effect.role, 0].incarnation) in self.attached

    def _on_ServerJoined(self, effect: effects.ServerJoined) -> None:
        assert Process(Key("server", effect.server), effect.incarnation) in self.built
        self.nodes.server_joined(effect)

    def _on_ServerLost(self, effect: effects.ServerLost) -> None:
        self.nodes.server_lost(effect)
        if not effect.holding:
            self.members.remove(Key("server", effect.server))
        self.halted |= effect.holding

    def _on_RolledBack(self, effect: effects.RolledBack) -> None:
        self.halted = self.nodes.spoiled = True

    def _on_Restored(self, effect: effects.Restored) -> None:
        assert self.halted
        self.halted = False
        generation = self.recovery.state.generation
        held = set()
        for worker in self.members.here():
            process = self.newest["worker", worker]
            assert self.attached[process] == generation, "everybody is connected"
            held.add(self.held[process])
        self.nodes.restored(self.members.layout.shares, effect.version)
        if self.nodes.shares:
            held = {self.held[self.newest[server]] for server in self.nodes.holders}
        assert held == {effect.version}, "all hold the same"
        if effect.state is not None:
            assert (effect.version, effect.state) == self.stored.get(self.complete, (0, b""))
        self.version = effect.version

    def _on_Suspended(self, effect: effects.Suspended) -> None:
        assert self.halted
        assert not self.alive, "nobody is left at the places of others"
        self.away = True

    def _on_Failed(self, effect: effects.Failed) -> None:
        self.failed = effect.reason

    # ---- in the end --------------------------------------------------------------------------------------------------

    def check_settled(self) -> None:
        """Every loss has ended in everybody being there again, or in the reason why not."""
        if self.failed is not None:
            return
        state = self.recovery.state
        assert (state.phase, state.started, self.halted) == (Phase.RUNNING, True, False)
        for task in self.recovery.tasks.values():
            there = TaskState.READY if task.role == "server" else TaskState.ATTACHED
            member = task.key in self.nodes.all or task.role not in ("worker", "server")
            assert task.state == (there if member else TaskState.LEFT), f"{task.name} is {task.state}"
        assert self.nodes.moving is None, "a repartition has no end"
        assert self.nodes.joined == set(self.nodes.of_role("server")), "whoever is there has been announced"
        assert len(self.alive) == sum(task.state != TaskState.LEFT for task in self.recovery.tasks.values())

    def signature(self) -> str:
        """Worlds of one signature have the same future, if numbers of incarnations and generations are no matter."""
        tasks = [(task.state, tuple(sorted(task.holders)), task.useful) for task in self.recovery.tasks.values()]
        state = self.recovery.state
        incarnations = {key: task.incarnation for key, task in self.recovery.tasks.items()}

        def plain(part: object) -> object:
            if isinstance(part, Process):
                return (part.key, part.incarnation - incarnations[part.key])
            if isinstance(part, effects.Reconfigure):
                return (part.key, part.generation - state.generation, part.ring, part.source, part.number, part.anew)
            return part

        owed = sorted(repr([plain(part) for part in about]) for about in self.owed)
        versions = sorted(
            (process.key, self.held.get(process), self.attached.get(process, -1) - state.generation)
            for process in self.alive
        )
        nodes = (sorted(self.nodes.all), self.nodes.shares, self.nodes.moving, self.nodes.spoiled, state.moving)
        more = (nodes, self.halted, self.begun, self.failed, self.version, self.complete, self.ring, state.leaving)
        return repr((tasks, state.phase, state.generation, owed, versions, more))

    def copy(self) -> World:
        """With a future of its own."""
        return deepcopy(self)
