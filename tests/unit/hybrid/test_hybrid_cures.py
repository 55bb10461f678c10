"""Cures inside a replica against an event simulation, and against all other plans of a small job."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from runtime.hybrid.cures import (
    aheads,
    best_split,
    dealt,
    deepened,
    divided,
    evened,
    repaired,
    replaced,
    rerouted,
)
from runtime.hybrid.operators import BACKWARD, FORWARD, Operator, job_of
from runtime.hybrid.plans import most_in_flight, plan_of, with_counts
from runtime.hybrid.what_if import WhatIf
from scripts.measure import validate_cures as validation
from scripts.measure.planted_jobs import (
    BACKWARD_S,
    FORWARD_S,
    LEVEL,
    LONG_STAGE,
    SLOW_LINK,
    SLOW_RANK,
    STEPS,
    UNEQUAL,
    Noise,
    Simulation,
    Truth,
    draw_jobs,
    hosted_by,
    in_turn,
    one_by_one,
    run_s,
    table_of,
    usual,
)
from stragglab.commands import advise
from stragglab.tables.hybrid_cures import COUNTS, DEAL, DEPTHS, NO_SLOW_RANK, REPLACE, REROUTE, lines, rank_cures
from stragglab.tables.what_if import read_job

BYTEDANCE = Path(__file__).parent / "bytedance"


def planned(truth):
    return plan_of(job_of(table_of(truth)))


def noises(truth, seed=0):
    return [Noise(truth, step, seed) for step in range(STEPS)]


@pytest.mark.parametrize("truth", draw_jobs(12), ids=lambda one: f"{one.cause}-{one.seed}")
def test_a_planted_job_takes_as_long_as_in_the_simulation(truth):
    plan = planned(truth)
    assert plan.step_s.tolist() == pytest.approx(
        [run_s(truth, usual(truth), [noise]) for noise in noises(truth)], rel=1e-9
    )
    assert plan.in_flight == min(truth.size[1:])
    spans = Simulation(truth, Noise(truth, 0, 0), plan.host, in_turn(plan.turns)).spans
    assert {one.of: one.end_s for one in plan.spans()} == pytest.approx({one: spans[one].end_s for one in plan.host})


def test_the_split_of_micro_batches_is_the_best_of_all():
    draw = np.random.default_rng(3)
    for _ in range(200):
        replicas, total = int(draw.integers(2, 4)), int(draw.integers(4, 10))
        times_s = np.cumsum(draw.integers(0, 4, (replicas, total + 2)), axis=1)  # may stay equal
        found = best_split(total, [lambda count, row=row: float(row[count]) for row in times_s])
        splits = [one for one in itertools.product(range(1, total), repeat=replicas) if sum(one) == total]
        slowest = [max(times_s[replica][count] for replica, count in enumerate(one)) for one in splits]
        assert sum(found) == total
        assert max(times_s[replica][count] for replica, count in enumerate(found)) == min(slowest)


def test_micro_batches_move_from_the_slow_replica_with_their_work():
    truth = Truth(SLOW_RANK, (2, 2, 4), (1, 0), factor=2.0, sigma=0.4)
    plan = planned(truth)
    assert plan.slowness[1, 0] == pytest.approx(2.0, rel=0.2)  # the work of micro-batches differs
    cured = with_counts(replace(plan, slowness={**plan.slowness, (1, 0): 2.0}), {0: 6, 1: 2})
    for number, given in ((4, 2), (5, 3)):
        moved = cured.seconds[Operator(0, 0, FORWARD, number)]
        assert moved == pytest.approx(plan.seconds[Operator(1, 0, FORWARD, given)] / 2.0)
    assert {replica: len(own) for replica, own in cured.numbers.items()} == {0: 6, 1: 2}
    assert cured.turns == one_by_one(truth.size, [6, 2], [1, 0])


def test_depths_are_all_that_do_not_grow_from_stage_to_stage():
    for present, most in (((2, 1, 0), 4), ((1, 1), 3), ((0,), 2)):
        found = list(aheads(present, most))
        every = itertools.product(*(range(one, most + 1) for one in present))
        assert sorted(found) == [one for one in every if list(one) == sorted(one, reverse=True)]


def test_more_micro_batches_in_flight_hide_a_slow_link_as_far_as_there_is_memory():
    """NSDI 2026, Attack of the Bubbles: more forward passes before a slow link absorb its delay."""
    truth = Truth(SLOW_LINK, (2, 2, 8), (0, 0), delay_s=0.020, jitter=0.0)
    plan = planned(truth)
    whole_s = [deepened(plan, most).mean_s for most in (2, 3, 4)]
    assert plan.mean_s >= whole_s[0] > whole_s[1] + 0.01
    for most, ours in zip((2, 3, 4), whole_s, strict=True):
        assert deepened(plan, most).in_flight <= most
        best_s = run_s(truth, validation.best_depths(truth, most), noises(truth)[:1])
        assert ours == pytest.approx(best_s, rel=1e-9)


def test_other_replicas_make_the_passes_of_a_slow_rank_and_keep_within_their_memory():
    truth = Truth(SLOW_RANK, (3, 3, 6), (1, 1), factor=3.0, jitter=0.0)
    plan = planned(truth)
    cured = rerouted(plan, (1, 1))
    away = {one for one, rank in cured.host.items() if rank[0] != one.replica}
    assert {(one.replica, one.stage) for one in away} == {(1, 1)}
    assert sorted(cured.host) == sorted(plan.host)
    assert all(most_in_flight(cured.turns[rank]) <= most_in_flight(plan.turns[rank]) + 2 for rank in plan.turns)
    assert cured.mean_s == pytest.approx(run_s(truth, cured.turns, noises(truth)[:1]), rel=1e-9)
    assert cured.mean_s < 0.65 * plan.mean_s
    # each rank of the stage would have to make at least its share of all passes
    work_s = 3 * 6 * (FORWARD_S + BACKWARD_S) / (2 + 1 / 3)
    assert cured.mean_s > work_s


def orders(left):
    """All orders of a rank's passes in which a micro-batch's forward pass comes first."""
    if not left:
        yield []
    for one in left:
        if one.kind == FORWARD or one._replace(kind=FORWARD) not in left:
            yield from ([one, *rest] for rest in orders([other for other in left if other != one]))


@pytest.mark.long(like="test_other_replicas_make_the_passes_of_a_slow_rank_and_keep_within_their_memory")
def test_re_routing_a_whole_rank_is_as_good_as_the_best_of_all_orders():
    """ReCycle (SOSP 2024): a failed rank's micro-batches go to the same stage of another replica."""
    truth = Truth(SLOW_RANK, (2, 2, 2), (1, 1), factor=1000.0, jitter=0.0)
    plan = planned(truth)
    cured = rerouted(plan, (1, 1))
    assert cured.turns[1, 1] == []
    best_s = np.inf
    for order in orders(cured.turns[0, 1]):
        turns = {**cured.turns, (0, 1): order}
        spans = Simulation(truth, Noise(truth, 0, 0), hosted_by(turns), in_turn(turns))
        if len([one for one in spans.spans if one.kind in (FORWARD, BACKWARD)]) == 16:  # nobody waits for ever
            best_s = min(best_s, spans.last_s)
    assert cured.mean_s == pytest.approx(best_s, rel=1e-9)


def test_a_replaced_rank_and_a_repaired_link_are_like_the_others():
    truth = Truth(SLOW_RANK, (2, 2, 4), (1, 0), factor=2.5, jitter=0.0)
    healthy_s = run_s(replace(truth, factor=1.0), usual(truth), noises(truth)[:1])
    assert replaced(planned(truth), (1, 0)).mean_s == pytest.approx(healthy_s)
    truth = Truth(SLOW_LINK, (2, 3, 4), (1, 1), delay_s=0.05, jitter=0.0)
    cured, link = repaired(planned(truth))
    assert link == (1, 1)
    assert cured.mean_s == pytest.approx(healthy_s_of(truth))
    assert repaired(planned(Truth("none", (2, 1, 3)))) is None


def healthy_s_of(truth):
    return run_s(replace(truth, delay_s=0.0), usual(truth), noises(truth)[:1])


def test_dealing_keeps_the_work_of_each_step_and_packing_makes_it_even():
    truth = Truth(UNEQUAL, (3, 2, 4), sigma=0.6, jitter=0.0)
    plan = planned(truth)
    works = [sum(cured.seconds[one] for one in plan.host) for cured in (plan, dealt(plan), evened(plan))]
    assert works[1] == pytest.approx(works[0])
    assert works[2] == pytest.approx(works[0])
    by_replica = [
        np.ptp(
            [sum(cured.seconds[one] for one in plan.host if one.replica == each) for each in range(3)], axis=0
        ).mean()
        for cured in (plan, dealt(plan), evened(plan))
    ]
    assert by_replica[0] > 2 * by_replica[1] > by_replica[2] == pytest.approx(0.0, abs=1e-12)


def test_divided_stages_have_equal_work():
    truth = Truth(LONG_STAGE, (2, 3, 4), (0, 1), factor=2.5, jitter=0.0)
    level = replace(truth, cause=LEVEL, factor=1.5)
    assert divided(planned(truth)).mean_s == pytest.approx(run_s(level, usual(truth), noises(truth)[:1]))


@pytest.mark.parametrize("truth", draw_jobs(6, seed=7), ids=lambda one: one.cause)
@pytest.mark.long(like="test_a_planted_job_takes_as_long_as_in_the_simulation")
def test_the_first_cure_of_planted_jobs_is_the_best(truth):
    outcome = validation.outcome_of(truth)
    assert outcome.is_best
    assert outcome.is_best_without
    assert max(map(abs, outcome.errors)) < (0.3 if truth.cause == UNEQUAL else 0.05)


def test_only_other_layers_help_a_job_whose_last_stage_is_long_in_all_replicas(capsys, tmp_path):
    """ST, of ByteDance's traces (OSDI 2025)."""
    assert advise.main([str(BYTEDANCE / "ST.parquet"), "-o", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "best cure: divide layers over stages otherwise" in said
    assert "stages are unequal in all replicas, so that only other layers per stage help" in said
    rows = pd.read_csv(tmp_path / "cures.csv", keep_default_na=False)
    assert rows["cure"][0] == "divide layers over stages otherwise"
    assert set(rows["saves"][1:]) == {"does not help"}
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    groups = {one["pid"]: one["args"]["name"] for one in events if one["name"] == "process_name"}
    assert list(groups.values()) == ["as measured", "divide layers over stages otherwise"]
    bars = [one for one in events if one["ph"] == "X"]
    assert len(bars) == 2 * 64
    lasts_us = [max(one["ts"] + one["dur"] for one in bars if one["pid"] == pid) for pid in groups]
    assert lasts_us[1] < 0.95 * lasts_us[0]
    for pid, tid in {(one["pid"], one["tid"]) for one in bars}:  # a rank makes one pass at a time
        mine = sorted((one["ts"], one["dur"]) for one in bars if (one["pid"], one["tid"]) == (pid, tid))
        assert all(start + length <= later + 0.2 for (start, length), (later, _) in itertools.pairwise(mine))


def test_a_restart_is_due_when_its_price_is_lost():
    """A restart that costs as much as 2.5 steps lose is due at the third one; one of 25 steps, 17 after the eight."""
    truth = Truth(SLOW_RANK, (2, 2, 4), (0, 0), factor=2.0, jitter=0.0)
    ranking = rank_cures(WhatIf(job_of(table_of(truth))))
    lost_s = ranking.measured.mean_s - next(one for one in ranking.helping if one.kind == REPLACE).plan.mean_s
    said = lines(ranking, range(10, 18), 2.5 * lost_s)
    assert any(one.startswith("replace replica 0, stage 0: now:") and "it was due at step 12" in one for one in said)
    said = lines(ranking, range(10, 18), 25 * lost_s)
    assert any("it is due after 17 steps more like these" in one for one in said)


def test_cures_that_need_other_replicas_or_another_order_say_so():
    ranking = rank_cures(WhatIf(job_of(table_of(Truth("none", (1, 2, 3))))))
    assert {one.kind: one.needs for one in ranking.cures if one.plan is None} == {
        REPLACE: NO_SLOW_RANK,
        REROUTE: NO_SLOW_RANK,
        COUNTS: "needs several replicas",
        DEAL: "needs several replicas with equally many micro-batches",
    }
    found = WhatIf(job_of(table_of(Truth("none", (2, 2, 3)))))
    turns = dict(found.job.turns)
    turns[0, 0] = sorted(turns[0, 0], key=lambda one: (one.number == 2, one.kind == BACKWARD, one.number))
    found.job = found.job._replace(turns=turns)
    unknown = [one.kind for one in rank_cures(found).cures if one.needs.startswith("stages make their passes")]
    assert sorted(unknown) == sorted([COUNTS, DEPTHS])


@pytest.mark.long(like="test_only_other_layers_help_a_job_whose_last_stage_is_long_in_all_replicas")
def test_a_slow_rank_is_replaced_relieved_or_gets_fewer_micro_batches():
    """AR, of ByteDance's traces (OSDI 2025): replica 0, stage 0 is 2.355 times as slow as its peers."""
    ranking = rank_cures(read_job(BYTEDANCE / "AR-2-steps.parquet")[1])
    first, *others = ranking.helping[:3]
    assert first.kind == REPLACE
    by_kind = {one.kind: one.plan for one in others}
    assert by_kind.keys() == {REROUTE, COUNTS}, "their means differ by 0.01 %, so either may come first"
    assert first.plan.mean_s / ranking.measured.mean_s == pytest.approx(1 / 1.97, abs=0.01)
    assert max(plan.mean_s / ranking.measured.mean_s for plan in by_kind.values()) < 0.6
    assert len(by_kind[COUNTS].numbers[0]) < 0.6 * 32
