"""The cures of a hybrid job's stragglers, ranked by the step time that each leaves: words for a table of operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from analysis.measures.rent_or_buy import restart_after
from analysis.reports.comparing import Sheet
from analysis.reports.cures import RULE
from analysis.reports.timeline import Slice
from runtime.hybrid.cures import dealt, deepened, divided, evened, rebalanced, repaired, replaced, rerouted
from runtime.hybrid.operators import PASSES, Rank
from runtime.hybrid.plans import Plan, plan_of
from runtime.hybrid.what_if import WhatIf

LEAST_FRAC = 0.005
"""A cure that saves less of a step does not help."""
MOST_PLANNED = 20_000
"""Operators of a step for which cures are computed, in minutes."""
TOO_LARGE = f"cures are not computed: a step has more than {MOST_PLANNED:,} operators"
REPLACE, REPAIR, COUNTS, DEPTHS, DEEPER = "replace", "repair", "counts", "depths", "deeper"
REROUTE, DEAL, PACK, DIVIDE = "re-route", "deal", "pack", "divide"
ASSUMES = {
    REPLACE: "the rank then computes as its stage does in the median replica",
    REPAIR: "its messages then take as long as on the median link",
    COUNTS: "moved micro-batches keep their work; gradients are weighted by micro-batches, so training stays the same",
    DEPTHS: "a micro-batch's activations need as much memory on each stage",
    REROUTE: "messages between replicas take as long as within one; other replicas' ranks have the stage's parameters",
    DEAL: "the work of a micro-batch is known before the step, from its lengths, and replicas have equally many",
    PACK: "work can be divided to any size, so this is the most that balancing saves",
    DIVIDE: "layers can be divided at any place, so this is the most that other layers per stage save",
}
ASSUMES[DEEPER] = ASSUMES[DEPTHS]
NO_SLOW_RANK = "no rank is slower than its stage in other replicas"
COST_RESTART = (REPLACE, REPAIR)
"""Cures that cost the job a restart."""


class Cure(NamedTuple):
    """A cure, or why there is none."""

    kind: str
    words: str
    plan: Plan | None
    needs: str


class Ranking(NamedTuple):
    """The cures of a job, the shortest step first; then those that could not be computed."""

    measured: Plan
    cures: list[Cure]

    @property
    def helping(self) -> list[Cure]:
        """Those that save enough."""
        return [one for one in self.cures if saves_frac(self.measured, one) >= LEAST_FRAC]


def rank_cures(found: WhatIf) -> Ranking | None:
    """All cures of a job; None: it is too large for them."""
    if len(found.job.operators) > MOST_PLANNED:
        return None
    plan = plan_of(found.job)
    slow = next((worker for worker in found.by_worker if plan.slowness[worker] > 1.0), None)
    cures = [*_of_rank(plan, slow), *_of_link(plan), *_of_counts(plan), *_of_depths(plan), *_of_work(plan)]
    return Ranking(plan, sorted(cures, key=lambda one: -saves_frac(plan, one)))


def saves_frac(measured: Plan, cure: Cure) -> float:
    """The part of a step that a cure saves; 0 if there is none."""
    return 1.0 - cure.plan.mean_s / measured.mean_s if cure.plan is not None else 0.0


def _of_rank(plan: Plan, slow: Rank | None) -> Iterator[Cure]:
    if slow is None:
        yield Cure(REPLACE, "replace a rank", None, NO_SLOW_RANK)
        yield Cure(REROUTE, "re-route micro-batches", None, NO_SLOW_RANK)
        return
    name = f"replica {slow[0]}, stage {slow[1]}"
    yield Cure(REPLACE, f"replace {name}", replaced(plan, slow), "healthy hardware in its place, and a restart")
    routes = rerouted(plan, slow)
    away = sum(rank[0] != one.replica for one, rank in routes.host.items()) // 2
    words = f"re-route {away} of {len(plan.numbers[slow[0]])} micro-batches of {name}"
    yield Cure(REROUTE, words, routes, f"the same stage of other replicas; {_memory(plan, routes)}")


def _of_link(plan: Plan) -> Iterator[Cure]:
    if (found := repaired(plan)) is not None:
        cured, (replica, stage) = found
        after = plan.stages[plan.stages.index(stage) + 1]
        words = f"repair the link from stage {stage} to {after} of replica {replica}"
        yield Cure(REPAIR, words, cured, "another card, cable or switch port, and a restart")


def _of_counts(plan: Plan) -> Iterator[Cure]:
    words = "move micro-batches between replicas"
    if reason := _not_planned(plan, several=True):
        yield Cure(COUNTS, words, None, reason)
        return
    cured = rebalanced(plan)
    if cured.turns == plan.turns:
        yield Cure(COUNTS, words, plan, "")
        return
    counts = [len(own) for own in cured.numbers.values()]
    said = ", ".join(map(str, counts)) if len(counts) <= 8 else f"{min(counts)} to {max(counts)}"
    yield Cure(COUNTS, f"{words}: {said}", cured, "sums that weight each replica by its micro-batches")


def _of_depths(plan: Plan) -> Iterator[Cure]:
    words = "keep more micro-batches in flight"
    if reason := _not_planned(plan, several=False):
        yield Cure(DEPTHS, words, None, reason)
        return
    within = deepened(plan, plan.in_flight)
    yield _deeper(DEPTHS, words, plan, within)
    twice = deepened(plan, 2 * plan.in_flight)
    if twice.mean_s < (1.0 - LEAST_FRAC) * within.mean_s:
        yield _deeper(DEEPER, words, plan, twice)


def _deeper(kind: str, words: str, plan: Plan, cured: Plan) -> Cure:
    if cured.turns == plan.turns:
        return Cure(kind, words, plan, "")
    assert cured.ahead is not None
    by_stage = [cured.ahead[plan.replicas[0], stage] + 1 for stage in plan.stages]
    return Cure(kind, f"{words}: {', '.join(map(str, by_stage))} by stage", cured, _memory(plan, cured))


def _of_work(plan: Plan) -> Iterator[Cure]:
    several = len({len(own) for own in plan.numbers.values()}) == 1 and len(plan.replicas) > 1
    words = "deal micro-batches to replicas by their work"
    if several:
        yield Cure(DEAL, words, dealt(plan), "a sampler that knows lengths")
    else:
        yield Cure(DEAL, words, None, "needs several replicas with equally many micro-batches")
    yield Cure(PACK, "pack sequences so that all micro-batches have equal work", evened(plan), "another packing")
    if len(plan.stages) > 1:
        yield Cure(
            DIVIDE,
            "divide layers over stages otherwise",
            divided(plan),
            "parameters that move between stages; a restart",
        )


def _not_planned(plan: Plan, several: bool) -> str:
    """Why the order of passes cannot be changed; empty if it can."""
    if several and len(plan.replicas) == 1:
        return "needs several replicas"
    return "" if plan.ahead is not None else "stages make their passes in an order that is not known here"


def _memory(plan: Plan, cured: Plan) -> str:
    if cured.in_flight <= plan.in_flight:
        return f"memory for {plan.in_flight} micro-batches on each stage, as stage {plan.stages[0]} has"
    return f"memory for {cured.in_flight} micro-batches on a stage, not {plan.in_flight}"


def sheet(ranking: Ranking) -> Sheet:
    """A row for each cure."""
    rows: list[tuple[str, ...]] = []
    for one in ranking.cures:
        if one.plan is None:
            saves = "does not help" if one.needs == NO_SLOW_RANK else "not computed"
            rows.append((one.words, "", saves, one.needs))
            continue
        helps = one in ranking.helping
        saves = f"{saves_frac(ranking.measured, one):.1%}" if helps else "does not help"
        rows.append((one.words, f"{one.plan.mean_s:.4g}", saves, one.needs))
    return Sheet(("cure", "step s", "saves", "needs"), rows)


def slices(ranking: Ranking) -> Iterator[Slice]:
    """The passes of the first step as measured, and after the best cure, for a trace."""
    plans = [("as measured", ranking.measured), *((one.words, one.plan) for one in ranking.helping[:1])]
    for group, plan in plans:
        for span in plan.spans() if plan is not None else ():
            owner = f", replica {span.of.replica}" if span.of.replica != span.rank[0] else ""
            name = f"{PASSES[span.of.kind]} {span.of.number}{owner}"
            yield Slice(group, f"replica {span.rank[0]}, stage {span.rank[1]}", name, span.begin_s, span.end_s)


def lines(ranking: Ranking, steps: Sequence[int], restart_s: float) -> list[str]:
    """The first cure in words, assumptions, and when a restart pays."""
    helping = ranking.helping
    if not helping:
        return ["no cure helps"]
    said = [f"best cure: {helping[0].words}: a step takes {helping[0].plan.mean_s:.4g} s"]  # type: ignore[union-attr]
    if all(one.kind == DIVIDE for one in helping):
        said.append("stages are unequal in all replicas, so that only other layers per stage help")
    assumed = {one.words.split()[0]: ASSUMES[one.kind] for one in helping}
    said += [f"assumed, to {verb}: {words}" for verb, words in assumed.items()]
    priced = [line for one in helping if one.kind in COST_RESTART for line in _restart(ranking, one, steps, restart_s)]
    return [*said, *priced, *([RULE] if priced else [])]


def _restart(ranking: Ranking, cure: Cure, steps: Sequence[int], restart_s: float) -> Iterator[str]:
    assert cure.plan is not None
    lost_s = ranking.measured.step_s - cure.plan.step_s
    after = restart_after(lost_s, restart_s)
    total, price = f"{lost_s.sum():.4g} s were lost in {len(steps)} steps", f"a restart costs ({restart_s:g} s)"
    if after is not None:
        yield f"{cure.words}: now: {total}, more than {price}; it was due at step {steps[after - 1]}"
    else:
        more = (restart_s - float(lost_s.sum())) / float(lost_s.mean())
        yield f"{cure.words}: wait: {total}, less than {price}; it is due after {more:,.0f} steps more like these"
