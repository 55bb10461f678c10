"""What a plan does to targets, against its definition; and what both runtimes once decided differently."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from injectors.plan import RULES, Disturbance, Kind, build_plan
from injectors.schedule import Change, Schedule
from runtime.cluster.gpu_hogs import DeviceUsers
from runtime.core.disturbing import OF_TASKS, Action, Disturbances, Hold, Release, Share

TASKS = [f"worker:{number}" for number in range(3)]
HOSTS = [f"host:{number}" for number in range(3)]
LAST_S = 12


def window(kind: Any, target: str, start_s: float, end_s: float, level: float = 1.0, **more: Any) -> Disturbance:
    return Disturbance(start_s=start_s, end_s=end_s, target=target, kind=kind, magnitude=level, **more)


class World:
    """A plan's state, and all that it has ordered."""

    def __init__(self, *windows: Disturbance, each_on: str = "") -> None:
        self.home = {task: each_on or host for task, host in zip(TASKS, HOSTS, strict=True)}
        self.levels: dict[tuple[str, Kind], float] = {}
        self.left_fracs: dict[int, float] = {}
        self.dead: set[str] = set()
        self.acts: list[Action] = []
        users = DeviceUsers((0, 1, 2), 3, self.home.get)
        self.plan = Disturbances(Schedule(build_plan("test", 0, 100.0, windows)), self, users, self.act)

    def host_of(self, task: str) -> str | None:
        return self.home[task]

    def tasks_on(self, target: str) -> list[str]:
        return [task for task in TASKS if target in (task, self.home[task])]

    def act(self, action: Action) -> None:
        self.acts.append(action)
        match action:
            case Hold(task):
                assert task not in self.dead
                self.dead.add(task)
            case Release(task):
                self.dead.remove(task)
            case Share(device, left_frac):
                self.left_fracs[device] = left_frac
            case Change(_, target, kind, level):
                self.levels[target, kind] = level

    def lives(self) -> list[tuple[str, str]]:
        """Deaths and returns since the last call, in order."""
        said = [(type(one).__name__, one.task) for one in self.acts if isinstance(one, Hold | Release)]
        self.acts.clear()
        return said

    def move(self, now: float, task: str, host: str) -> None:
        self.home[task] = host
        self.plan.moved(now, task)
        self.plan.admitted(task, moved=True)


def test_a_lost_machine_keeps_its_tasks_away_and_their_levels_are_set_on_the_next() -> None:
    world = World(window("kill", "worker:0", 1, 3), window("pause", "worker:1", 1, 9), window("cpu", "worker:2", 1, 2))
    world.plan.advance(1)
    world.plan.machine_lost("a", ["worker:0", "worker:1"], "a is lost")
    world.plan.machine_lost("b", ["worker:2"], "b is lost")
    holds = [one for one in world.acts if isinstance(one, Hold)]
    assert [(one.task, one.reason) for one in holds[1:]] == [("worker:1", "a is lost"), ("worker:2", "b is lost")]
    world.plan.advance(3)
    assert "worker:0" in world.dead
    world.acts.clear()
    world.plan.machine_back(4, "a", ["worker:0", "worker:1"])
    assert world.acts == [Release("worker:0"), Release("worker:1"), Change(4, "worker:1", "pause", 1.0)]


def test_a_move_that_an_action_causes_waits_for_the_other_actions() -> None:
    """The strategy restarts worker 1 elsewhere when worker 0 dies, before the order to kill worker 1."""
    world = World(window("kill", "host:1", 1, 5), each_on="host:1")
    act = world.act

    def restarts(action: Action) -> None:
        act(action)
        if action == Hold("worker:0"):
            world.move(1, "worker:1", "host:0")

    world.plan.act = restarts
    world.plan.advance(1)
    assert world.dead == {"worker:0", "worker:2"}
    assert ("Hold", "worker:1") in world.lives()


def test_at_the_end_all_levels_are_undone_and_the_dead_stay_dead() -> None:
    world = World(window("kill", "worker:0", 1, 9), window("cpu", "host:0", 1, 9, 0.5), window("gpu", "host:2", 1, 9))
    world.plan.advance(2)
    world.plan.end(3)
    assert (world.levels["host:0", "cpu"], world.dead, world.plan.next_s) == (1.0, {"worker:0"}, float("inf"))


class Step(NamedTuple):
    """A time, up to which changes are made or not, and a task that moves then."""

    after_s: int
    advances: bool
    task: str | None
    host: str


KINDS_HERE: list[Kind] = ["cpu", "gpu", "pause", "kill"]


@st.composite
def windows(draw: st.DrawFn) -> Disturbance:
    kind = draw(st.sampled_from(KINDS_HERE))
    target = draw(st.sampled_from([*TASKS, *HOSTS]))
    start_s = draw(st.integers(0, LAST_S - 1))
    level = draw(st.sampled_from([0.25, 0.5])) if RULES[kind].composition == "least" else 1.0
    of_machine = target in TASKS and kind in OF_TASKS and draw(st.booleans())
    return window(kind, target, start_s, draw(st.integers(start_s + 1, LAST_S)), level, of_machine=of_machine)


STEPS = st.builds(Step, st.integers(0, 2), st.booleans(), st.none() | st.sampled_from(TASKS), st.sampled_from(HOSTS))


def defined(plan: list[Disturbance], left_s: dict[str, list[float]], target: str, kind: Kind, t: float) -> float:
    """The composed level of all open windows, except those that the target has left behind."""

    def is_left(one: Disturbance) -> bool:
        return one.of_machine and any(moved_s < one.end_s for moved_s in left_s.get(target, []))

    mine = [one for one in plan if (one.target, one.kind) == (target, kind) and one.start_s <= t < one.end_s]
    rule = RULES[kind]
    levels = [one.magnitude for one in mine if not is_left(one)]
    return (min if rule.composition == "least" else max)([rule.neutral, *levels])


@given(st.lists(windows(), max_size=8), st.lists(STEPS, min_size=1, max_size=12))
def test_at_every_moment_a_plan_does_what_its_windows_say(plan: list[Disturbance], steps: list[Step]) -> None:
    world, left_s, now = World(*plan), dict[str, list[float]](), 0
    for step in [*steps, Step(LAST_S, advances=True, task=None, host="")]:
        now += step.after_s
        if step.task is not None:
            world.move(now, step.task, step.host)
            left_s.setdefault(step.task, []).append(now)
        if not step.advances:
            continue
        world.plan.advance(now)
        level = {(one, kind): defined(plan, left_s, one, kind, now) for one in [*TASKS, *HOSTS] for kind in KINDS_HERE}
        assert world.dead == {one for one in TASKS if level[one, "kill"] or level[world.home[one], "kill"]}
        for (target, kind), expected in level.items():
            assert world.plan.level(target, kind) == expected
            if kind != "kill" and kind != "gpu":
                assert world.levels.get((target, kind), RULES[kind].neutral) == expected
        for number, task in enumerate(TASKS):
            left_frac = min(level[task, "gpu"], level[world.home[task], "gpu"])
            assert world.left_fracs.get(number, 1.0) == left_frac


@given(st.lists(windows(), max_size=8))
def test_nobody_comes_back_to_die_in_the_same_moment(plan: list[Disturbance]) -> None:
    world = World(*plan, each_on="host:0")
    for t in range(LAST_S + 1):
        world.plan.advance(t)
        tasks = [task for _, task in world.lives()]
        assert len(tasks) == len(set(tasks))
    assert world.dead == set()
