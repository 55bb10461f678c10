"""Changes of a job's nodes: when they are settled, how a job switches to other servers, what the Brain sees of nodes
that use more than they request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product
from math import inf
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.dlrover import DLRover
from strategies.dlrover.plan import Limits, Need, optimal_plan
from strategies.dlrover.used import at_requests
from strategies.parts.scaling import switch as module
from strategies.parts.scaling.changes import AddWorkers, Replace
from strategies.parts.scaling.fleet import Fleet
from strategies.parts.scaling.resizing import Resizing
from strategies.parts.scaling.states import HOLDING, SEAMLESS, STOP_RESTART, Effect, Input, Phase, Table, after
from strategies.parts.scaling.switch import Order, Switch
from strategies.parts.scaling.usage import Given, Use
from strategies.protocol import Denied, Launch, NodeId, Repartition, ServerJoined, Started, Woke
from tests.support.laws import played
from tests.support.observed import ObservedRun, Used
from tests.support.switch_world import SwitchWorld

GIVEN = Given(cores=2, memory_bytes=10**9)
TWO = AddWorkers(count=2, cores=2, memory_bytes=10**9)


def resizing(num_servers: int = 1) -> tuple[Resizing, Fleet]:
    """Of a job with two workers that has begun; new nodes may take 10 s."""
    fleet = Fleet(GIVEN, GIVEN)
    made = Resizing(fleet, seamless=True, launch_s=10.0, drain_s=1.0)
    started = Started(t=0.0, workers=(0, 1), batch_samples=(4, 4), num_servers=num_servers)
    fleet.start(started)
    made.start(started)
    return made, fleet


def test_newcomers_that_are_late_and_priorities() -> None:
    """A worker that came and died while all rolled back is reported by nobody."""
    made, _ = resizing()
    made.begin(1.0, [TWO])
    made.then(Woke(t=11.0, tag="other"))
    assert made.busy
    made.then(Woke(t=11.5, tag="other"))
    assert (made.busy, made.settled) == (False, False)
    made, _ = resizing()
    launches = made.begin(1.0, [AddWorkers(count=3, cores=2, memory_bytes=10**9, low_priority=1)])
    assert [one.priority for one in launches if isinstance(one, Launch)] == ["normal", "normal", "low"]


@pytest.mark.parametrize(("limit_memory", "memory_bytes"), [(True, 10**9), (False, None)])
def test_new_nodes_have_a_limit_of_memory_unless_it_is_switched_off(
    limit_memory: bool, memory_bytes: int | None
) -> None:
    fleet = Fleet(GIVEN, GIVEN, limit_memory=limit_memory)
    fleet.start(Started(t=0.0, workers=(0, 1), batch_samples=(4, 4), num_servers=1))
    launch = fleet.request("worker", GIVEN)
    assert (launch.node, launch.memory_bytes) == ("worker:2", memory_bytes)
    assert fleet.given[NodeId.worker(2)] == GIVEN


@pytest.mark.parametrize("node", ["worker:0", "server:0"])
def test_who_is_denied_other_cores_stays_with_those_of_before(node: str) -> None:
    """A quota denies the cores of the start, too, as of the only server, which is not lost by that."""
    made, fleet = resizing()
    made.begin(1.0, [TWO])
    fleet.reallocate(NodeId.parse(node), 8)
    denied = Denied(t=2.0, node=node, reason="8 cores asked, 4 in use, cores_total=4")
    fleet.observe_event(denied)
    assert made.then(denied) == []
    assert fleet.present() == dict.fromkeys(fleet.present(), GIVEN)
    assert len(fleet.present()) == 3
    assert (made.busy, made.settled, made.servers.switch.phase) == (True, None, "training")


def test_a_server_that_is_denied_other_cores_is_there_nevertheless() -> None:
    """On a host that has no room for the cores of the start; a server that was launched does not come."""
    made, _ = resizing(num_servers=2)
    made.then(Denied(t=0.0, node="server:0", reason="cpu_cores=2: host:0 has only 1 left"))
    launches = made.begin(1.0, [Replace(node=NodeId.server(1), cores=4, memory_bytes=10**9)])
    assert [one.node for one in launches if isinstance(one, Launch)] == ["server:2"]
    made.then(Denied(t=2.0, node="server:2", reason="no"))
    assert (made.busy, made.settled) == (False, False)


def test_who_replaces_a_server_gets_its_place_in_the_vector() -> None:
    made, fleet = resizing(num_servers=2)
    made.begin(1.0, [Replace(node=NodeId.server(0), cores=4, memory_bytes=10**9)])
    joined = ServerJoined(t=2.0, server=2, incarnation=0)
    fleet.observe_event(joined)
    assert made.then(joined) == [Repartition(servers=(2, 1))]


def had(**cores: int) -> dict[NodeId, Given]:
    return {NodeId(name[:-1], int(name[-1])): Given(cores=own, memory_bytes=1) for name, own in cores.items()}


def used(**cores: float) -> dict[NodeId, Use]:
    return {NodeId(name[:-1], int(name[-1])): Use(cores=own) for name, own in cores.items()}


def cores(uses: Mapping[NodeId, Use]) -> dict[str, float]:
    return {f"{node.role}{node.number}": use.cores for node, use in uses.items()}


def test_who_uses_less_than_the_request_is_taken_as_it_is() -> None:
    """1 of 2 cores and 3 of 1 used, so 2 of 4: what servers need for that is half of what they used."""
    found = at_requests(had(worker0=2, worker1=1, server0=1), used(worker0=1.0, worker1=3.0, server0=0.8))
    assert cores(found) == pytest.approx({"worker0": 1.0, "worker1": 1.0, "server0": 0.4})
    calm = used(worker0=1.5, worker1=0.9, server0=0.8)
    assert at_requests(had(worker0=2, worker1=1, server0=1), calm) == calm


@given(st.floats(0.1, 1.0), st.floats(0.05, 2.0), st.floats(1.0, 8.0))
def test_the_need_per_worker_is_the_same_however_much_faster_idle_cores_made_the_job(
    worker: float, server: float, faster: float
) -> None:
    """Workers that compute all the time need a core; beyond it they and their servers are faster in proportion."""
    found = at_requests(had(worker0=1, server0=4), used(worker0=faster, server0=server * faster))
    assert cores(found) == pytest.approx({"worker0": 1.0, "server0": server})


SMALL: dict[str, Any] = {
    "cores_total": 16,
    "cores_max": 4,
    "worker_cores": 1,
    "first_server_cores": 2,
    "server_cores": 2,
    "workers_max": 12,
    "sample_s": 60.0,
    "min_interval_s": 1.0,
}
"""Four hosts of four cores, as in ``dlrover_hosts_grid``."""


def on_hosts_of_four(factor: float) -> Any:
    """A worker that is alone on its host is ``factor`` times as fast; a full cluster leaves nobody more than its cores.

    Each core of workers takes 0.5 of servers."""

    def uses(has: Mapping[NodeId, float]) -> dict[NodeId, Used]:
        workers = [node for node in has if node.role == "worker"]
        servers = [node for node in has if node.role == "server"]
        each = min(factor, max(1.0, 10 / len(workers)))
        return {
            **{node: Used(each * 0.98) for node in workers},
            **{node: Used(0.5 * each * len(workers) / len(servers)) for node in servers},
        }

    return uses


def plan_of(cores_as: Any, factor: float) -> tuple[int, int]:
    """Workers and servers after the first plan."""
    job = ObservedRun(DLRover(**SMALL, cores_as=cores_as), on_hosts_of_four(factor), max_time_s=150.0)
    assert played(job) == []
    roles = [node.role for node in job.cores]
    return roles.count("worker"), roles.count("server")


def test_idle_cores_of_the_first_hosts_do_not_change_the_plan() -> None:
    """Of 16 cores a worker of 1 takes 1.5 with its updates: 10 of them, and 3 servers of 2."""
    assert plan_of("request", 1.0) == plan_of("limit", 1.0) == (10, 3)
    assert plan_of("request", 4.0) == (10, 3)
    as_used = Need(worker_cores=4 * 0.98, update_cores=4 * 0.5)
    assert optimal_plan(as_used, Limits(cores_total=16, cores_max=4, server_cores=2)).workers == 2


TABLES = {"seamless": SEAMLESS, "stop_restart": STOP_RESTART}
BOTH = pytest.mark.parametrize("seamless", [True, False], ids=["seamless", "stop_restart"])
OLD, NEW = (NodeId.server(0), NodeId.server(1)), (NodeId.server(2), NodeId.server(3))


@pytest.mark.parametrize(("name", "phase", "given"), list(product(TABLES, Phase, Input)))
def test_every_phase_with_every_input(name: str, phase: Phase, given: Input) -> None:
    """Either there is a way, and its orders fit where it leads; or the message names the ways that there are."""
    table = TABLES[name]
    if given not in table.get(phase, {}):
        with pytest.raises(RuntimeError, match=f"switch {phase}: {given} is impossible"):
            after(table, phase, given)
        return
    following, effects = after(table, phase, given)
    ended = {Effect.FINISHED, Effect.ABANDONED} & set(effects)
    switching = {Phase.TRAINING, Phase.DOWN}
    assert bool(ended) == (phase not in switching and following in switching)
    assert (Effect.MOVE in effects) == (following == Phase.MOVING and given != Input.SERVER_LOST)
    assert (Effect.RETIRE_NEW in effects) == (Effect.ABANDONED in effects)
    assert (Effect.RETIRE_OLD in effects) == (Effect.FINISHED in effects) == (given == Input.RESTORED_NEW)
    if following.startswith("down"):
        assert not effects, "whatever is commanded now is void"
    if phase in HOLDING and following not in HOLDING and not following.startswith("down"):
        assert Effect.RESUME in effects


def effects(orders: list[Order]) -> list[Effect]:
    return [order.effect for order in orders]


def asked(seamless: bool = True, busy: tuple[NodeId, ...] = (), keep: tuple[NodeId, ...] = OLD, **about: Any) -> Switch:
    """From two servers to four, at time 0."""
    switch = Switch(OLD, seamless, **about)
    for worker in busy:
        switch.begin_work(worker)
    switch.ask(0.0, keep, NEW)
    return switch


def join(switch: Switch, t: float = 20.0) -> list[Order]:
    """Both new servers join; the orders of both are returned."""
    return switch.join(t, NEW[0]) + switch.join(t, NEW[1])


def test_workers_train_while_new_servers_start() -> None:
    """DLRover section 5.3: "workers continue to train the model until all new PS are ready"."""
    switch = Switch(OLD)
    assert switch.ask(0.0, OLD[:1], NEW) == [Order(Effect.LAUNCH, NEW)]
    switch.begin_work(NodeId.worker(0))
    assert switch.join(20.0, NEW[1]) == []
    assert not switch.holds
    assert switch.join(21.0, NEW[0]) == []
    assert switch.holds
    assert switch.end_work(22.0, NodeId.worker(0)) == [
        Order(Effect.CHECKPOINT),
        Order(Effect.MOVE, (NodeId.server(0), NodeId.server(2), NodeId.server(3))),
    ]
    assert switch.restore(23.0, [NodeId.server(0), *NEW]) == [
        Order(Effect.RETIRE_OLD, (NodeId.server(1),)),
        Order(Effect.RESUME),
        Order(Effect.FINISHED),
    ]
    assert (switch.phase, switch.holds, switch.due_s) == (Phase.TRAINING, False, inf)
    assert switch.servers == {NodeId.server(0), *NEW}


def test_native_tensorflow_stops_first() -> None:
    """DLRover section 2.1: "it usually stops the training of the job and checkpoint those parameters"."""
    switch = asked(seamless=False, busy=(NodeId.worker(0),))
    assert switch.holds
    assert switch.end_work(1.0, NodeId.worker(0)) == [
        Order(Effect.CHECKPOINT),
        Order(Effect.RESTART_WORKERS),
        Order(Effect.LAUNCH, NEW),
    ]
    assert switch.holds
    assert join(switch) == [Order(Effect.MOVE, (*OLD, *NEW))]
    assert effects(switch.restore(30.0, [*OLD, *NEW])) == [Effect.RESUME, Effect.FINISHED]


@BOTH
def test_what_does_not_arrive_is_dropped(seamless: bool) -> None:
    switch = asked(seamless, busy=(NodeId.worker(0), NodeId.worker(1)), drain_s=5.0)
    if seamless:
        join(switch)
    start = 20.0 if seamless else 0.0
    assert switch.due_s == start + 5
    switch.end_work(start + 1, NodeId.worker(1))
    assert switch.wake(start + 4.9) == []
    orders = switch.wake(start + 5)
    assert orders[0] == Order(Effect.DROP, (NodeId.worker(0),))
    assert switch.end_work(start + 9, NodeId.worker(0)) == []
    assert switch.computing == set()


@BOTH
@pytest.mark.parametrize("how", ["denied", "pending forever"])
def test_a_new_server_that_does_not_come_ends_the_switch(seamless: bool, how: str) -> None:
    switch = asked(seamless, launch_s=100.0)
    switch.join(10.0, NEW[0])
    assert switch.due_s == 100.0
    orders = switch.lose(50.0, NEW[1]) if how == "denied" else switch.wake(100.0)
    assert effects(orders) == [Effect.RETIRE_NEW, Effect.RESUME, Effect.ABANDONED]
    assert orders[0].nodes == ((NEW[0],) if how == "denied" else NEW)
    assert switch.servers == set(OLD)
    assert switch.join(101.0, NEW[1]) == [], "it is retired already"
    assert switch.lose(102.0, NEW[1]) == []


@pytest.mark.parametrize(
    ("keep", "launch", "message"),
    [
        ((), (), "none would be left"),
        (OLD, (), "nothing would change"),
        ((NodeId.server(9),), NEW, "cannot keep"),
    ],
)
def test_impossible_sets_are_refused(keep: tuple[NodeId, ...], launch: tuple[NodeId, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Switch(OLD).ask(0.0, keep, launch)


def test_parameters_on_strange_servers_are_a_mistake() -> None:
    with pytest.raises(RuntimeError, match="restored on server:7: neither server:0, server:1"):
        asked().restore(1.0, [NodeId.server(7)])


def walk(seamless: bool, seed: int) -> SwitchWorld:
    """Anything may happen for a while; then nothing goes wrong any more, and what is awaited comes."""
    random = Random(seed)
    servers = [NodeId.server(number) for number in range(random.randint(1, 4))]
    world = SwitchWorld(Switch(servers, seamless), workers=random.randint(1, 4), random=random)
    for _ in range(120):
        world.step()
    for _ in range(60):
        if not world.step(calm=True):
            break
    return world


@BOTH
def test_every_walk_returns_to_training(seamless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never stuck, no order while it would be void, nothing left over; and all ways of the table are gone."""
    gone: Counter[tuple[Phase, Input]] = Counter()

    def watched(table: Table, phase: Phase, given: Input) -> object:
        gone[phase, given] += 1
        return after(table, phase, given)

    monkeypatch.setattr(module, "after", watched)
    for seed in range(100):
        world = walk(seamless, seed)
        assert world.switch.phase == Phase.TRAINING, seed
        world.check()
    table = TABLES["seamless" if seamless else "stop_restart"]
    assert {(phase, given) for phase, ways in table.items() for given in ways} == set(gone)
