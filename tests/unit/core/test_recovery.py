"""The recovery by itself: whatever happens in whatever order, everybody is there again in the end, at one version.

What must hold at every step is checked by :class:`tests.support.recovery_world.World`, which knows nothing of how the
automaton decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.recovery import effects, inputs
from runtime.core.recovery.automaton import Recovery
from runtime.core.recovery.rules import Rules
from runtime.core.recovery.states import ImpossibleTransitionError, Phase, TaskState
from strategies.protocol import NodeId
from tests.support.members import recovery_of
from tests.support.recovery_world import Process, World

LIVE = Rules()
VIRTUAL = Rules(reads_on_return=True, plan_ends_wait=True, regroups=True)
BOTH = {"live": LIVE, "virtual": VIRTUAL}


def rules(kind: str, failover: str, max_restarts: int | None = None) -> Rules:
    base = BOTH[kind]
    return Rules(
        failover=failover,  # type: ignore[arg-type]
        max_restarts=max_restarts,
        reads_on_return=base.reads_on_return,
        plan_ends_wait=base.plan_ends_wait,
        regroups=base.regroups,
    )


def begun(given_rules: Rules, workers: int, servers: int, auxiliaries: tuple[str, ...] = ()) -> World:
    """A world in which the job runs, and its first checkpoint is stored."""
    world = World(given_rules, workers, servers, auxiliaries)
    world.settle()
    assert (world.begun, world.complete) == (True, 0)
    return world


SIZES = {"servers": (3, 2, ("scorer", "evaluator")), "replicas": (3, 0, ("evaluator",)), "one replica": (1, 0, ())}


@pytest.mark.few(4)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("failover", ["shards", "checkpoint"])
@pytest.mark.parametrize("kind", BOTH)
@given(choices=st.lists(st.integers(0, 10**6), min_size=20, max_size=80), limit=st.sampled_from([None, 0, 1, 3]))
@settings(max_examples=25)
def test_whatever_happens_all_are_there_again_in_the_end(
    kind: str, failover: str, size: str, choices: list[int], limit: int | None
) -> None:
    """From before the start on. At random an answer is as likely as a fault, so that recoveries come to their end."""
    play(World(rules(kind, failover, limit), *SIZES[size]), choices)


def test_a_suspended_job_ends_a_server_that_holds_nothing_with_all_others() -> None:
    """Found by chance: the new generation that follows is that of all."""
    world = play(World(rules("live", "shards", None), *SIZES["servers"]), [0] * 15 + [1402, 0, 0, 0, 170])
    assert world.generation


def play(world: World, choices: Sequence[int]) -> World:
    for choice in choices:
        answers = world.possible(faults=False)
        found = answers if answers and choice % 2 else world.possible()
        if found:
            kinds = sorted({action[0] for action in found})  # else what is rarely possible would rarely happen
            kind, choice = kinds[choice // 2 % len(kinds)], choice // 2 // len(kinds)
            of_kind = [action for action in found if action[0] == kind]
            world.do(of_kind[choice % len(of_kind)])
    world.settle()
    world.check_settled()
    return world


def explore(start: World, faults: Sequence[str]) -> tuple[int, int]:
    """All orders of all answers, with these faults one after another at any time and place; returns how many states
    there are, and how many ends."""
    seen: set[str] = set()
    ends = 0
    open_: list[tuple[World, int]] = [(start, 0)]
    while open_:
        world, used = open_.pop()
        actions = world.possible(faults=False)
        if used < len(faults):
            actions += [action for action in world.possible() if action[0] == faults[used]]
        elif not actions:
            ends += 1
            world.settle()
            world.check_settled()
        for action in actions:
            following = world.copy()
            following.do(action)
            signature = f"{used + (action[0] != 'answer')} {following.signature()}"
            if signature not in seen:
                seen.add(signature)
                open_.append((following, used + (action[0] != "answer")))
    return len(seen), ends


SHAPES = {
    "2-1-shards": (2, 1, "shards"),
    "1-2-checkpoint": (1, 2, "checkpoint"),
    "2-1-checkpoint": (2, 1, "checkpoint"),
    "1-2-shards": (1, 2, "shards"),
    "3-0-shards": (3, 0, "shards"),
    "3-0-checkpoint": (3, 0, "checkpoint"),
}
"""Workers, servers, and what the others do when a server is lost. The last takes most of the time of all."""
FAULTS = (
    ("die", "die"),
    ("update", "die", "die"),
    ("hold", "die", "release"),
    ("restart", "die"),
    ("restart", "hold", "release"),
    ("save", "die"),
    ("die", "link lost"),
    ("admit", "die"),
    ("admit", "dismiss"),
    ("admit", "hold", "release"),
    ("save", "die", "restart"),
    ("repartition", "die"),
    ("admit", "repartition", "die"),
)
ORDERS = [
    pytest.param(*shape, faults, id=f"{'-'.join(faults)}-{name}", marks=[pytest.mark.long] if long else [])
    for number, faults in enumerate(FAULTS)
    for place, (name, shape) in enumerate(SHAPES.items())
    for long in [name == "3-0-checkpoint" or (number + place) % 3 > 0 or "repartition" in faults[1:]]
    if shape[1] or "repartition" not in faults
]
"""Every third one for every commit: each fault with one or two shapes, and each shape with three or four faults."""


@pytest.mark.few(3)
@pytest.mark.parametrize(("workers", "servers", "failover", "faults"), ORDERS)
def test_every_order_of_answers_and_faults(workers: int, servers: int, failover: str, faults: tuple[str, ...]) -> None:
    states, ends = explore(begun(rules("live", failover), workers, servers), faults)
    assert states > 12
    assert ends > 0


def wanted(recovery: Recovery, given_input: inputs.AnyInput) -> list[type]:
    return [type(effect) for effect in recovery.receive(given_input)]


def unregister(world: World, *keys: tuple[str, int]) -> None:
    for key in keys:
        world.do(("die", world.newest[key]))


def test_a_worker_s_loss_overtakes_a_restart_too_where_all_go_back_for_it() -> None:
    """It was waited for forever on the virtual clock: the checkpoint before could not become complete any more."""
    world = begun(rules("virtual", "checkpoint"), 2, 1)
    world.do(("restart", ("server", 0)))
    unregister(world, ("worker", 0))
    world.settle()
    world.check_settled()


@pytest.mark.parametrize("kind", ["live", "virtual"])
@pytest.mark.parametrize(
    ("given", "done"),
    [
        (inputs.Restart(("server", 0), 1.0), effects.MayLeave),
        (inputs.Suspend(), effects.Suspended),
        (inputs.Repartition(((NodeId.server(1), 1.0),)), effects.Load),
    ],
)
def test_nobody_waits_for_a_checkpoint_that_was_abandoned(kind: str, given: inputs.AnyInput, done: type) -> None:
    """A server that is evicted without notice goes without another checkpoint, and waited for the void one forever."""
    world = begun(rules(kind, "checkpoint"), 2, 2)
    world.do(("save",))
    unregister(world, ("worker", 0))
    world.settle()
    assert world.recovery.state.phase == Phase.RUNNING
    assert done in {type(effect) for effect in world.recovery.receive(given)}


def test_a_task_that_never_does_anything_is_given_up_after_so_many_deaths() -> None:
    recovery = recovery_of(Rules(max_futile=3), 1, 1)
    recovery.receive(inputs.Begin())
    for incarnation in range(2):
        assert wanted(recovery, inputs.Gone(("worker", 0), incarnation, "x")) == [effects.Fence, effects.Launch]
    (failed,) = recovery.receive(inputs.Gone(("worker", 0), 2, "x"))
    assert failed == effects.Failed("worker 0 died 3 times before doing any useful work: x")


def test_who_finds_a_killed_predecessor_s_memory_on_its_device_tries_again() -> None:
    """It counts for no other limit, but only of a successor, before it has computed, and so many times."""
    recovery = begun(Rules(max_futile=2, max_restarts=1, max_crowded=3, crowded_s=0.5), 1, 1).recovery
    full = inputs.Gone(("worker", 0), 0, "CUDA out of memory", retryable=False, device_full=True)
    first = recovery_of(Rules(), 1, 1)
    first.receive(inputs.Begin())
    assert first.receive(full) == [effects.Failed("worker 0 crashed: CUDA out of memory")]
    assert wanted(recovery, inputs.Gone(("worker", 0), 0, "x"))[:2] == [effects.Fence, effects.Launch]
    for incarnation in range(1, 4):
        fenced, wait, lost = recovery.receive(msgspec.structs.replace(full, incarnation=incarnation))
        assert (type(fenced), type(lost)) == (effects.Fence, effects.WorkerLost)
        assert wait == effects.Wait(("worker", 0), incarnation + 1, 0.5, moves=False)
        assert wanted(recovery, inputs.PlaceFree(("worker", 0), incarnation + 1)) == [effects.Launch]
    assert wanted(recovery, msgspec.structs.replace(full, incarnation=4)) == [effects.Failed]


@pytest.mark.parametrize("kind", BOTH)
def test_every_loss_that_nobody_ordered_counts_towards_max_losses(kind: str) -> None:
    """Kills by plan and deaths of workers and servers do; restarts by the strategy and auxiliary tasks do not."""
    world = begun(msgspec.structs.replace(BOTH[kind], max_losses=2), 3, 1, ("evaluator",))
    world.do(("hold", ("worker", 0)))
    world.settle()
    world.do(("restart", ("worker", 1)))
    unregister(world, ("evaluator", 0))
    world.settle()
    unregister(world, ("server", 0))
    world.settle()
    assert not world.failed
    held = world.recovery.receive(inputs.Hold(("worker", 2), "killed by the plan"))
    assert held == [effects.Failed("worker 2 is lost (killed by the plan), and max_losses=2 is used up")]


def test_who_is_killed_while_it_is_not_there_is_not_lost_again() -> None:
    world = begun(msgspec.structs.replace(LIVE, max_losses=1), 2, 1)
    world.do(("hold", ("worker", 0)))
    assert world.recovery.receive(inputs.Hold(("worker", 0), "killed by the plan")) == []
    gone = inputs.Gone(("worker", 1), 0, "killed by signal 9")
    assert wanted(world.recovery, gone) == [effects.Failed]


def test_who_has_left_is_not_heard_any_more() -> None:
    world = begun(rules("live", "shards", 0), 2, 1)
    unregister(world, ("worker", 0))
    assert world.recovery.tasks["worker", 0].state == TaskState.LEFT
    for late in (inputs.Ready(("worker", 0), 1), inputs.Gone(("worker", 0), 1, "x"), inputs.Hold(("worker", 0), "x")):
        assert world.recovery.receive(late) == []
    unregister(world, ("worker", 1))
    assert world.failed == "no worker is left"


def test_a_scorer_that_connects_after_all_go_on_is_announced_again() -> None:
    """It was stopped while a server was lost, and what it was asked until it connected again has to be repeated."""
    recovery = recovery_of(Rules(), 1, 1, ("scorer",))
    recovery.receive(inputs.Begin())
    for role in ("server", "worker", "scorer"):
        recovery.receive(inputs.Ready((role, 0), 0))
    for role in ("worker", "scorer"):
        recovery.receive(inputs.Attached((role, 0), 0, generation=0))
    recovery.receive(inputs.Save(0, b""))
    recovery.receive(inputs.Saved(("server", 0), 0))
    recovery.receive(inputs.Gone(("server", 0), 0, "killed"))
    recovery.receive(inputs.Ready(("server", 0), 1))
    recovery.receive(inputs.Loaded(("server", 0), generation=1, version=0, state=b""))
    assert wanted(recovery, inputs.Attached(("worker", 0), 0, generation=1)) == [effects.Restored]
    assert wanted(recovery, inputs.Attached(("scorer", 0), 0, generation=1)) == [effects.AuxiliaryJoined]


def test_what_cannot_be_is_refused_with_what_went_before_and_changes_nothing() -> None:
    world = begun(LIVE, 1, 1)
    with pytest.raises(
        ImpossibleTransitionError,
        match=r"worker 0 is attached: built is impossible \(possible: detached, connected, .*; before: built \(inc",
    ):
        world.recovery.receive(inputs.Ready(("worker", 0), 0))
    assert world.recovery.receive(inputs.Worked(("worker", 0), 0)) == []
    assert world.newest["worker", 0] == Process(("worker", 0), 0)
    unregister(world, ("server", 0))
    world.settle()
    world.check_settled()


@pytest.mark.parametrize(
    ("servers", "shares", "lost", "holders", "version"),
    [
        (2, {1: 1.0}, 1, (0, 1), 0),  # they go back to the checkpoint before, and keep what they have
        (1, {1: 1.0}, 1, (0,), 1),
        (1, {1: 1.0, 0: 3.0}, None, (1, 0), 1),
    ],
    ids=["a loss overtakes it", "one of them is gone", "all goes well"],
)
def test_a_repartition_keeps_the_present_version_or_is_void(
    servers: int, shares: dict[int, float], lost: int | None, holders: tuple[int, ...], version: int
) -> None:
    """With one server a second one joins first."""
    world = begun(LIVE, 1, servers)
    if servers == 1:
        world.do(("admit", "server"))
        world.settle()
    world.do(("update",))
    world.do(("repartition", tuple((NodeId.server(number), share) for number, share in shares.items())))
    if lost is not None:
        unregister(world, NodeId.server(lost))
        assert world.halted
    world.settle()
    world.check_settled()
    assert (world.nodes.holders, world.version) == (tuple(map(NodeId.server, holders)), version)
