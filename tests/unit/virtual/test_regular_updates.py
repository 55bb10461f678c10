"""Updates of the fast path, settled now and then: each server is where it is after one update after another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.virtual.costs import Costs
from runtime.virtual.fast_path.updates import Updates
from runtime.virtual.tasks.servers import Servers

COSTS = Costs(control_s=1e-3, decision_s=1e-3, update_base_s=0.01, update_per_byte_s=1e-3)
DELAYS = st.sampled_from([0.0, 0.002, 0.03])


@given(
    phases=st.lists(
        st.tuples(DELAYS, DELAYS, DELAYS, st.lists(st.sampled_from([0.001, 0.02, 0.1]), min_size=1, max_size=6)),
        min_size=1,
        max_size=6,
    ),
    settles=st.booleans(),
)
def test_servers_end_where_single_updates_take_them(
    phases: list[tuple[float, float, float, list[float]]], settles: bool
) -> None:
    """Three servers of 2, 2 and 1 parameters, whose delays change from phase to phase; often they are all late."""
    delays: tuple[float, ...] = ()
    single, followed, placed = (Servers(COSTS, 5, 3, lambda name, t: (delays[int(name[-1])], 0.0)) for _ in range(3))
    updates, others, idle_s, t = Updates(followed, COSTS), Updates(placed, COSTS), 0.0, 0.0
    for *changed, pauses in phases:
        delays, handled_s = tuple(changed), []
        updates.begin(t)
        others.begin(t)
        last, ends_s = updates.slowest_s, [free_s for free_s, _ in others.distinct]
        for pause_s in pauses:
            t += pause_s
            sent_s = t + COSTS.decision_s
            single.update(sent_s, 1)
            reached_s = sent_s + COSTS.control_s
            idle_s = updates.all(reached_s) if last is None else max(idle_s, reached_s) + last[0] + last[1]
            assert idle_s == single.idle_s
            ends_s = [
                max(end_s, reached_s) + busy_s + injected_s
                for end_s, (_, (busy_s, injected_s)) in zip(ends_s, others.distinct, strict=True)
            ]
            handled_s.append(t)
            if settles:
                updates.settle(handled_s, idle_s)
                handled_s = []
        updates.settle(handled_s, idle_s)
        others.settle_at(ends_s, len(pauses), idle_s)
        assert followed.free_s == placed.free_s == single.free_s
        assert placed.idle_s == single.idle_s
    report = single.report()
    assert followed.report() == placed.report() == report
