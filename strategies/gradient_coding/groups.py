"""Groups: workers whose parts are disjoint and together everything, so that their plain sum is the gradient.

Wang et al., Algorithms 2 and 3. A group never has more than m - s workers: each part has s holders outside of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

import numpy as np

from strategies.gradient_coding.matrices import copies_of, heter_aware
from strategies.gradient_coding.shapes import Chance, Floats, Group, Mask

MAX_GROUPS = 2000
"""Groups after which a search stops; clusters of many equal workers have exponentially many."""


def find_groups(support: Mask, workers: Collection[int] | None = None, at_most: int = MAX_GROUPS) -> list[Group]:
    """Up to ``at_most`` groups among ``workers`` (default: all): exact covers, depth first in the order of ids."""
    allowed = range(len(support)) if workers is None else sorted(workers)
    rows = {worker: sum(1 << int(part) for part in np.flatnonzero(support[worker])) for worker in allowed}
    covers = _covers(rows, (1 << support.shape[1]) - 1)
    return [tuple(sorted(cover)) for cover in islice(covers, at_most)]


def packed(support: Mask, at_most: int = MAX_GROUPS) -> list[Group]:
    """Pairwise disjoint groups, chosen greedily: the smallest (ties: lower ids) among the remaining workers.

    ``at_most`` bounds each search and not all of them together: the groups found first share their first workers.
    """
    kept: list[Group] = []
    left = set(range(len(support)))
    while found := find_groups(support, left, at_most):
        best = min(found, key=lambda group: (len(group), group))
        kept.append(best)
        left.difference_update(best)
    return kept


def pruned(groups: Sequence[Group]) -> list[Group]:
    """The paper's choice: drop the group that intersects most others (ties: the last) until all are disjoint.

    It may keep fewer than ``packed``: 2 instead of 3 for six equal workers and s = 2.
    """
    ordered = sorted(groups)
    sets = [frozenset(group) for group in ordered]
    met = [{j for j, other in enumerate(sets) if j != i and not one.isdisjoint(other)} for i, one in enumerate(sets)]
    left = set(range(len(ordered)))
    while (worst := max(left, key=lambda i: (len(met[i]), i), default=None)) is not None and met[worst]:
        left.remove(worst)
        for other in met[worst]:
            met[other].remove(worst)
    return [ordered[i] for i in sorted(left)]


def group_based(support: Mask, groups: Sequence[Group], chance: Chance) -> Floats:
    """Algorithm 3: 1 on the support of the workers of disjoint ``groups``, the others by Algorithm 1 among themselves.

    Each of the P groups takes one holder of every part, so the others are coded for s - P stragglers (the symbol is
    missing in the published text; it follows from Lemma 2). With P = s + 1 the others hold nothing.

    Raises:
        ValueError: some parts have more holders than others, or the groups are not disjoint groups of this support.
    """
    copies = copies_of(support)
    members = [worker for group in groups for worker in group]
    if len(set(members)) < len(members) or any((support[list(group)].sum(axis=0) != 1).any() for group in groups):
        raise ValueError(f"groups {list(groups)}: must be disjoint, and each must hold every part exactly once")
    matrix = np.zeros(support.shape)
    matrix[members] = support[members]
    if copies > len(groups):
        others = [worker for worker in range(len(support)) if worker not in members]
        matrix[others] = heter_aware(support[others], chance)
    return matrix


def _covers(rows: dict[int, int], full: int) -> Iterator[Group]:
    """Exact covers of the bits of ``full`` by ``rows``; dead ends are remembered and not searched again."""
    hopeless: set[int] = set()

    def extend(covered: int, chosen: Group) -> Iterator[Group]:
        if covered == full:
            yield chosen
            return
        lowest = ~covered & (covered + 1)
        found = False
        for worker, row in rows.items():
            if row & lowest and not row & covered and (covered | row) not in hopeless:
                for cover in extend(covered | row, (*chosen, worker)):
                    found = True
                    yield cover
        if not found:
            hopeless.add(covered)

    return extend(0, ())
