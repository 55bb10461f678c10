"""Members and their incarnations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.core import inputs
from runtime.core.layout import Layout
from runtime.core.membership import Membership
from strategies.basic.bsp import BSP
from tests.support.harness import Rig, make_job


def attached(num_workers: int) -> Membership:
    """Everybody's first incarnation is there."""
    members = Membership(Layout.initial(num_workers, 1))
    for worker in range(num_workers):
        assert members.joined(worker, 0)
    return members


@given(steps=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["crash", "leave", "join"])), max_size=40))
def test_at_most_one_incarnation_is_heard(steps: list[tuple[int, str]]) -> None:
    """Against a model: (state, incarnation) of every worker."""
    members = attached(3)
    model = dict.fromkeys(range(3), ("here", 0))
    for worker, step in steps:
        state, incarnation = model[worker]
        if step == "join":
            heard = [number for number in range(incarnation + 2) if members.joined(worker, number)]
            assert heard == ([incarnation] if state == "launching" else [])
            model[worker] = ("here" if state == "launching" else state, incarnation)
        elif state != "left":
            assert members.lost(worker, restarting=step == "crash") == incarnation
            model[worker] = ("launching" if step == "crash" else "left", incarnation + 1)
        assert members.here() == tuple(w for w, (state, _) in model.items() if state == "here")
        assert members.anyone_launching() == any(state == "launching" for state, _ in model.values())


def test_orders_go_to_whoever_lives_when_the_job_begins() -> None:
    """A worker may have died while the job was starting: an order to its first incarnation would reach nobody."""
    rig = Rig(BSP(), make_job(num_workers=2))
    rig.core.receive(0.0, inputs.JobStarted({1: 2}))
    assert {order.worker: order.incarnation for order in rig.orders.values()} == {0: 0, 1: 2}
