"""STAR's tree on the virtual clock: fewer vectors into the server, every sample once, whoever is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.virtual.clock import MACHINE
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.tasks.model_state import ModelState, NoModelState
from strategies.basic.bsp import BSP
from strategies.protocol import Strategy
from strategies.star import Star
from tests.unit.virtual.test_virtual_aggregators import NUM_PARAMETERS, into_server
from tests.unit.virtual.test_virtual_session import Tape, finish, ledger, session, unregister, uses, virtual_job
from tests.unit.virtual.test_virtual_transfers import SECOND, hosts_of

LATENCIES_S = (5.0, 2.0, 9.0, 1.0, 7.0, 3.0)
CALM: dict[str, Any] = {"phi": 300.0, "straggler_frac": 1e9}
"""Of a STAR that stays in SSGD."""
SYSTEMS: dict[str, Callable[..., Strategy]] = {"bsp": BSP, "star": partial(Star, **CALM)}
systems = pytest.mark.parametrize("make", SYSTEMS.values(), ids=SYSTEMS)


def tree_job(
    strategy: Strategy,
    latencies_s: tuple[float, ...],
    samples: int,
    model_state: ModelState | None = None,
    actuator: Schedule | None = None,
    **changes: Any,
) -> tuple[VirtualSession, Tape]:
    num_workers = len(latencies_s)
    job, hosts = virtual_job(num_workers, samples, **changes), hosts_of(num_workers, latencies_s=latencies_s)
    model_state = model_state or NoModelState(NUM_PARAMETERS, None)
    return session(strategy, job, device=SECOND, actuator=actuator, model_state=model_state, hosts=hosts)


def sums(tape: Tape) -> list[tuple[int, ...]]:
    """The workers of every sum that has arrived."""
    ready = {event["grad"]["id"]: event["grad"]["worker"] for event in tape.received("Ready")}
    members = [event["grad"].get("members", ()) for event in tape.received("Arrived")]
    return [tuple(ready[member] for member in one) for one in members if one]


@systems
def test_the_tree_follows_the_latencies_of_the_hosts(make: Callable[..., Strategy]) -> None:
    """Worked by hand: 3 and 1 are the nearest; 3 sums 5 and 0, 1 sums 4 and 2. Two vectors a round instead of six."""
    run, tape = tree_job(make(tree_fanout=2, tree_wait_s=60.0), LATENCIES_S, samples=18)
    assert finish(run, tape).version == 3
    assert sorted(sums(tape)) == [(1, 4, 2), (1, 4, 2), (3, 5, 0), (3, 5, 0)]
    assert into_server(run) == pytest.approx(6 + 2 + 2)


def told(tape: Tape) -> list[Any]:
    """All that was received and commanded, and when."""
    lines = [line for line in tape.plain() if line["kind"] == "event"]
    return [(line["t"], line["event"], line["commands"]) for line in lines]


def test_without_stragglers_star_with_a_tree_is_bsp_with_a_tree() -> None:
    """Event for event, as without trees."""
    runs = [tree_job(make(tree_fanout=2), LATENCIES_S, samples=60) for make in SYSTEMS.values()]
    tapes = [tape for run, tape in runs if finish(run, tape)]
    assert told(tapes[0]) == told(tapes[1])


def updates(tape: Tape) -> Counter[tuple[str, int]]:
    """How many updates were made in each mode, of so many vectors."""
    mode, found = "", Counter[tuple[str, int]]()
    for line in tape.plain():
        if line["kind"] == "event":
            mode = (line["state"] or {}).get("mode", mode)
            found.update((mode, len(one["grads"])) for one in line["commands"] if one["type"] == "Apply")
    return found


def slowed(**changes: Any) -> Star:
    """It decides at once, and its mode is by turns SSGD and dynamic x-order if a worker is slow by turns."""
    own = {"predictor": "last_value", "warmup_iters": 0, "decision_s": 0.05, "when_calm": "ssgd", **changes}
    return Star(tree_fanout=2, tree_wait_s=0.5, redecide_iters=3, phi=10.0, kappa=0.1, modes=["ssgd", "dynamic"], **own)


@pytest.mark.few(3)
@pytest.mark.parametrize("lost", ["worker:1", "worker:3", "server:0"])
@pytest.mark.parametrize("moment", range(6))
def test_whoever_is_lost_while_modes_change_every_sample_counts_once(lost: str, moment: int) -> None:
    windows = [
        Disturbance(start_s=2.0 * n, end_s=2.0 * n + 1.0, target="worker:5", kind="slowdown", magnitude=3.0)
        for n in range(1, 20)
    ]
    strategy, more = slowed(), {"epochs": 3, "checkpoint_every_s": 4.0}
    model_state = ledger(virtual_job(6, 60, **more), strategy)
    schedule = Schedule(build_plan("by turns", 0, 1e6, windows))
    run, tape = tree_job(strategy, (0.0,) * 6, 60, model_state, schedule, **more)
    run.clock.at(3.0 + 0.2 * moment, MACHINE, unregister(lost), run)
    run.clock.at(6.0 + 0.3 * moment, MACHINE, unregister(lost, restarting=lost != "worker:3"), run)
    finish(run, tape)
    assert uses(run) == {3.0}
    assert sums(tape)
    assert {mode.split()[0] for mode, _ in updates(tape)} == {"ssgd", "dynamic"}
