"""The graph of a step against measured pipelines with a slow link, whose figures nobody here made."""

import os
from pathlib import Path

import pytest

from scripts.measure import validate_pipelines as validation
from tests.support.runs import ROOT

LOGS = os.environ.get("STRAGGLAB_PIPEMORPH")
"""A copy of PipeMorph's repository; its licence is not stated, so it is not kept here."""


@pytest.fixture(scope="module")
def figures():
    return validation.read_figures()


@pytest.fixture(scope="module")
def pairs(figures):
    return validation.predictions(figures)


def errors(pairs, *schedules):
    return {one: validation.error_frac((one, ours)) for one, ours in pairs if one.schedule in schedules}


def test_blocking_sends_and_sends_that_cost_only_latency_are_predicted_on_all_links(pairs):
    found = errors(pairs, "1F1B", "ZB-CPU")
    assert len(found) == 40
    assert max(map(abs, found.values())) < 0.05


def test_a_link_that_carries_one_message_at_a_time_is_predicted_if_the_constant_is_its_own(pairs):
    own = {
        one: error
        for one, error in errors(pairs, "ZB").items()
        if "," not in one.links and (one.links != "6_7" or one.delay_ms > 10)
    }
    assert len(own) == 13
    assert max(map(abs, own.values())) < 0.03


def test_what_the_model_does_not_predict_is_said_on_its_page(pairs):
    """ZB on links to which it was not fitted, and where the delay is so short that the link is sometimes idle."""
    misses = {one for one, error in errors(pairs, "ZB").items() if abs(error) > 0.03}
    assert {(one.links, one.delay_ms) for one in misses if "," not in one.links} == {("6_7", 10.0)}
    assert {one.links for one in misses if "," in one.links} == {"0_1,1_2", "0_1,2_3", "0_1,3_4,6_7", "0_1,6_7"}
    page = (ROOT / "docs" / "hybrid.md").read_text()
    assert "**Misses.**" in page


def test_schedules_are_in_their_measured_order(pairs):
    count, reversed_ = validation.orders(pairs)
    assert count == 59
    assert len(reversed_) == 2
    assert all("links 0-1,1-2" in one and "ZB (" in one for one in reversed_)


SLOPES = {
    # by hand, from the graph: exchanges over the link; twice the micro-batches; round trips of those in flight
    **{("14B", "1F1B", "6_7"): 25, ("14B", "1F1B", "0_1"): 31, ("7B", "1F1B", "0_1"): 15, ("7B", "1F1B", "2_3"): 23},
    **{("14B", "ZB", "6_7"): 48, ("14B", "ZB", "0_1"): 48, ("7B", "ZB", "0_1"): 24, ("7B", "ZB", "2_3"): 24},
    **{("14B", "ZB-CPU", "6_7"): 16, ("7B", "ZB-CPU", "2_3"): 8},
}


@pytest.mark.parametrize(("model", "schedule", "links"), SLOPES)
def test_the_slope_between_30_and_60_ms_is_that_of_the_graph_and_of_the_logs(figures, model, schedule, links):
    expected = SLOPES[model, schedule, links]
    mine = {
        one.delay_ms: one.delayed_ms
        for one in figures
        if (one.experiment, one.model, one.schedule, one.links) == ("single", model, schedule, links)
    }
    fit = validation.Fit(1.0, 0.0, 0.0)
    ours = [validation.predict_ms(fit, model, schedule, links, delay_ms) for delay_ms in (30.0, 60.0)]
    assert (ours[1] - ours[0]) / 30.0 == pytest.approx(expected)
    assert (mine[60.0] - mine[30.0]) / 30.0 == pytest.approx(expected, rel=0.05)


def test_the_page_has_the_tables_of_the_script(figures):
    page = (ROOT / "docs" / "hybrid.md").read_text()
    assert validation.report(figures) in page


@pytest.mark.skipif(LOGS is None, reason="STRAGGLAB_PIPEMORPH names no copy of PipeMorph's repository")
def test_the_stored_figures_are_those_of_the_logs(figures):
    assert tuple(validation.figures_of(Path(LOGS or "."))) == figures
