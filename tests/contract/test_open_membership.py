"""Workers that join with a new number and leave for good while the job runs: every strategy continues, exactly.

No strategy can ask for that yet; here the runtime's side of it is called directly.
"""

from __future__ import annotations

from functools import cache

import pytest

from runtime.core.inputs import WorkerAdmitted, WorkerRetired
from runtime.core.recovery import inputs
from strategies.protocol import Compute, Joined, Lost, NodeId
from tests.contract.catalogue import NAMES, fits, hurried
from tests.support.faults import random_seconds, restarts
from tests.support.harness import Desk, HeapRun, Puppet, compute, make_job, puppet_desk
from tests.support.laws import Complaints, dead, played, unaveraged, unconserved, unlawful
from tests.support.scores import random_scores

START, NEW, GONE = 4, NodeId.worker(4), NodeId.worker(1)
SEEDS = (1, 2)
MODES = ("calm", "restarts")


def admit(run: HeapRun, t: float) -> None:
    run.happen(t, inputs.Admit(NEW))


def retire(run: HeapRun, t: float) -> None:
    """Later, if it is just then away for a restart."""
    if run.recovery.tasks[GONE].expects(run.recovery.tasks[GONE].incarnation):
        run.happen(t, inputs.Dismiss(GONE, "retired"))
    else:
        run.push(t + 1.0, 0, lambda now: retire(run, now))


@cache
def grown(name: str, mode: str, seed: int) -> tuple[HeapRun, Complaints]:
    """Three epochs; worker 4 joins at 3 s, and worker 1 leaves at 9 s."""
    job = make_job(
        num_workers=START,
        num_samples=101,
        global_batch_samples=8 + seed % 2,
        batches_per_shard=1 + seed % 3,
        epochs=3,
        epoch_overlap=seed % 3 == 1,
        seed=seed,
        max_time_s=2000.0,
        checkpoint_every_s=5.0,
    )
    run = HeapRun(hurried(name), job, random_seconds(seed), restarts(seed, START) if mode == "restarts" else [])
    run.cosine = random_scores(seed)
    run.push(3.0, 0, lambda t: admit(run, t))
    run.push(9.0, 0, lambda t: retire(run, t))
    return run, played(run)


every_job = pytest.mark.parametrize(
    ("name", "mode"), [(name, mode) for name in NAMES if fits(name, START) for mode in MODES]
)


@every_job
def test_every_strategy_goes_on_with_a_newcomer_and_without_who_left(name: str, mode: str) -> None:
    for seed in SEEDS:
        run, refused = grown(name, mode, seed)
        assert refused + unlawful(run) + dead(run) + unconserved(run) + unaveraged(run) == []
        workers = {grad.worker for _, _, grads in run.applied for grad in grads}
        assert NEW.number in workers, "the newcomer contributes"
        assert [node.number for node in run.core.executor.layout.workers] == [0, 2, 3, NEW.number]
        assert run.recovery.state.layout == run.core.executor.layout, "who gets ranges, and who gets work"


@every_job
def test_nobody_computes_who_is_no_member(name: str, mode: str) -> None:
    for seed in SEEDS:
        run, _ = grown(name, mode, seed)
        here = set(range(START))
        for line in run.lines:
            match line.event:
                case Joined(worker=worker):
                    here.add(worker)
                case Lost(worker=worker, reason="retired"):
                    here.discard(worker)
            ordered = {command.worker for command in line.commands if isinstance(command, Compute)}
            assert ordered <= here


# ---- the coordinator by itself --------------------------------------------------------------------------------------


def test_the_layouts_are_in_the_record_one_by_one() -> None:
    desk = puppet_desk(num_workers=2, num_samples=8)
    desk.core.receive(desk.at(None), WorkerAdmitted(2))
    desk.lose(0, restarting=False)
    desk.core.receive(desk.at(None), WorkerRetired(0))
    assert desk.noted("LayoutChanged") == [
        {"version": 0, "nodes": ["server:0", "worker:0", "worker:1"], "shares": {"server:0": 1.0}},
        {"version": 1, "nodes": ["server:0", "worker:0", "worker:1", "worker:2"], "shares": {"server:0": 1.0}},
        {"version": 2, "nodes": ["server:0", "worker:1", "worker:2"], "shares": {"server:0": 1.0}},
    ]


def test_who_is_admitted_holds_nobody_up_and_computes_when_it_has_joined() -> None:
    desk = Desk(Puppet(), make_job(num_workers=1, global_batch_samples=1, num_samples=2, epochs=1)).start()
    desk.core.receive(desk.at(None), WorkerAdmitted(1))
    desk.say(*compute(0))
    assert not desk.received(Joined)
    desk.join(1)
    assert desk.received(Joined)[0].worker == 1
    desk.say(*compute(1))
    assert {order.worker for order in desk.orders.values()} == {0, 1}


@pytest.mark.parametrize("number", [0, 1])
def test_a_number_is_never_given_again(number: int) -> None:
    desk = puppet_desk(num_workers=2)
    desk.lose(1, restarting=False)
    desk.core.receive(desk.at(None), WorkerRetired(1))
    with pytest.raises(ValueError, match="numbers are never reused; the next worker is worker:2"):
        desk.core.receive(desk.at(None), WorkerAdmitted(number))


def test_nobody_is_retired_whose_process_runs() -> None:
    desk = puppet_desk(num_workers=2)
    with pytest.raises(ValueError, match=r"^worker:1: has a process; it must end first$"):
        desk.core.receive(desk.at(None), WorkerRetired(1))


def test_the_samples_of_who_left_go_to_the_others() -> None:
    desk = Desk(Puppet(), make_job(num_workers=2, global_batch_samples=2, num_samples=2, epochs=1)).start()
    desk.say(*compute(0, 1))
    desk.lose(1, restarting=False)
    desk.core.receive(desk.at(None), WorkerRetired(1))
    desk.arrive(0)
    desk.say(*compute(0))
    assert [order.worker for order in desk.orders.values()] == [0, 1, 0]
    assert len({order.ranges for order in desk.orders.values()}) == 2, "the same sample, by another worker"
