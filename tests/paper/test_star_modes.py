"""What STAR's modes cost (equations 1 to 3, section IV-C1, figure 16), and its communication tree in a job (section
IV-D2)."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core import inputs
from strategies.basic.bsp import BSP
from strategies.basic.static_x import StaticX
from strategies.parts.gates import EachGate
from strategies.parts.sending.tree import TreeGate
from strategies.protocol import Send, Strategy, Timings
from strategies.star import Star
from strategies.star.choice import Choice
from strategies.star.modal import ASGD, SSGD, ModalGate, Mode
from strategies.star.orders import group_lag, order_intervals, order_lags, simulate, single_interval
from strategies.star.times import MODE_COSTS, ModeTimes, ring_s
from tests.support.examples import examples
from tests.support.harness import HeapRun, Rig, make_job

FOUR = [1.0, 1.0, 1.0, 4.0]
FIVE = [1.0, 1.2, 1.5, 2.0, 5.0]
SIX = [1.0, 1.05, 1.1, 2.0, 2.1, 4.0]
EIGHT = [1.0] * 7 + [1.25]
TIMES = st.lists(st.floats(0.05, 20.0), min_size=2, max_size=8)
PHI = st.floats(0.0, 1e5)


def by_heap(times_s: list[float], x: int, updates: int = 3000) -> tuple[float, float, float]:
    """The definition, gradient by gradient in exact arithmetic: seconds per update, mean squared staleness, mean lag
    s / (1 + s), s in global batches."""
    own = [Fraction(str(time_s)) for time_s in times_s]
    heap = [(time_s, worker) for worker, time_s in enumerate(own)]
    heapq.heapify(heap)
    begun, squares, lags, now = [0] * len(own), 0, 0.0, Fraction(0)
    for update in range(updates):
        taken = [heapq.heappop(heap) for _ in range(x)]
        now = taken[-1][0]
        for _, worker in taken:
            squares += (update - begun[worker]) ** 2
            batches = (update - begun[worker]) * x / len(own)
            lags += batches / (1 + batches)
            begun[worker] = update + 1
            heapq.heappush(heap, (now + own[worker], worker))
    return float(now / updates), squares / (x * updates), lags / (x * updates)


@pytest.mark.few(1)
@pytest.mark.parametrize("times_s", [FOUR, FIVE, SIX, EIGHT])
def test_intervals_staleness_and_lags_are_those_of_the_definition(times_s: list[float]) -> None:
    """Section IV-C, t_x; lags are beyond the paper. Phases at random (x = 1) are not those of workers that begin
    together: 2 % there; and the mean staleness of each worker is used, whose mean lag is a little less."""
    sizes = range(1, len(times_s) + 1)
    for x, (update_s, squares), lag in zip(
        sizes, order_intervals(times_s, sizes), order_lags(times_s, sizes), strict=True
    ):
        slow_s, slow_squares, slow_lag = by_heap(times_s, x)
        assert update_s == pytest.approx(slow_s, rel=0.005), x
        assert squares == pytest.approx(slow_squares, rel=0.02 if x == 1 else 0.06, abs=0.01), x
        assert lag == pytest.approx(slow_lag, rel=0.03, abs=0.01), x


@pytest.mark.parametrize("x", [2, 3])
def test_a_job_with_static_x_takes_as_long_as_predicted(x: int) -> None:
    """Section IV-C, t_x, against the gate itself. With x = 2, workers finish together and sums of floats
    decide whose gradient is taken: 2.4 % longer."""
    run = HeapRun(StaticX(x=x), make_job(num_workers=5, global_batch_samples=5, max_time_s=400.0), FIVE).run()
    (predicted_s, _) = order_intervals(FIVE, [x])[0]
    assert run.applied[-1][0] / run.updates == pytest.approx(predicted_s, rel=0.03)


@pytest.mark.parametrize(
    ("times_s", "phi", "mode_cost", "static_s", "dynamic_s"),
    [
        (FOUR, 1000.0, "literal", [2.7115, 3.9250, 3.6042, 11.8125], 3.2698),
        (FOUR, 1000.0, "published", [2.7115, 1.5096, 1.1090, 11.8125], 3.2698),
        (FOUR, 1000.0, "priced", [8.708, 5.243, 4.176, 11.812], 3.5236),
        (FOUR, 100.0, "priced", [1.760, 1.486, 1.460, 4.781], 1.205),
        (FOUR, 1000.0, "order", [8.8125, 4.90625, 3.60417, 11.8125], 3.2698),
    ],
)
def test_the_time_of_a_unit_of_progress(
    times_s: list[float], phi: float, mode_cost: str, static_s: list[float], dynamic_s: float
) -> None:
    """Section IV-C, equations 1 and 2, batches of 128, in every reading. Prices for staleness are within 1 %."""
    costs = ModeTimes(mode_cost=mode_cost)
    assert list(costs.static_s(times_s, 128, phi).values()) == pytest.approx(static_s, rel=0.01)
    assert costs.dynamic_s(times_s, [[0, 1, 2], [3]], 128, phi) == pytest.approx(dynamic_s, rel=1e-3)


def test_a_small_straggler_and_staleness_cost_what_was_measured() -> None:
    """Section IV-C: seven equal workers and one at 1.25 times their time, phi 1000: updates of four are best.
    Figure 16: time to accuracy of eight equal workers with updates of 1, 2 and 4 against 8 is 8.00, 2.10 and 1.27
    times as long. Where noise dominates, kappa = 0.14 gives 7.86, 2.26 and 1.14."""
    static_s = ModeTimes().static_s(EIGHT, 128, 1000)
    dynamic_s = ModeTimes().dynamic_s(EIGHT, [range(7), [7]], 128, 1000)
    assert static_s[1] == pytest.approx(9.118, rel=0.02)
    picked = [static_s[x] for x in (2, 3, 4, 7, 8)]
    assert picked == pytest.approx([3.034, 2.724, 1.922, 2.158, 2.471], rel=0.005)
    assert dynamic_s == pytest.approx(1.968, rel=0.001)
    assert min([*static_s.values(), dynamic_s]) == static_s[4]
    static_s = ModeTimes().static_s([1.0] * 8, 128, 1e9)
    ratios = [static_s[x] / static_s[8] for x in (1, 2, 4)]
    assert ratios == pytest.approx([7.86, 2.26, 1.14], rel=0.01)


def test_rings() -> None:
    """Section IV-C, equation 3: six workers at 1 s, one at 1.5 and one at 3; two removed are best, and waiting half a
    second for one of them is as good as leaving it in."""
    times_s = [1.0] * 6 + [1.5, 3.0]
    cases = ((0, 0), (1, 0), (2, 0), (2, 0.5))
    found = [ring_s(times_s[: 8 - removed], times_s[8 - removed :], wait_s, 128, 1000) for removed, wait_s in cases]
    assert found == pytest.approx([5.9297, 3.1741, 2.3021, 3.1741], rel=1e-4)
    assert ring_s(times_s[:6], [1.6, 3.0], 0.5, 128, 1000) == pytest.approx(1.5 * (1 + 1000 / 768))


@examples(20)
@given(TIMES)
def test_intervals_grow_with_x_and_no_faster_than_gradients_come(times_s: list[float]) -> None:
    """Section IV-C: t_x >= x t_1, t_1 = 1 / sum(1 / T_i), t_N = max T."""
    found = [update_s for update_s, _ in order_intervals(times_s, range(1, len(times_s) + 1))]
    assert found[0] == pytest.approx(1 / sum(1 / time_s for time_s in times_s))
    assert found[-1] == max(times_s)
    assert all(later >= earlier * (1 - 1e-9) for earlier, later in pairwise(found))
    assert all(update_s >= x * found[0] * (1 - 1e-9) for x, update_s in enumerate(found, start=1))


@examples(20)
@given(TIMES, PHI, st.sampled_from(MODE_COSTS))
def test_one_cluster_is_ssgd_and_clusters_of_one_are_asgd(times_s: list[float], phi: float, mode_cost: str) -> None:
    """Section IV-C, equation 2 with one cluster is equation 1 with all workers; beyond the paper: workers alone are
    equally stale, whether they are called clusters or not."""
    costs, count = ModeTimes(mode_cost=mode_cost), len(times_s)
    static_s = costs.static_s(times_s, 64, phi)
    assert costs.dynamic_s(times_s, [range(count)], 64, phi) == pytest.approx(static_s[count])
    if mode_cost in ("pooled", "literal"):
        assert costs.dynamic_s(times_s, [[worker] for worker in range(count)], 64, phi) == pytest.approx(static_s[1])


def test_worked_lags_and_their_price() -> None:
    """Beyond the paper. Four equal workers, x = 2: one update of half a batch late, 0.5 / 1.5. Clusters of 3 at 1 s
    and 1 at 4 s: 1/16 of a batch late in four of five updates, 3 in one: (4 (1/17) + 3/4) / 5. Beyond the paper,
    equations 1 and 2 with lags: 3.2698 as printed, times 1 + 16 (0.19706)^2 = 1.62131. Beyond the paper. A worker
    of 1 s sees 2 or 3 updates of 1, 1 and 4 s during its own, the slow one 12: 15.92."""
    assert order_lags([1.0] * 4, [1, 2, 4]) == pytest.approx([0.75 / 1.75, 1 / 3, 0.0])
    assert group_lag(FOUR, [[0, 1, 2], [3]]) == pytest.approx((4 / 17 + 3 / 4) / 5)
    assert group_lag(FOUR, [range(4)]) == 0.0
    costs = ModeTimes(mode_cost="pooled", kappa=16.0)
    assert costs.dynamic_s(FOUR, [[0, 1, 2], [3]], 128, 1000) == pytest.approx(3.2698 * 1.62131, rel=1e-4)
    static_s = costs.static_s(FOUR, 128, 1000)
    assert static_s[4] == 11.8125
    assert static_s[3] == pytest.approx(3.6042 * (1 + 16 * order_lags(FOUR, [3])[0] ** 2), rel=1e-4)
    assert min(static_s, key=static_s.__getitem__) == 3
    assert single_interval(FOUR) == pytest.approx((4 / 13, (3 * 5.25 + 0.25 * 144) / 3.25))


@pytest.mark.few(2)
@pytest.mark.parametrize("mode_cost", MODE_COSTS)
@examples(20)
@given(times_s=st.lists(st.floats(0.1, 10), min_size=2, max_size=9), phi=st.floats(1, 1e5), cut=st.integers(1, 8))
def test_a_mode_without_a_simulation_costs_the_same_whoever_else_is_a_candidate(
    mode_cost: str, times_s: list[float], phi: float, cut: int
) -> None:
    """Beyond the paper: whether SSGD is cheaper than ASGD, or than some groups, is asked with these two alone."""
    workers = tuple(range(len(times_s)))
    groups = tuple(group for group in (workers[:cut], workers[cut:]) if group)
    every = Choice(costs=ModeTimes(mode_cost=mode_cost))
    for present in (ASGD, Mode(groups=groups)):
        question = (workers, times_s, (workers,), 64.0, phi, present)
        many, few = every.price_modes(*question), replace(every, modes=("ssgd",)).price_modes(*question)
        assert few.keys() == {SSGD, present}
        assert few == {mode: many[mode] for mode in few}


def test_equal_questions_are_answered_once() -> None:
    """Beyond the paper: times that differ by less than half a percent of the fastest are one question."""
    simulate.cache_clear()
    order_intervals([1.0, 1.2, 2.0], [2])
    order_intervals([2.0, 2.401, 4.002], [2])
    assert simulate.cache_info().misses == 1


LATENCIES_S = {0: 5.0, 1: 2.0, 2: 9.0, 3: 1.0, 4: 7.0, 5: 3.0}
"""Of parameters on their way to each worker."""
star = partial(Star, phi=300.0, predict_every_iters=1000)
"""It decides nothing: its mode is what a test makes it."""
systems = pytest.mark.parametrize("make", [BSP, star], ids=["bsp", "star"])


def ready(rig: Rig, worker: int, t: float, recv_s: float | None = None) -> None:
    grad_id = rig.core.ledger.busy[worker].grad_id
    timings = Timings(compute_s=1.0, recv_s=LATENCIES_S[worker] if recv_s is None else recv_s)
    rig.core.receive(t, inputs.GradientReady(grad_id, worker, timings, 100, loss=1.0))


def summed(rig: Rig, place: int, t: float) -> None:
    """All servers have the sum that was ordered as number ``place``."""
    order = rig.sums[place]
    members = tuple(member.grad_id for member in order.members)
    first = order.members[0].worker
    rig.core.receive(t, inputs.GradientArrived(order.grad_id, first, Timings(), members=members))


def sends(rig: Rig) -> list[tuple[tuple[int, ...], str | None]]:
    """The workers of every Send, in order."""
    commands = [command for line in rig.lines for command in line.commands if isinstance(command, Send)]
    return [(tuple(rig.grads[grad].worker for grad in command.grads), command.via) for command in commands]


def second_round(strategy: Strategy) -> Rig:
    """Six workers, all of whose gradients of the first round have arrived, at 10 s."""
    rig = Rig(strategy, make_job(num_workers=6, global_batch_samples=6, num_samples=600)).start()
    for worker in LATENCIES_S:
        ready(rig, worker, 1.0)
    for worker in LATENCIES_S:
        rig.arrive(worker, 10.0)
    assert rig.core.version == 1
    return rig


def change(strategy: Star, mode: Mode) -> None:
    """The schedule takes another mode, in the middle of an update."""
    assert strategy.parts.one(ModalGate).switch(mode) == []


@systems
def test_near_workers_are_inner_nodes(make: Callable[..., Strategy]) -> None:
    """Section IV-D2, worked by hand: 3 and 1 are the nearest; 3 sums 5 and 0, 1 sums 4 and 2."""
    rig = second_round(make(tree_fanout=2, tree_wait_s=5.0))
    assert sends(rig) == [((worker,), None) for worker in LATENCIES_S], "in the first round nothing is known"
    for number, worker in enumerate((0, 2, 5, 1, 4, 3)):
        ready(rig, worker, 11.0 + 0.1 * number)
    assert sends(rig)[6:] == [((1, 4, 2), "aggregator:1"), ((3, 5, 0), "aggregator:0")]
    summed(rig, 1, 12.0)
    assert rig.core.version == 1
    summed(rig, 0, 13.0)
    assert rig.core.version == 2
    (_, order, grads) = rig.applied[-1]
    assert (len(order.grads), order.vectors, sum(grad.samples for grad in grads)) == (6, 2, 6)
    assert order.weights == pytest.approx([1 / 6] * 6)
    assert sorted(work.worker for work in rig.core.ledger.busy.values()) == [0, 1, 2, 3, 4, 5]


def test_a_child_that_is_later_than_the_waiting_time_sends_directly() -> None:
    """Beyond the paper, which says only that stragglers should not be waited for: 3 is ready at 11 s, 0 at 14 s."""
    rig = second_round(BSP(tree_fanout=2, tree_wait_s=2.0))
    ready(rig, 3, 11.0)
    ready(rig, 5, 12.0)
    assert rig.timers[-1] == (13.0, "strategy:tree")
    rig.core.receive(13.0, inputs.TimerFired("strategy:tree"))
    ready(rig, 0, 14.0)
    assert sends(rig)[6:] == [((3, 5), "aggregator:0"), ((0,), None)]


def test_every_group_of_dynamic_x_order_has_a_tree() -> None:
    """Section IV-D2: workers who wait for each other. Of (0, 1, 2) the nearest are 1 and 0, of (3, 4, 5) 3 and 5."""
    strategy = star(tree_fanout=2, tree_wait_s=5.0)
    rig = second_round(strategy)
    change(strategy, Mode(groups=((0, 1, 2), (3, 4, 5))))
    for number, worker in enumerate((0, 2, 3, 1)):
        ready(rig, worker, 11.0 + 0.1 * number)
    assert sends(rig)[6:] == [((0,), None), ((1, 2), "aggregator:0")]
    rig.arrive(0, 11.5)
    summed(rig, 0, 12.0)
    assert [(len(order.grads), order.vectors) for _, order, _ in rig.applied[1:]] == [(3, 2)]
    assert sorted(work.worker for work in rig.core.ledger.busy.values()) == [0, 1, 2, 3, 4, 5]
    ready(rig, 4, 13.0)
    assert sends(rig)[-1] == ((3, 4), "aggregator:0")


@pytest.mark.parametrize("mode", [ASGD, Mode(x=3)], ids=str)
def test_where_it_is_not_known_whose_gradients_make_an_update_there_is_no_tree(mode: Mode) -> None:
    """Section IV-D2: in ASGD there is nothing to add; in static x-order the x earliest are known when all is over."""
    strategy = star(tree_fanout=2, tree_wait_s=5.0)
    rig = second_round(strategy)
    change(strategy, mode)
    for number, worker in enumerate((5, 0)):
        ready(rig, worker, 11.0 + 0.1 * number)
    assert sends(rig)[6:] == [((5,), None), ((0,), None)]


def test_what_is_held_when_the_mode_changes_is_sent_as_the_new_one_needs_it() -> None:
    """Beyond the paper: 5 and 0 wait for their inner node 3. Nobody waits in ASGD; in groups 5 goes with 4 and 2."""
    groups = Mode(groups=((0, 1), (2, 4, 5), (3,)))
    for mode, at_once, then in [
        (ASGD, [((5,), None), ((0,), None), ((4,), None)], [((2,), None)]),
        (groups, [((0,), None), ((4,), None)], [((5, 2), "aggregator:0")]),
    ]:
        strategy = star(tree_fanout=2, tree_wait_s=5.0)
        rig = second_round(strategy)
        for number, worker in enumerate((5, 0)):
            ready(rig, worker, 11.0 + 0.1 * number)
        assert sends(rig)[6:] == []
        change(strategy, mode)
        ready(rig, 4, 11.2)
        assert sends(rig)[6:] == at_once
        ready(rig, 2, 11.3)
        assert sends(rig)[6 + len(at_once) :] == then


def test_only_gates_of_known_groups_have_a_tree() -> None:
    """Section IV-D2: with one gradient per update nothing can be added on the way."""
    with pytest.raises(ValueError, match=r"gate=EachGate: it is not known beforehand .* takes AllGate or ModalGate"):
        TreeGate(gate=EachGate())
    with pytest.raises(ValueError, match=r"tree_wait_s=1.0: there is no tree; set tree_fanout"):
        BSP(tree_wait_s=1.0)
    with pytest.raises(ValueError, match=r"tree_fanout=2: a tree of two levels has at most 6 workers, and there are 7"):
        BSP(tree_fanout=2).validate(7)
    BSP(tree_fanout=2).validate(6)


def test_a_newcomer_for_whom_two_levels_have_no_room_sends_directly() -> None:
    """Beyond the paper: with a fan-out of 1 a tree has two workers; an operator lets a third one join."""
    job = make_job(num_workers=2, global_batch_samples=2, num_samples=600)
    rig = Rig(BSP(tree_fanout=1, tree_wait_s=1.0), job).start()
    for worker in (0, 1):
        ready(rig, worker, 1.0, recv_s=1.0)
    rig.core.receive(1.5, inputs.Operated("join", ""))
    rig.core.receive(1.5, inputs.WorkerJoined(2, 0))
    for worker in (0, 1):
        rig.arrive(worker, 2.0)
    for t in (3.0, 6.0):  # until its latency is known, and then
        for worker in (0, 1, 2):
            ready(rig, worker, t, recv_s=1.0)
        assert sends(rig)[-2:] == [((0, 1), "aggregator:0"), ((2,), None)]
        summed(rig, -1, t + 1.0)
        rig.arrive(2, t + 2.0)
    assert rig.core.version == 3
