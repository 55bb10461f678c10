"""Parts drive a strategy by their hooks: sizes, rounds, rates; and what a composition refuses."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from typing import Any

import pytest

from runtime.core.job import ComputeOrder
from strategies.antdt.adjust_bs import AdjustBS
from strategies.antdt.detector import StragglerDetector
from strategies.antdt.kill_restart import KillRestart
from strategies.basic.asp import ASP
from strategies.basic.dynamic_x import OwnTimes, Regroup
from strategies.basic.static_x import ExactlyGate, StaticX
from strategies.lb_bsp.by_speed import SpeedLoad
from strategies.lb_bsp.by_steps import StepsLoad
from strategies.lb_bsp.forecast import Forecast
from strategies.lgc.delayed import BlocksGate
from strategies.parts.composed import Composed
from strategies.parts.gates import AllGate, BoundedGate, EachGate, GroupsGate
from strategies.protocol import Apply, Compute, Drop, Joined, Lost, Restart, Score, Started, Strategy, Wake
from strategies.sync_switch.switching import SwitchingGate
from strategies.sync_switch.sync_then_async import SyncThenAsync
from strategies.zeno_pp.strategy import DescentScreen
from tests.contract.catalogue import make
from tests.support.harness import HeapRun, Rig, make_job, samples_of


class Rotating:
    """A load policy that gives the sizes 1, 2 and 3 to the next workers in every round."""

    steady, needs_rounds = False, False

    def start(self, started: Started) -> None:
        self.sizes, self.rounds = dict.fromkeys(started.workers, 2), list[tuple[int, ...]]()

    def order(self, worker: int) -> Compute:
        return Compute(worker=worker, num_samples=self.sizes[worker])

    def resize(self, workers: tuple[int, ...]) -> None:
        self.rounds.append(workers)
        self.sizes |= {worker: 1 + (worker + len(self.rounds)) % 3 for worker in workers}


def rig(strategy: Strategy) -> Rig:
    return Rig(strategy, make_job(num_workers=3, global_batch_samples=6)).start()


def sizes(rig: Rig) -> list[int]:
    """Of the last three orders, by worker."""
    orders = [command for command in rig.commands if isinstance(command, Compute)][-3:]
    return [order.num_samples for order in sorted(orders, key=lambda order: order.worker)]


def test_sizes_are_those_of_the_round() -> None:
    at = rig(Composed(gate=AllGate(), load=Rotating()))
    seen = [sizes(at)]
    for _ in range(2):
        for worker in (2, 0, 1):
            at.arrive(worker)
        seen.append(sizes(at))
    assert seen == [[2, 3, 1], [3, 1, 2], [1, 2, 3]]
    assert all(sum(one) == 6 for one in seen)
    load = Rotating()
    at = rig(Composed(gate=AllGate(), load=load))
    at.fail(0)
    at.lose(1)
    at.join(1)
    orders = [command for command in at.commands if isinstance(command, Compute)]
    assert [(order.worker, order.num_samples) for order in orders] == [(0, 2), (1, 3), (2, 1), (0, 2), (1, 3)]
    assert load.rounds == [(0, 1, 2)]


def test_without_rounds_all_current_workers_are_resized_after_as_many_gradients() -> None:
    """Each takes its new size with its next order: worker 1 at once, whose gradient was the third."""
    load = Rotating()
    at = rig(Composed(gate=EachGate(), load=load))
    for _ in range(2):
        at.arrive(1)
    assert (load.rounds, at.commands[-1]) == ([(0, 1, 2)], Compute(worker=1, num_samples=3))
    at.arrive(1)
    assert (load.rounds, at.commands[-1]) == ([(0, 1, 2)] * 2, Compute(worker=1, num_samples=1))
    at.lose(2, restarting=False)
    at.arrive(0)
    at.arrive(1)
    assert load.rounds[2:] == [(0, 1)]


def test_the_penalty_is_that_of_the_staleness() -> None:
    run = HeapRun(
        ASP(lr_rule="inverse"), make_job(num_workers=3, global_batch_samples=3, max_time_s=20.0), [1, 1, 4]
    ).run()
    for (_, order, _), staleness in zip(run.applied, run.staleness, strict=True):
        assert order.weights == (1 / max(1, staleness),)
    assert max(run.staleness) >= 7
    slow = [order.weights[0] for _, order, grads in run.applied if grads[0].worker == 2]
    linear = HeapRun(
        ASP(lr_rule="linear"), make_job(num_workers=3, global_batch_samples=3, max_time_s=20.0), [1, 1, 4]
    ).run()
    assert max(slow) < 0.2
    assert min(order.weights[0] for _, order, _ in linear.applied) == pytest.approx(1 / (1 + 0.3 * max(run.staleness)))


def composed(**changes: Any) -> Composed:
    return Composed(**{"gate": BoundedGate(bound=2), **changes})


def restarting(**changes: Any) -> Composed:
    """With AntDT's detector and restarts."""
    parts = {"detectors": {"slow": StragglerDetector()}, "actions": {"kill": KillRestart()}, "decide_every_s": 300.0}
    return composed(**{**parts, **changes})


REFUSALS = {
    "gate=3: is not a part for gate": {"gate": 3},
    "load=EachGate: is not a part for load": {"load": EachGate()},
    "detectors=OwnTimes": {"detectors": OwnTimes()},
    "actions.x=AdjustBS: is not a part for actions": {"actions": {"x": AdjustBS()}},
    "load=StepsLoad: compares the workers of a round, and BoundedGate has none": {"load": StepsLoad()},
    "load=SpeedLoad: changes batches, which BlocksGate divides into parts": {
        "gate": BlocksGate(),
        "load": SpeedLoad(),
        "detectors": {"speeds": Forecast()},
    },
    "screen=DescentScreen: judges every gradient by itself, and BoundedGate does not": {"screen": DescentScreen()},
    "load=SpeedLoad: looks at a Forecast, and neither gate nor detectors is one": {"load": SpeedLoad()},
    "schedule=Regroup: looks at a GroupsGate": {"schedule": Regroup(), "detectors": {"times": OwnTimes()}},
    "schedule=SyncThenAsync: looks at a FlagDetector": {"gate": SwitchingGate(), "schedule": SyncThenAsync()},
    "actions.kill=KillRestart: looks at a FindsStragglers": {"actions": {"kill": KillRestart()}, "decide_every_s": 3},
    "detectors.times=OwnTimes: nothing looks at it": {"detectors": {"times": OwnTimes()}},
    "decide_every_s=3.0: there is nothing to decide": {"decide_every_s": 3.0},
}


@pytest.mark.parametrize("line", REFUSALS)
def test_parts_that_cannot_work_together_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(line)}"):
        composed(**REFUSALS[line])


def test_a_detector_of_ones_own_serves_a_schedule() -> None:
    class Mine:
        """It expects one second of everybody."""

        def observe_event(self, event: object) -> None: ...

        def expected_s(self, worker: int, t: float) -> float | None:
            return 1.0

    assert Composed(gate=GroupsGate(), schedule=Regroup(), detectors={"mine": Mine()})


def test_settings_of_parts_are_refused_by_their_slots() -> None:
    assert restarting().needs == {Compute, Apply, Restart, Wake}
    with pytest.raises(ValueError, match=r"^decide_every_s=null: must be the seconds between two decisions of KillR"):
        restarting(decide_every_s=None)
    with pytest.raises(ValueError, match=r"^decide_every_s=0: must be 0.001 or more"):
        restarting(decide_every_s=0)
    with pytest.raises(ValueError, match=r"^detectors.slow.short_window_s=300.0: must be at least decide_every_s"):
        restarting(decide_every_s=301.0)
    with pytest.raises(ValueError, match=r"^gate.x=5: must be at most the number of workers \(4\)"):
        composed(gate=ExactlyGate(x=5)).validate(4)
    with pytest.raises(ValueError, match=r"^x=5: must be at most the number of workers \(4\)"):
        StaticX(x=5).validate(4)
    with pytest.raises(ValueError, match=r"^load.min_batch_samples=9"):
        restarting(load=SpeedLoad(min_batch_samples=9), detectors=DETECTORS).validate_batch(4, 32)


DETECTORS = {"slow": StragglerDetector(), "speeds": Forecast()}


def test_what_a_composition_needs_follows_from_its_parts() -> None:
    assert composed().needs == {Compute, Apply}
    assert composed(gate=BlocksGate()).needs == {Compute, Apply, Drop}
    assert composed(gate=AllGate()).topologies == {"ps", "allreduce"}
    assert composed().topologies == restarting(gate=AllGate()).topologies == {"ps"}
    assert restarting().watches_servers
    assert not composed().watches_servers
    zeno = composed(gate=EachGate(), screen=DescentScreen(validation_samples=9))
    assert (zeno.validation_samples, zeno.rescales, zeno.needs) == (9, True, {Compute, Apply, Drop, Score})


def test_the_shipped_combination_restarts_a_persistent_straggler_and_gives_the_new_process_its_share_again() -> None:
    """Worker 3 is half as fast until it is another process. The long window of 12 s has enough of it at the decision of
    12 s, when it has done eight iterations of 1.4 s, of which three count for nothing. It was three iterations behind
    at most, by the bound. Its forecast still is that of the old process, so it begins with 16 samples for 32."""

    def seconds(worker: int, order: ComputeOrder) -> float:
        samples = samples_of(order)
        return samples / (20 if worker == 3 and order.incarnation == 0 else 40)

    run = HeapRun(make("composed"), make_job(global_batch_samples=112, max_time_s=60.0), seconds).run()
    assert [(t, node) for t, node, _ in run.restarts] == [(12.0, "worker:3")]
    clocks = Counter[int]()
    for t, _, grads in run.applied:
        clocks.update(grad.worker for grad in grads)
        assert t > 12 or max(clocks.values()) - clocks[3] <= 4
    sizes = [grad.samples for _, _, grads in run.applied for grad in grads if grad.worker == 3]
    assert [size for size, _ in groupby(sizes)] == [28, 16, 28]
    assert {grad.worker: grad.samples for _, _, grads in run.applied[-8:] for grad in grads} == dict.fromkeys(
        range(4), 28
    )


def test_a_round_that_follows_no_update_has_sizes_of_its_own() -> None:
    """All have left, and somebody comes: a load policy is asked, and a round of one has the whole global batch."""
    strategy = make("lb_bsp")
    strategy.handle(Started(t=0.0, workers=(0, 1, 2), batch_samples=(2, 2, 2), num_servers=1))
    for worker in range(3):
        strategy.handle(Lost(t=1.0, worker=worker, incarnation=0, reason="killed", restarting=False))
    assert strategy.handle(Joined(t=2.0, worker=1, incarnation=1)) == [Compute(worker=1, num_samples=6)]
