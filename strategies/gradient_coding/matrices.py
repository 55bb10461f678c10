"""The matrices B (m x k): each worker sends its row times the parts' gradients; groups with plain sums.

Wang et al., Algorithms 2 and 3. A group never has more than m - s workers: each part has s holders outside of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

import numpy as np

from strategies.gradient_coding.decoding import Floats, Group, Mask, check_tolerance
from strategies.gradient_coding.draws import Chance

MAX_GROUPS = 2000
"""Groups after which a search stops; clusters of many equal workers have exponentially many."""


def find_groups(support: Mask, workers: Collection[int] | None = None, at_most: int = MAX_GROUPS) -> list[Group]:
    """Up to ``at_most`` groups among ``workers`` (default: all): exact covers, depth first in the order of ids."""
    allowed = range(len(support)) if workers is None else sorted(workers)
    rows = {worker: sum(1 << int(part) for part in np.flatnonzero(support[worker])) for worker in allowed}
    covers = _covers(rows, (1 << support.shape[1]) - 1)
    return [tuple(sorted(cover)) for cover in islice(covers, at_most)]


def pack_groups(support: Mask, at_most: int = MAX_GROUPS) -> list[Group]:
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


def prune_groups(groups: Sequence[Group]) -> list[Group]:
    """The paper's choice: drop the group that intersects most others (ties: the last) until all are disjoint.

    It may keep fewer than ``pack_groups``: 2 instead of 3 for six equal workers and s = 2.
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


def naive(m: int) -> Floats:
    """One part per worker and no redundancy: the identity (m x m); every worker is needed."""
    return np.eye(m)


def fractional_repetition(m: int, s: int) -> Floats:
    """Tandon et al., section 3.1: m parts in blocks of s + 1, each block computed by s + 1 workers, entries 1.

    Raises:
        ValueError: ``s + 1`` does not divide ``m``, or ``s`` is not below ``m``.
    """
    check_tolerance(s, m)
    size = s + 1
    if m % size:
        raise ValueError(
            f"s={s}: fractional repetition needs s + 1 = {size} to divide the number of workers, {m}; take cyclic or "
            "heter_aware"
        )
    matrix = np.zeros((m, m))
    for worker in range(m):
        first = worker % (m // size) * size
        matrix[worker, first : first + size] = 1.0
    return matrix


def cyclic(m: int, s: int, chance: Chance) -> Floats:
    """Tandon et al., Algorithm 2, with H (s x m) standard normal except its last column, so that H 1 = 0.

    With s = 0 there is nothing to code: the identity.

    Raises:
        ValueError: ``s`` is not below ``m``.
    """
    check_tolerance(s, m)
    if s == 0:
        return np.eye(m)
    others = chance.standard_normal((s, m - 1))
    return cyclic_of(np.column_stack([others, -others.sum(axis=1)]))


def cyclic_of(h: Floats) -> Floats:
    """The matrix for a given H: row i has a 1 at part i and, at the next s parts, the solution of H B[i] = 0."""
    s, m = h.shape
    matrix = np.eye(m)
    for worker in range(m):
        rest = (worker + np.arange(1, s + 1)) % m
        matrix[worker, rest] = -np.linalg.solve(h[:, rest], h[:, worker])
    return matrix


def heter_aware(support: Mask, chance: Chance) -> Floats:
    """Wang et al., Algorithm 1, with C (s+1 x m) uniform on (0, 1), for a ``support`` with s + 1 holders of each part.

    With s = 0 there is nothing to code: C = 1, so B is the support.

    Raises:
        ValueError: some parts have more holders than others.
    """
    copies = copies_of(support)
    shape = (copies, len(support))
    return heter_aware_of(support, np.ones(shape) if copies == 1 else chance.random(shape))


def heter_aware_of(support: Mask, c: Floats) -> Floats:
    """The matrix for a given C: for each part with holders W, B[W, j] solves C[:, W] b = 1, so that C B = 1.

    Raises:
        ValueError: some parts have more holders than others.
    """
    copies, k = copies_of(support), support.shape[1]
    holders = np.nonzero(support.T)[1].reshape(k, copies)
    systems = np.moveaxis(c[:, holders], 1, 0)
    matrix = np.zeros(support.shape)
    matrix[holders, np.arange(k)[:, None]] = np.linalg.solve(systems, np.ones((k, copies, 1)))[:, :, 0]
    return matrix


def copies_of(support: Mask) -> int:
    """S + 1, the number of holders of every part.

    Raises:
        ValueError: some parts have more holders than others.
    """
    holders = [int(count) for count in support.sum(axis=0)]
    for part, count in enumerate(holders):
        if count != holders[0]:
            raise ValueError(
                f"part {part} has {count} holders, part 0 has {holders[0]}: every part needs the same number, s + 1"
            )
    return holders[0]
