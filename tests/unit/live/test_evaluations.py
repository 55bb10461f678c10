"""Which results of the evaluator count: each once, none after its order is void, the last as the final one."""

from __future__ import annotations

from itertools import pairwise

import pytest

from runtime.live.control.evaluations import Asked, LiveEvaluations
from runtime.live.tasks.auxiliary import work_of
from runtime.live.transport.auxiliaries import AUXILIARIES, EVALUATOR, TICKETS_EACH
from runtime.live.transport.messages import AuxiliaryOrder, ComputeReference, EvaluateVersion


def ordered(evaluations: LiveEvaluations, version: int, *, final: bool = False) -> int:
    """Order one at 2 seconds; returns its ticket."""
    ticket = evaluations.ticket()
    evaluations.ordered(ticket, Asked(2.0, version, final))
    return ticket


def test_results_are_told_apart_by_tickets_of_the_evaluator_and_count_once() -> None:
    evaluations = LiveEvaluations()
    tickets = [ordered(evaluations, version) for version in (5, 7)]
    assert [EVALUATOR.number(ticket) for ticket in tickets] == [0, 1]
    assert [evaluations.answered(ticket) for ticket in reversed(tickets)] == [Asked(2.0, 7), Asked(2.0, 5)]
    assert evaluations.answered(tickets[0]) is None


@pytest.mark.parametrize(("role", "order"), [("scorer", ComputeReference), ("evaluator", EvaluateVersion)])
def test_every_role_obeys_its_own_order(role: str, order: type[AuxiliaryOrder]) -> None:
    assert work_of(role).obeys is order


def test_tickets_of_roles_and_of_gradients_never_meet() -> None:
    firsts = sorted([0, *(role.first_ticket for role in AUXILIARIES.values())])
    assert all(later - sooner >= TICKETS_EACH for sooner, later in pairwise(firsts))


def test_the_last_one_ends_the_wait_for_it_and_no_other_does() -> None:
    evaluations = LiveEvaluations()
    before = ordered(evaluations, 8)
    last = ordered(evaluations, 9, final=True)
    assert evaluations.answered(before) == Asked(2.0, 8)
    assert evaluations.look(3.0, connected=True, may_come=False) == "wait"
    assert evaluations.answered(last) == Asked(2.0, 9, final=True)
    assert evaluations.look(3.0, connected=True, may_come=False) == "done"


def test_what_is_void_neither_counts_nor_is_waited_for() -> None:
    evaluations = LiveEvaluations()
    last = ordered(evaluations, 9, final=True)
    evaluations.void()
    assert evaluations.answered(last) is None
    assert evaluations.look(3.0, connected=True, may_come=False) == "done"
