"""The evaluation of the final parameters: what the end of a run waits for, and for how long."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from runtime.api import INTERRUPTED_S
from runtime.live.control.evaluations import Asked, LiveEvaluations
from runtime.live.control.final_evaluation import EVALUATOR_JOINS_S, FINAL_EVALUATION_S, PATIENCE, FinalEvaluation
from runtime.live.tasks.auxiliary import work_of
from runtime.live.transport.auxiliaries import AUXILIARIES, EVALUATOR, TICKETS_EACH
from runtime.live.transport.messages import ComputeReference, EvaluateVersion

HERE: dict[str, Any] = {"connected": True, "may_come": False}
GONE: dict[str, Any] = {"connected": False, "may_come": False}
AWAITED: dict[str, Any] = {"connected": False, "may_come": True}
BOTH: dict[str, Any] = {"connected": True, "may_come": True}


def final_of(*, ordered: bool, took_s: tuple[float, ...] = (), hurry_s: tuple[float, ...] = ()) -> FinalEvaluation:
    """Looked at first at 10 s, and ordered then with the ticket 7, if it is."""
    final = FinalEvaluation()
    for seconds in took_s:
        final.took(seconds)
    if ordered:
        assert final.look(10.0, **HERE) == "order"
        final.ordered(7, 10.0)
    for now_s in hurry_s:
        final.hurry(now_s)
    return final


@pytest.mark.parametrize(
    ("given", "looks", "answers"),
    [
        ({"ordered": False}, [(0.0, GONE)], "done"),  # nobody could come
        (
            {"ordered": False},
            [(10.0, AWAITED), (9.9 + EVALUATOR_JOINS_S, AWAITED), (10.0 + EVALUATOR_JOINS_S, AWAITED)],
            "wait wait done",
        ),
        ({"ordered": False}, [(10.0, AWAITED), (12.0, BOTH)], "wait order"),
        ({"ordered": True}, [(9.9 + FINAL_EVALUATION_S, GONE), (10.0 + FINAL_EVALUATION_S, BOTH)], "wait done"),
        (
            {"ordered": True, "took_s": (10.0, 40.0, 1.0)},  # the longest one counts
            [(9.9 + PATIENCE * 40.0, HERE), (10.0 + PATIENCE * 40.0, HERE)],
            "wait done",
        ),
        *(
            (
                {"ordered": ordered, "hurry_s": (11.0, 15.0)},  # the first counts
                [(10.9 + INTERRUPTED_S, looked), (11.0 + INTERRUPTED_S, looked)],
                "wait done",
            )
            for ordered, looked in ((True, BOTH), (False, AWAITED))
        ),
    ],
)
def test_what_is_waited_for_and_for_how_long(
    given: dict[str, Any], looks: list[tuple[float, dict[str, bool]]], answers: str
) -> None:
    final = final_of(**given)
    assert [final.look(now_s, **about) for now_s, about in looks] == answers.split()
    assert not final.answered(7) or not answers.endswith("done")


def test_what_is_void_is_not_waited_for_and_only_what_was_not_over_in_time_was_given_up() -> None:
    late, void, absent = final_of(ordered=True), final_of(ordered=True), FinalEvaluation()
    void.void()
    for final in (late, void, absent):
        assert not final.given_up
        assert final.look(10.0 + FINAL_EVALUATION_S, **GONE) == "done"
    assert (late.given_up, void.given_up, absent.given_up) == (True, False, False)
    final = final_of(ordered=True)
    final.void()
    assert final.look(11.0, **BOTH) == "done"
    assert not final.answered(7)
    never = FinalEvaluation()
    never.void()
    assert never.look(0.0, **BOTH) == "order"
    final = FinalEvaluation()
    final.hurry(10.0)
    assert final.look(10.0, **HERE) == "order"
    final.ordered(7, 10.0)
    assert final.answered(7)


@pytest.mark.parametrize(("ticket", "look"), [(7, "done"), (6, "wait"), (8, "wait")])
def test_the_result_ends_the_wait_and_counts_once_and_no_other_does(ticket: int, look: str) -> None:
    final = final_of(ordered=True)
    assert final.answered(ticket) == (ticket == 7)
    assert final.look(11.0, **BOTH) == look
    assert not final.answered(ticket)


def ordered(evaluations: LiveEvaluations, version: int, *, final: bool = False) -> int:
    """Order one at 2 seconds; returns its ticket."""
    ticket = evaluations.ticket()
    evaluations.ordered(ticket, Asked(2.0, version, final))
    return ticket


def test_results_are_told_apart_by_tickets_count_once_and_not_when_they_are_void() -> None:
    evaluations = LiveEvaluations()
    tickets = [ordered(evaluations, version) for version in (5, 7)]
    assert [EVALUATOR.number(ticket) for ticket in tickets] == [0, 1]
    assert [evaluations.answered(ticket) for ticket in reversed(tickets)] == [Asked(2.0, 7), Asked(2.0, 5)]
    assert evaluations.answered(tickets[0]) is None
    evaluations = LiveEvaluations()
    last = ordered(evaluations, 9, final=True)
    evaluations.void()
    assert evaluations.answered(last) is None
    assert evaluations.look(3.0, connected=True, may_come=False) == "done"


def test_every_role_obeys_its_own_order_and_tickets_of_roles_and_of_gradients_never_meet() -> None:
    assert (work_of("scorer").obeys, work_of("evaluator").obeys) == (ComputeReference, EvaluateVersion)
    firsts = sorted([0, *(role.first_ticket for role in AUXILIARIES.values())])
    assert all(later - sooner >= TICKETS_EACH for sooner, later in pairwise(firsts))
