"""The operations of a measured hybrid job, as a graph with measured and with ideal durations (pure).

Source of the kinds and of ideal durations: "Understanding Stragglers in Large Model Training Using What-if Analysis"
(OSDI 2025; ByteDance-Seed/StragglerAnalysis). A rank computes in the order of its start times. Transfers do not keep it
from computing; all ranks of a transfer's group begin it together, when the last one is ready.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from runtime.hybrid.graph import Floats, Graph

FORWARD, BACKWARD = "forward-compute", "backward-compute"
PASSES = {FORWARD: "forward", BACKWARD: "backward"}
MESSAGES = ("forward-send", "forward-recv", "backward-send", "backward-recv")
GATHER, EMBEDDING, SCATTER = "params-all-gather", "embedding-grads-all-reduce", "grads-reduce-scatter"
CLIP, LAYERNORM = "optimizer-clip-main-grad", "layernorm-grads-all-reduce"
AFTER = ("gc", LAYERNORM, EMBEDDING, SCATTER, CLIP, "optimizer")
"""In this order, after a rank's last pass."""
COMPUTING = (FORWARD, BACKWARD, "gc", "optimizer")
KINDS = (GATHER, *PASSES, *MESSAGES, *AFTER)
CLOCK_ERROR_S = 0.010
"""A transfer that ends earlier than this before its last rank began it has no known duration; it counts as none."""


MOST_OPERATORS = 200_000
"""Operators of a step."""
MOST_CELLS = 4
"""Cells of a table by operator and step, for each row: most cells of whole steps have one."""


class Operator(NamedTuple):
    """An operation of every step: the ``number``-th of its kind on its rank."""

    replica: int
    stage: int
    kind: str
    number: int


Rank = tuple[int, int]
"""Replica and stage."""
Turns = Mapping[Rank, Sequence[Operator]]


class Table(NamedTuple):
    """Measured times, by operator and step."""

    operators: list[Operator]
    steps: list[int]
    begin_s: Floats
    """[operators, steps]"""
    seconds: Floats
    """[operators, steps]"""
    left_out: int
    """Steps that lack operators, or in which a rank computed in another order."""


class Job(NamedTuple):
    """A measured job as a graph.

    ``graph`` has the operators, and then the beginning of each group's transfer, which takes no time.
    """

    operators: list[Operator]
    graph: Graph
    measured_s: Floats
    """[operators, steps]: of a transfer, from the last rank's beginning to its own end."""
    ideal_s: Floats
    """[operators]: the mean of all operators of a kind that computes, the median of one that transfers."""
    turns: Turns
    """The passes of each rank, in their order."""

    def step_s(self, seconds: Floats) -> Floats:
        """[...]: how long steps take if operators take ``seconds`` [operators, ...]."""
        begins = np.zeros((len(self.graph) - len(self.operators), *seconds.shape[1:]))
        return np.asarray(self.graph.ends(np.concatenate([seconds, begins])).max(axis=0))


def arrange(
    replica: Sequence[Any],
    stage: Sequence[Any],
    step: Sequence[Any],
    kind: Sequence[Any],
    number: Sequence[Any],
    begin_s: Sequence[Any],
    seconds: Sequence[Any],
) -> Table:
    """Columns with a row per operation, as a table; raises ``ValueError`` with what is wrong and the cure."""
    names, kinds = np.unique(np.asarray(kind, dtype=str), return_inverse=True)
    if unknown := sorted(set(names) - set(KINDS)):
        raise ValueError(f"optype {unknown[0]}: is unknown; known are {', '.join(KINDS)}")
    keys = np.stack([np.asarray(one, dtype=np.int64) for one in (replica, stage, kinds, number)])
    steps, step_of = np.unique(np.asarray(step, dtype=np.int64), return_inverse=True)
    rows, row_of = np.unique(keys, axis=1, return_inverse=True)
    if (size := rows.shape[1]) > MOST_OPERATORS:
        raise ValueError(
            f"steps have {size:,} operators, and no more than {MOST_OPERATORS:,} are read; give fewer ranks"
        )
    if size * len(steps) > MOST_CELLS * keys.shape[1]:
        raise ValueError(f"has {keys.shape[1]:,} rows of {size:,} operators in {len(steps):,} steps; give whole steps")
    count = np.zeros((size, len(steps)), dtype=np.int64)
    np.add.at(count, (row_of, step_of), 1)
    operators = [Operator(int(one[0]), int(one[1]), str(names[one[2]]), int(one[3])) for one in rows.T]
    if (twice := np.argwhere(count > 1)).size:
        one, place = operators[twice[0][0]], twice[0][1]
        raise ValueError(f"step {steps[place]}: has {one.kind} {one.number} of {_rank(one)} twice; give each once")
    times = np.zeros((2, *count.shape))
    times[:, row_of, step_of] = [begin_s, seconds]
    whole = np.asarray(count.all(axis=0))
    if not whole.any():
        raise ValueError("no step has all operators; give whole steps of all ranks")
    whole[whole] = _in_usual_order(operators, times[0][:, whole])
    return Table(operators, steps[whole].tolist(), times[0][:, whole], times[1][:, whole], int((~whole).sum()))


def _in_usual_order(operators: list[Operator], begin_s: Floats) -> Any:
    """[steps]: whether all ranks computed in the order of most steps; of as frequent orders the first one counts."""
    orders = [
        np.argsort(begin_s[[place for place in mine if operators[place].kind in PASSES]], axis=0, kind="stable")
        for mine in _by_rank(operators).values()
    ]
    _, order_of, counts = np.unique(np.concatenate(orders), axis=1, return_inverse=True, return_counts=True)
    order_of = order_of.ravel()
    return order_of == order_of[counts[order_of].argmax()]


def _rank(one: Operator) -> str:
    return f"replica {one.replica}, stage {one.stage}"


def _by_rank(operators: Sequence[Operator]) -> dict[Rank, list[int]]:
    ranks: dict[Rank, list[int]] = defaultdict(list)
    for place, one in enumerate(operators):
        ranks[one.replica, one.stage].append(place)
    return ranks


def job_of(table: Table) -> Job:
    """The job's graph; raises ``ValueError`` if ranks do not exchange messages, or wait for each other for ever."""
    operators = table.operators
    kinds = {one.kind for one in operators}
    several = len({one.stage for one in operators}) > 1
    if missing := [name for name in (*PASSES, *MESSAGES) if name not in kinds and (several or name in PASSES)]:
        raise ValueError(f"has no optype {missing[0]}, so that nothing is known of what stages wait for")
    turns = {rank: _passes(mine, operators, table.begin_s[:, 0]) for rank, mine in _by_rank(operators).items()}
    measured_s = _transfer_s(table, list(_groups(operators).values()))
    ideal_s = np.empty(len(operators))
    for name in kinds:
        mine_ = np.array([one.kind == name for one in operators])
        ideal_s[mine_] = measured_s[mine_].mean() if name in COMPUTING else np.median(measured_s[mine_])
    return Job(operators, graph_of(operators, turns), measured_s, ideal_s, turns)


def _passes(mine: list[int], operators: list[Operator], begin_s: Floats) -> list[Operator]:
    """A rank's passes, in their order."""
    return [operators[place] for place in sorted(mine, key=lambda one: begin_s[one]) if operators[place].kind in PASSES]


def graph_of(operators: Sequence[Operator], turns: Turns) -> Graph:
    """The operators, and then the beginning of each group's transfer; raises ``ValueError`` if ranks wait for ever.

    Args:
        operators: of a step.
        turns: for each rank the passes that it makes, in their order; they may be of other replicas.
    """
    places = {one: place for place, one in enumerate(operators)}
    waits: list[list[int]] = [[] for _ in operators]
    for earlier, later in _in_turn(operators, turns):
        waits[places[later]].append(places[earlier])
    groups = list(_groups(operators).values())
    begins = [[one for member in group for one in waits[member]] for group in groups]
    for place, group in enumerate(groups):
        for member in group:
            waits[member] = [len(operators) + place]
    return Graph([*waits, *begins])


def _in_turn(operators: Sequence[Operator], turns: Turns) -> Iterator[tuple[Operator, Operator]]:
    """Pairs of operators of which the second waits for the first."""
    there, stages = set(operators), sorted({one.stage for one in operators})
    beside = {FORWARD: dict(itertools.pairwise(stages)), BACKWARD: dict(itertools.pairwise(reversed(stages)))}
    host = {one: rank for rank, passes in turns.items() for one in passes}
    for rank, mine in _by_rank(operators).items():
        by_kind: dict[str, list[Operator]] = defaultdict(list)
        for place in mine:
            by_kind[operators[place].kind].append(operators[place])
        passes = turns.get(rank, [])
        last = [max(by_kind[kind]) for kind in AFTER if kind in by_kind]
        yield from itertools.pairwise([*by_kind[GATHER], *passes, *last])
        links: dict[tuple[str, Rank], list[Operator]] = defaultdict(list)
        for one in passes:
            sent, received = (one._replace(kind=f"{PASSES[one.kind]}-{end}") for end in ("send", "recv"))
            if received in there:
                yield received, one
            if sent in there:
                yield one, sent
                links[one.kind, host[one._replace(stage=beside[one.kind][one.stage])]].append(sent)
        for sends in links.values():  # two ranks exchange messages of one direction in the sender's order
            yield from itertools.pairwise(sends)


def _groups(operators: Sequence[Operator]) -> dict[tuple[Any, ...], list[int]]:
    """The operators that are one transfer: a message's two ends, or a collective's ranks."""
    stages = {stage: place for place, stage in enumerate(sorted({one.stage for one in operators}))}
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place, one in enumerate(operators):
        where = stages[one.stage]
        match one.kind:
            case "forward-send" | "backward-send":
                groups[one.kind[:4], one.replica, where, one.number].append(place)
            case "forward-recv":
                groups["forw", one.replica, where - 1, one.number].append(place)
            case "backward-recv":
                groups["back", one.replica, where + 1, one.number].append(place)
            case "params-all-gather" | "grads-reduce-scatter":
                groups[one.kind, where, one.number].append(place)
            case "embedding-grads-all-reduce":
                groups[one.kind, one.replica, one.number].append(place)
            case "optimizer-clip-main-grad":
                groups[one.kind, one.number].append(place)
    return groups


def _transfer_s(table: Table, groups: list[list[int]]) -> Floats:
    """[operators, steps]: durations, of transfers without waiting for the last rank to begin."""
    seconds, ends = table.seconds.copy(), table.begin_s + table.seconds
    for group in groups:
        after_s = ends[group] - table.begin_s[group].max(axis=0)
        seconds[group] = np.where(after_s < -CLOCK_ERROR_S, 0.0, after_s)
    return seconds
