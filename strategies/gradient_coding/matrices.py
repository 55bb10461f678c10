"""The matrices B (m x k): what each worker sends is its row times the gradients of the parts."""

from __future__ import annotations

import numpy as np

from strategies.gradient_coding.shapes import Chance, Floats, Mask, check_tolerance


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
