"""The evaluation of the final parameters: what the end of a run waits for, and for how long."""

from __future__ import annotations

import pytest

from runtime.api import INTERRUPTED_S
from runtime.live.control.final_evaluation import EVALUATOR_JOINS_S, FINAL_EVALUATION_S, PATIENCE, FinalEvaluation


def ordered(now: float = 10.0, ticket: int = 7) -> FinalEvaluation:
    final = FinalEvaluation()
    assert final.look(now, connected=True, may_come=False) == "order"
    final.ordered(ticket, now)
    return final


def test_without_an_evaluator_that_could_come_nothing_is_waited_for() -> None:
    assert FinalEvaluation().look(0.0, connected=False, may_come=False) == "done"


def test_an_evaluator_that_may_come_is_waited_for_and_then_given_up() -> None:
    final = FinalEvaluation()
    looks = [10.0, 10.0 + EVALUATOR_JOINS_S - 0.1, 10.0 + EVALUATOR_JOINS_S]
    assert [final.look(now, connected=False, may_come=True) for now in looks] == ["wait", "wait", "done"]


def test_an_evaluator_that_comes_while_it_is_waited_for_gets_the_order() -> None:
    final = FinalEvaluation()
    assert final.look(10.0, connected=False, may_come=True) == "wait"
    assert final.look(12.0, connected=True, may_come=True) == "order"


def test_a_result_is_waited_for_whether_or_not_the_evaluator_is_connected() -> None:
    final = ordered(now=10.0)
    assert final.look(10.0 + FINAL_EVALUATION_S - 0.1, connected=False, may_come=False) == "wait"
    assert final.look(10.0 + FINAL_EVALUATION_S, connected=True, may_come=True) == "done"


def test_after_a_long_evaluation_the_last_one_has_longer() -> None:
    final = FinalEvaluation()
    for seconds in (10.0, 40.0, 1.0):
        final.took(seconds)
    final.ordered(7, 10.0)
    looks = [10.0 + PATIENCE * 40.0 - 0.1, 10.0 + PATIENCE * 40.0]
    assert [final.look(now, connected=True, may_come=False) for now in looks] == ["wait", "done"]


def test_only_what_was_not_over_in_time_was_given_up() -> None:
    late, void, absent = ordered(now=10.0), ordered(now=10.0), FinalEvaluation()
    void.void()
    for final in (late, void, absent):
        assert not final.given_up
        assert final.look(10.0 + FINAL_EVALUATION_S, connected=False, may_come=False) == "done"
    assert (late.given_up, void.given_up, absent.given_up) == (True, False, False)


def test_the_result_ends_the_wait_and_counts_once() -> None:
    final = ordered(ticket=7)
    assert final.answered(7)
    assert final.look(11.0, connected=True, may_come=True) == "done"
    assert not final.answered(7)


@pytest.mark.parametrize("ticket", [6, 8])
def test_another_result_is_not_that_of_the_final_parameters(ticket: int) -> None:
    final = ordered(ticket=7)
    assert not final.answered(ticket)
    assert final.look(11.0, connected=True, may_come=True) == "wait"


def test_what_is_void_is_not_waited_for() -> None:
    final = ordered()
    final.void()
    assert final.look(11.0, connected=True, may_come=True) == "done"
    assert not final.answered(7)


@pytest.mark.parametrize("connected", [True, False])
def test_who_is_interrupted_waits_for_neither_evaluator_nor_result_any_longer(connected: bool) -> None:
    final = ordered(now=10.0) if connected else FinalEvaluation()
    final.hurry(11.0)
    final.hurry(15.0)  # the first counts
    looks = [11.0 + INTERRUPTED_S - 0.1, 11.0 + INTERRUPTED_S]
    assert [final.look(now, connected=connected, may_come=True) for now in looks] == ["wait", "done"]
    assert not final.answered(7)


def test_who_is_interrupted_still_gets_a_quick_result() -> None:
    final = FinalEvaluation()
    final.hurry(10.0)
    assert final.look(10.0, connected=True, may_come=False) == "order"
    final.ordered(7, 10.0)
    assert final.answered(7)


def test_nothing_is_void_before_it_was_ordered() -> None:
    final = FinalEvaluation()
    final.void()
    assert final.look(0.0, connected=True, may_come=True) == "order"
