"""The gate with a quorum: who waits, who goes on, and that each sample is in one update."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.local_sgd import AsyncLocalSGD, DiLoCo
from strategies.local_sgd.decoupled import DecoupledGate
from strategies.parts.gates import Verdict
from strategies.protocol import Apply, Grad, StepAlone, Wake, Woke
from tests.support.harness import HeapRun, make_job


def grad(number: int, worker: int, samples: int = 4) -> Grad:
    return Grad(
        id=number, worker=worker, incarnation=0, iteration=0, version=0, samples=samples, assigned_samples=samples
    )


def begun(workers: int, **settings: Any) -> DecoupledGate:
    gate = DecoupledGate(**{"period": 1, **settings})
    gate.observe_event(Woke(t=0.0, tag=""))
    assert gate.begin(range(workers), 0) == tuple(range(workers))
    return gate


@given(
    workers=st.integers(1, 5),
    quorum=st.integers(1, 5),
    period=st.integers(1, 4),
    grace_s=st.sampled_from([0.0, 0.25, 3.0]),
    seconds=st.lists(st.sampled_from([0.5, 1.0, 1.25, 7.0]), min_size=5, max_size=5),
)
def test_every_update_is_of_whole_rounds_of_a_quorum_and_every_job_ends(
    workers: int, quorum: int, period: int, grace_s: float, seconds: list[float]
) -> None:
    strategy = DiLoCo(period=period, quorum=min(quorum, workers), grace_s=grace_s)
    size = {"num_workers": workers, "num_servers": 0, "global_batch_samples": workers, "num_samples": 12 * workers}
    run = HeapRun(strategy, make_job(**size, epochs=2, max_time_s=1e6), seconds).run()
    assert (run.core.status, run.core.shards.epochs_done) == ("done", 2)
    steps: Counter[int] = Counter()
    for command in run.commands:
        match command:
            case StepAlone(grads=(number,)):
                steps[run.grads[number].worker] += 1
                assert max(steps.values()) <= period
            case Apply():
                used = Counter(run.grads[number].worker for number in command.grads)
                assert all(steps.pop(worker) == count for worker, count in used.items())


def test_others_go_on_and_come_into_the_update_for_which_they_wait() -> None:
    gate = begun(3, period=2, quorum=2)
    for number, worker in enumerate((0, 1, 2)):
        assert gate.arrived(grad(number, worker)).go == (worker,)
    assert gate.arrived(grad(3, 0)) == Verdict(step=(grad(3, 0),))
    verdict = gate.arrived(grad(4, 1))
    assert ([one.id for one in verdict.apply], verdict.go, verdict.outer) == ([0, 3, 1, 4], (0, 1), True)
    gate.arrived(grad(5, 0))
    gate.arrived(grad(6, 2))
    assert [one.id for one in gate.arrived(grad(7, 0)).apply] == [5, 7, 2, 6]


def test_the_grace_begins_with_the_quorum_and_ends_when_all_are_there() -> None:
    gate = begun(3, quorum=1, grace_s=1.0)
    woke = Woke(t=0.5, tag="grace")
    assert gate.arrived(grad(0, 0)).apply == ()
    assert gate.then(woke) == (Wake(at_s=1.0, tag="grace"),)
    gate.observe_event(woke)
    assert gate.then(Woke(t=0.5, tag="grace")) == (Wake(at_s=1.0, tag="grace"),), "a clock may round"
    gate.observe_event(Woke(t=1.0, tag="grace"))
    (verdict,) = gate.then(Woke(t=1.0, tag="grace"))
    assert isinstance(verdict, Verdict)
    assert verdict.go == (0,)
    assert gate.then(Woke(t=1.0, tag="grace")) == ()
    for worker in (0, 1):
        assert gate.arrived(grad(1 + worker, worker)).apply == ()
    assert gate.arrived(grad(3, 2)).go == (0, 1, 2)


def test_a_newcomer_enters_with_the_next_update() -> None:
    gate = begun(2)
    assert gate.joined(2) == Verdict()
    assert gate.arrived(grad(0, 0)).go == (0, 2)
    assert gate.lost(2, restarting=True) == Verdict()
    assert gate.joined(2) == Verdict(go=(2,))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"quorum": 0}, "quorum=0: must be"),
        ({"grace_s": 1.0}, "grace_s=1: without a quorum all are waited for"),
        ({"quorum": 1, "grace_s": -1.0}, "grace_s=-1.0: must be"),
        ({"quorum": 1, "fragments": 2}, "fragments=2: is not for updates of a quorum"),
        ({"quorum": 1, "common_every": 2}, "common_every=2: is not for updates of a quorum"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_their_names(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DiLoCo(**wrong)


def test_a_quorum_of_more_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match=r"quorum=3: must be at most the number of workers \(2\)"):
        DiLoCo(quorum=3).validate(2)


@pytest.mark.parametrize("field", ["period", "outer_lr", "momentum_every"])
def test_settings_out_of_range_are_refused_by_their_names(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field}=0: must be"):
        AsyncLocalSGD(**{field: 0})
