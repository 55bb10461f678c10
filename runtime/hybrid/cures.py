"""Cures of a hybrid job's stragglers, each the best of its kind (pure).

Sources: LB-BSP (Chen et al., SoCC 2020), in whole micro-batches (:func:`rebalanced`); "Attack of the Bubbles"
(NSDI 2026), more micro-batches in flight before a slow link (:func:`deepened`); ReCycle (Gandhi et al., SOSP 2024),
passes of a rank on the same stage of other replicas (:func:`rerouted`).
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from statistics import median_low

import numpy as np

from runtime.hybrid.eager import eager_turns
from runtime.hybrid.graph import Floats
from runtime.hybrid.operators import BACKWARD, FORWARD, MESSAGES, PASSES, Operator, Rank, Turns
from runtime.hybrid.plans import Plan, most_in_flight, with_ahead, with_counts

MOST_AHEAD = 100
"""So many vectors of warm-up depths are tried; if there are more, only those that are best for one slow link."""
MOST_COUNTS, FEW_COUNTS = 16, 8
"""Numbers of micro-batches for which a replica's step is computed; the second one, if there would be more."""
STEADY = 4
"""A replica with so many times as many micro-batches as stages has the best warm-up depths of any larger number."""
MOST_SHARES = 16
"""Numbers of re-routed micro-batches that are tried."""
EXTRA = (0, 1, 2)
"""So many more micro-batches in flight are tried at ranks that make passes of others."""
FINALISTS = 3
"""So many numbers of re-routed micro-batches are compared with each memory, and with their collectives."""
Link = tuple[int, int]
"""A replica, and the stage before its link."""


def best_split(total: int, times: Sequence[Callable[[int], float]]) -> list[int]:
    """How many of ``total`` micro-batches each replica gets, so that the slowest one ends as early as possible.

    Exact for times that do not fall as the number grows: each micro-batch goes to the replica that ends first with it.

    Args:
        total: at least one for each replica.
        times: seconds of a replica's step by its number of micro-batches, from 1.
    """
    counts = [1] * len(times)
    after = [(time(2), place) for place, time in enumerate(times)]
    heapq.heapify(after)
    for _ in range(total - len(times)):
        _, place = after[0]
        counts[place] += 1
        heapq.heapreplace(after, (times[place](counts[place] + 1), place))
    return counts


def rebalanced(plan: Plan) -> Plan:
    """The job whose replicas have other numbers of micro-batches, by the speeds of their ranks and links.

    Micro-batches count as equally long: a replica that had longer ones in the measured steps gets others in the next.
    ``plan.ahead`` must be known.
    """
    mean, total = evened(plan.averaged()), sum(map(len, plan.numbers.values()))
    counts = best_split(total, [_time_of(mean.only([replica])) for replica in plan.replicas])
    return with_counts(plan, dict(zip(plan.replicas, counts, strict=True)))


def _time_of(alone: Plan) -> Callable[[int], float]:
    """Seconds of a replica's step by its number of micro-batches: some are computed, and lines lead through them."""
    (replica,) = alone.replicas
    most = 2 * len(alone.numbers[replica])
    known = list(range(1, most + 1)) if most <= MOST_COUNTS else np.linspace(1, most, FEW_COUNTS).round().tolist()
    seconds = np.maximum.accumulate([with_counts(alone, {replica: int(count)}).mean_s for count in known])
    more_s = (seconds[-1] - seconds[0]) / (most - 1)
    return lambda count: float(np.interp(count, known, seconds)) + more_s * max(0, count - most)


def aheads(present: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """All numbers of forward passes before the first pair, by stage, from the present ones to ``most``.

    A stage never has fewer than the next one, since both would wait for each other.
    """
    if not present:
        yield ()
        return
    for first in range(present[0], most + 1):
        yield from ((first, *rest) for rest in aheads(present[1:], first))


def deepened(plan: Plan, most: int) -> Plan:
    """The job with more micro-batches in flight before slow stages or links, as is best for the slowest replica.

    Args:
        plan: whose ``ahead`` is known.
        most: micro-batches in flight for which a rank has memory.
    """
    assert plan.ahead is not None
    slowest = max((plan.averaged().only([one]) for one in plan.replicas), key=lambda one: one.mean_s)
    ((replica, own),) = slowest.numbers.items()
    slowest = with_counts(slowest, {replica: min(len(own), STEADY * len(plan.stages))})
    present = [max(plan.ahead[replica, stage] for replica in plan.replicas) for stage in plan.stages]
    tried: list[Sequence[int]] = list(islice(aheads(present, most - 1), MOST_AHEAD + 1))
    if len(tried) > MOST_AHEAD:
        tried = list(_for_one_link(present, most - 1))
    best = min(tried or [present], key=lambda one: (round(_with_ahead(slowest, one).mean_s, 9), sum(one)))
    return _with_ahead(plan, best)


def _for_one_link(present: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """The present numbers, with equally many more on all stages before a link."""
    for last in range(len(present)):
        for more in range(most - min(present) + 1):
            yield [max(one, min(most, one + more)) if stage <= last else one for stage, one in enumerate(present)]


def _with_ahead(plan: Plan, by_stage: Sequence[int]) -> Plan:
    ahead = dict(zip(plan.stages, by_stage, strict=True))
    return with_ahead(plan, {rank: ahead[rank[1]] for rank in plan.turns})


def rerouted(plan: Plan, slow: Rank) -> Plan:
    """The job in which other replicas make some of a rank's passes, in their bubbles; as many as is best."""
    mean, most = plan.averaged(), len(plan.numbers[slow[0]])
    shares = sorted({round(one) for one in np.linspace(1, most, min(MOST_SHARES, most))})
    found = [hosts(plan, slow, share) for share in shares]
    first = sorted(found, key=lambda host: hosted(mean, host, EXTRA[-1])[1])[:FINALISTS]
    tried = [(host, hosted(mean, host, extra)[0]) for host in first for extra in EXTRA]
    few = [replace(plan, seconds=_hosted_s(plan, host), turns=turns) for host, turns in tried]
    return min(few, key=lambda one: (round(one.mean_s, 9), one.in_flight))


def hosts(plan: Plan, slow: Rank, share: int) -> dict[Operator, Rank]:
    """The ranks that make each pass if ``share`` of a rank's micro-batches go to other replicas.

    Every so many micro-batches one goes to the rank that would have least to do with it.
    """
    numbers, stage = plan.numbers[slow[0]], slow[1]
    load = {replica: len(own) for replica, own in plan.numbers.items() if replica != slow[0]}
    found = dict(plan.host)
    for place in range(share):
        peer = min(load, key=lambda one: ((load[one] + 1) * plan.slowness[one, stage], one))
        load[peer] += 1
        for kind in (FORWARD, BACKWARD):
            found[Operator(slow[0], stage, kind, numbers[place * len(numbers) // share])] = peer, stage
    return found


def hosted(mean: Plan, host: Mapping[Operator, Rank], extra: int) -> tuple[Turns, float]:
    """The order of passes in a job of one step whose ranks make these passes, and when the last of them ends.

    Each pass is begun as soon as it is ready, backward passes first. A rank keeps activations of as many micro-batches
    as now, and of ``extra`` more if it makes passes of others.
    """
    guests = {rank for one, rank in host.items() if rank[0] != one.replica}
    limits = {rank: most_in_flight(own) + (extra if rank in guests else 0) for rank, own in mean.turns.items()}
    return eager_turns(_hosted_s(mean, host), host, limits)


def _hosted_s(plan: Plan, host: Mapping[Operator, Rank]) -> dict[Operator, Floats]:
    moved = {one: plan.moved_s(one, rank) for one, rank in host.items() if plan.host[one] != rank}
    return {**plan.seconds, **moved}


def replaced(plan: Plan, slow: Rank) -> Plan:
    """The job in which a rank computes as fast as its stage does in the median replica."""
    seconds = {one: plan.seconds[one] / plan.slowness[slow] for one in plan.turns[slow]}
    return replace(plan, seconds={**plan.seconds, **seconds}, slowness={**plan.slowness, slow: 1.0})


def repaired(plan: Plan) -> tuple[Plan, Link] | None:
    """The job whose slowest link is like the median link, and that link.

    None: stages exchange no messages.
    """
    links: dict[Link, list[Operator]] = defaultdict(list)
    before = dict(zip(plan.stages[1:], plan.stages, strict=False))
    for one in plan.seconds:
        if one.kind in MESSAGES:
            is_after = one.kind in ("forward-recv", "backward-send")
            links[one.replica, before[one.stage] if is_after else one.stage].append(one)
    if not links:
        return None
    mean_s = {
        (link, kind): float(np.mean([plan.seconds[one] for one in own if one.kind == kind]))
        for link, own in links.items()
        for kind in MESSAGES
    }
    usual_s = {kind: median_low(value for (_, of), value in mean_s.items() if of == kind) for kind in MESSAGES}
    slow = max(links, key=lambda link: sum(mean_s[link, kind] - usual_s[kind] for kind in MESSAGES))
    usual = {one: np.minimum(plan.seconds[one], usual_s[one.kind]) for one in links[slow]}
    return replace(plan, seconds={**plan.seconds, **usual}), slow


def dealt(plan: Plan) -> Plan:
    """The job in which each step's micro-batches are divided over replicas by their work, with equal numbers of them.

    The longest comes first, and goes to the replica that has least to do. Replicas begin with their longest one, or
    with their shortest, whichever is better.
    """
    work = _work(plan)
    sizes = np.sum(list(work.values()), axis=0)
    slots = [replica for replica, own in plan.numbers.items() for _ in own]
    slowness = {replica: max(plan.slowness[replica, stage] for stage in plan.stages) for replica in plan.replicas}
    chosen = [_deal(column.tolist(), slots, slowness) for column in sizes.T]
    found = []
    for turn in (1, -1):
        of_slots = np.array([[one for replica in plan.replicas for one in step[replica][::turn]] for step in chosen])
        found.append(_with_work(plan, {key: np.take_along_axis(rows, of_slots.T, 0) for key, rows in work.items()}))
    return min(found, key=lambda one: one.mean_s)


def _deal(sizes: Sequence[float], slots: Sequence[int], slowness: Mapping[int, float]) -> dict[int, list[int]]:
    """The micro-batches of each replica, the longest first."""
    room, load = Counter(slots), dict.fromkeys(slowness, 0.0)
    found: dict[int, list[int]] = {replica: [] for replica in slowness}
    for one in sorted(range(len(sizes)), key=lambda one: -sizes[one]):
        replica = min((each for each in load if room[each]), key=lambda each: (load[each] * slowness[each], each))
        room[replica] -= 1
        load[replica] += sizes[one]
        found[replica].append(one)
    return found


def evened(plan: Plan) -> Plan:
    """The job in which all micro-batches of a step have the same work."""
    work = {key: np.broadcast_to(rows.mean(axis=0), rows.shape) for key, rows in _work(plan).items()}
    return _with_work(plan, work)


def divided(plan: Plan) -> Plan:
    """The job whose stages have equal work, as if layers could be divided at any place; slow ranks stay slow."""
    found, work = dict(plan.seconds), _work(plan)
    for kind in PASSES:
        usual_s = {stage: float(np.median(work[stage, kind])) for stage in plan.stages}
        for one, rank in plan.host.items():
            if one.kind == kind and usual_s[rank[1]] > 0:
                found[one] = plan.seconds[one] * (float(np.mean(list(usual_s.values()))) / usual_s[rank[1]])
    return replace(plan, seconds=found)


def _work(plan: Plan) -> dict[tuple[int, str], Floats]:
    """[micro-batches of all replicas, steps]: seconds of passes by stage and kind, on ranks that are not slow."""
    found = {}
    for stage in plan.stages:
        for kind in PASSES:
            passes = [Operator(replica, stage, kind, one) for replica, own in plan.numbers.items() for one in own]
            found[stage, kind] = np.stack([plan.seconds[one] / plan.slowness[plan.host[one]] for one in passes])
    return found


def _with_work(plan: Plan, work: Mapping[tuple[int, str], Floats]) -> Plan:
    """The job whose micro-batches have other work."""
    found = dict(plan.seconds)
    for (stage, kind), rows in work.items():
        passes = [Operator(replica, stage, kind, one) for replica, own in plan.numbers.items() for one in own]
        found |= {one: row * plan.slowness[plan.host[one]] for one, row in zip(passes, rows, strict=True)}
    return replace(plan, seconds=found)
