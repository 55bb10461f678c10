"""Scores: which requests are lawful, in which order they are made, and how the servers' parts are summed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from runtime.core import inputs
from runtime.core.scoring import Products
from strategies.protocol import Arrived, Drop, ProtocolError, Score, Scored
from tests.support.harness import Puppet, Rig, apply, compute, make_job

HELD_OUT = 4


class Judge(Puppet):
    """A puppet for whom samples are held out."""

    validation_samples = HELD_OUT


def rig(num_servers: int = 1, num_workers: int = 3, **changes: Any) -> Rig:
    """Everybody has delivered a gradient of two samples: 0, 1, 2."""
    size = {"num_workers": num_workers, "global_batch_samples": 2 * num_workers}
    at = Rig(Judge(), make_job(num_servers=num_servers, **size, **changes)).start()
    at.say(*compute(*range(num_workers), num_samples=2))
    for worker in range(num_workers):
        at.arrive(worker)
    return at


def part(at: Rig, server: int, grad_id: int, numbers: Sequence[float], reference: int | None = None) -> None:
    number = at.references[-1][0] if reference is None else reference
    at.core.receive(at.at(None), inputs.ScorePart(server, grad_id, number, Products(*numbers)))


def test_means_are_told_of_sums_over_all_servers() -> None:
    """Gradients of two samples, a reference of four: dot / (2 x 4), |G|^2 / 2^2, |R|^2 / 4^2."""
    at = rig(num_servers=3)
    at.say(Score(grad=1))
    at.reference_ready()
    part(at, 2, 1, (1.0, 4.0, 16.0))
    part(at, 0, 1, (8.0, 8.0, 32.0))
    assert at.received(Scored) == []
    part(at, 1, 1, (-1.0, 0.0, 0.0))
    (received,) = at.received(Scored)
    assert (received.grad.id, received.dot, received.sqr_grad, received.sqr_ref, received.ref_version) == (
        1,
        1.0,
        3.0,
        3.0,
        0,
    )


def test_the_servers_parts_are_summed_in_the_servers_order() -> None:
    """Whatever the order in which they come: sums of floats depend on it."""
    parts = [(1e16, 1.0, 1.0), (1.0, 1.0, 1.0), (-1e16, 1.0, 1.0)]
    dots = []
    for order in ((0, 1, 2), (2, 1, 0), (0, 2, 1)):
        at = rig(num_servers=3)
        at.say(Score(grad=0))
        at.reference_ready()
        for server in order:
            part(at, server, 0, parts[server])
        dots += [received.dot for received in at.received(Scored)]
    assert dots == [dots[0]] * 3
    assert (1e16 + 1.0) - 1e16 != (1e16 - 1e16) + 1.0, "the order does matter"


def test_old_answers_are_not_heard() -> None:
    at = rig()
    at.say(Score(grad=0))
    at.core.receive(at.t, inputs.ReferenceReady(7))
    assert at.weighings == []
    at.reference_ready()
    part(at, 0, 0, (1.0, 1.0, 1.0), reference=7)
    part(at, 0, 1, (1.0, 1.0, 1.0))
    assert at.received(Scored) == []
    part(at, 0, 0, (1.0, 1.0, 1.0))
    part(at, 0, 0, (1.0, 1.0, 1.0))
    assert len(at.received(Scored)) == 1


def test_who_takes_over_from_a_dead_scorer_is_asked_again_on_the_parameters_of_then() -> None:
    at = rig()
    scoring = at.core.executor.scoring
    scoring.repeat()
    assert at.references == [], "nothing was requested"
    at.say(Score(grad=0))
    at.say(apply(1))
    scoring.repeat()
    assert at.references == [(0, 0), (1, 1)]
    scoring.reference_ready(0)
    assert at.weighings == [], "the dead have spoken"
    scoring.reference_ready(1)
    part(at, 0, 0, (1.0, 1.0, 1.0))
    assert at.received(Scored)[0].ref_version == 1


@pytest.mark.parametrize("use", [apply(0), Drop(grads=(0,))])
@pytest.mark.parametrize("refers", [True, False])
def test_the_score_of_a_gradient_that_is_used_is_not_told(use: Any, refers: bool) -> None:
    at = rig()
    at.say(Score(grad=0), Score(grad=1))
    if refers:
        at.reference_ready()
    at.say(use)
    if not refers:
        at.reference_ready()
        assert at.weighings == [(1, 0)]
    part(at, 0, 0, (1.0, 1.0, 1.0))
    part(at, 0, 1, (1.0, 1.0, 1.0))
    assert [received.grad.id for received in at.received(Scored)] == [1]


def test_a_reference_that_is_not_finite_points_nowhere() -> None:
    for numbers in ((float("nan"), 4.0, float("nan")), (float("inf"), 4.0, 1.0), (1.0, 4.0, float("inf"))):
        at = rig()
        at.say(Score(grad=0))
        at.reference_ready()
        part(at, 0, 0, numbers)
        (received,) = at.received(Scored)
        assert (received.dot, received.sqr_grad, received.sqr_ref) == (0.0, 1.0, 0.0)


def test_a_score_may_be_asked_for_again_once_it_is_told() -> None:
    at = rig()
    at.say(Score(grad=0))
    with pytest.raises(ProtocolError, match=r"(?s)worker 0: Score\(grad=0.* while its last score is pending.*Arrived"):
        at.say(Score(grad=0))
    at = rig()
    at.say(Score(grad=0))
    at.reference_ready()
    part(at, 0, 0, (1.0, 1.0, 1.0))
    at.say(Score(grad=0))
    part(at, 0, 0, (1.0, 1.0, 1.0))
    assert len(at.received(Scored)) == 2


@pytest.mark.parametrize("grad", [0, 7])
def test_what_is_used_or_unknown_cannot_be_scored(grad: int) -> None:
    at = rig()
    at.say(apply(0))
    with pytest.raises(ProtocolError, match=r"not arrived, or used before \(unused are \[1, 2\]\)"):
        at.say(Score(grad=grad))


def test_nothing_is_scored_where_nothing_is_held_out() -> None:
    at = Rig(Puppet(), make_job()).start()
    at.say(*compute(0))
    at.arrive(0)
    with pytest.raises(ProtocolError, match="no samples are held out"):
        at.say(Score(grad=0))


def test_who_finds_no_data_waits_for_scores_that_may_bring_some() -> None:
    """Otherwise empty arrivals would repeat as long as another's gradient waits for its score."""
    at = rig(num_workers=2, num_samples=4, epochs=1)
    at.say(Score(grad=0), Score(grad=1), *compute(0, 1))
    assert at.empties() == []
    at.reference_ready()
    part(at, 0, 0, (1.0, 1.0, 1.0))
    assert at.empties() == []
    at.say(Drop(grads=(0,)))
    assert [order.grad_id for order in at.busy().values()] == [2], "the samples that came back"
    part(at, 0, 1, (1.0, 1.0, 1.0))
    assert len(at.received(Scored, Arrived)) == 4
