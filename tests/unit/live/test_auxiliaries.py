"""The table of auxiliary roles: what a job has, whose tickets are whose, and what carries out their orders."""

from __future__ import annotations

from itertools import pairwise

import pytest

from runtime.live.tasks.auxiliary import work_of
from runtime.live.transport.auxiliaries import AUXILIARIES, EVALUATOR, SCORER, TICKETS_EACH, auxiliaries_of
from runtime.live.transport.messages import AuxiliaryOrder, ComputeReference, EvaluateVersion


def test_only_jobs_with_scores_have_a_scorer_which_is_launched_first() -> None:
    assert auxiliaries_of(scores=False) == ("evaluator",)
    assert auxiliaries_of(scores=True) == ("scorer", "evaluator")


@pytest.mark.parametrize(("role", "order"), [("scorer", ComputeReference), ("evaluator", EvaluateVersion)])
def test_every_role_obeys_its_own_order(role: str, order: type[AuxiliaryOrder]) -> None:
    assert work_of(role).obeys is order


def test_tickets_of_roles_and_of_gradients_never_meet() -> None:
    firsts = sorted([0, *(role.first_ticket for role in AUXILIARIES.values())])
    assert all(later - sooner >= TICKETS_EACH for sooner, later in pairwise(firsts))
    assert SCORER.number(SCORER.ticket(7)) == EVALUATOR.number(EVALUATOR.ticket(7)) == 7
