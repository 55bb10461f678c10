"""How long a switch to other servers stops training: DLRover section 5.3, and section 6.3 for its times."""

from __future__ import annotations

import pytest

from strategies.parts.scaling.states import Effect, Phase
from strategies.parts.scaling.switch import Order, Switch
from strategies.protocol import NodeId

SECONDS = {"launch": 20.0, "initialise": 100.0, "checkpoint": 5.0, "repartition": 2.0, "restore": 5.0, "reconnect": 3.0}
"""Launch and initialisation: section 6.3, "about 20s to launch Pods, about 100s to initialize training"."""


def ends(t: float, orders: list[Order], seamless: bool) -> list[tuple[float, NodeId | str]]:
    """When what is ordered at ``t`` has happened: new servers join, parameters are restored.

    The stop-restart job reads its checkpoint as a new job does: it neither divides nor reconnects.
    """
    found = []
    for effect, nodes in orders:
        if effect == Effect.CHECKPOINT:
            t += SECONDS["checkpoint"]
        elif effect == Effect.LAUNCH:
            found += [(t + SECONDS["launch"] + SECONDS["initialise"], node) for node in nodes]
        elif effect == Effect.MOVE:
            names = ("repartition", "restore", "reconnect") if seamless else ("restore",)
            found.append((t + sum(SECONDS[name] for name in names), "restored"))
    return found


def stall_s(
    seamless: bool, drain_s: float = 0.0, launch: tuple[NodeId, ...] = (NodeId.server(1), NodeId.server(2))
) -> float:
    """Seconds in which nobody may begin to compute, while the one worker's iteration takes ``drain_s`` more."""
    switch = Switch([NodeId.server(0)], seamless)
    switch.began(NodeId.worker(0))
    t, held_s = 0.0, None
    orders = switch.ask(t, [], launch)
    events = ends(t, orders, seamless)
    while switch.phase != Phase.TRAINING:
        if switch.holds and held_s is None:
            held_s = t
            events.append((t + drain_s, "drained"))
        events.sort()
        t, what = events.pop(0)
        if what == "drained":
            orders = switch.ended(t, NodeId.worker(0))
        else:
            orders = switch.restored(t, launch) if what == "restored" else switch.joined(t, what)
        events += ends(t, orders, seamless)
    assert held_s is not None
    assert orders[-1] == Order(Effect.FINISHED)
    return t - held_s


def test_a_seamless_switch_stops_training_for_fifteen_seconds() -> None:
    """Section 5.3: drain + checkpoint + repartition + restore + reconnect = 0 + 5 + 2 + 5 + 3."""
    assert stall_s(seamless=True) == pytest.approx(15.0)


def test_a_stop_and_restart_stops_it_for_more_than_two_minutes() -> None:
    """Section 2.1: checkpoint + launch + initialise + restore = 5 + 20 + 100 + 5."""
    assert stall_s(seamless=False) == pytest.approx(130.0)


@pytest.mark.parametrize("seamless", [True, False])
def test_the_iteration_that_is_awaited_adds_to_both(seamless: bool) -> None:
    """Section 5.3: the master "halts workers' execution"."""
    assert stall_s(seamless, drain_s=2.5) == pytest.approx(stall_s(seamless) + 2.5)


def test_more_new_servers_stop_it_no_longer() -> None:
    """Section 5.3:  "Note workers do not wait for the creation and initialization of new PS"."""
    assert stall_s(True, launch=tuple(NodeId.server(number) for number in range(1, 9))) == stall_s(True)
