"""Variational inference in latent Dirichlet allocation: documents given topics, and bounds on their likelihood (numpy).

Symbols are as in Hoffman, Blei and Bach, "Online learning for latent Dirichlet allocation", NIPS 2010: ``lam`` [K, V]
are the parameters of q(beta), ``gamma`` [N, K] the parameters of q(theta), alpha and eta the symmetric priors. A
document is a row of word numbers [N, L]; a negative one is no word. All is computed in double precision.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, psi

Floats = NDArray[np.float64]
LEAST = 1e-100
"""Added to probabilities that are divided by or whose logarithm is taken, as in the authors' code."""


class EStep(NamedTuple):
    """The variational parameters of some documents, and what the topics need of them."""

    gamma: Floats
    """[N, K]"""
    phi: Floats
    """[N, L, K]: probability that a word is of a topic; zero where there is no word."""
    bound: Floats
    """[N]: the documents' terms of the evidence lower bound (nats), without the topics' terms."""


def expected_log(parameters: Floats) -> Floats:
    """E[log p] of Dirichlet distributions over the last axis."""
    expected: Floats = psi(parameters) - psi(parameters.sum(axis=-1, keepdims=True))
    return expected


def e_step(lam: Floats, words: NDArray[np.int64], alpha: float, iterations: int, tolerance: float) -> EStep:
    """Fit the documents' variational parameters to the topics (Algorithm 1, inner loop).

    A document is done when the mean change of its ``gamma`` in an iteration is below ``tolerance``, so that the result
    does not depend on the documents it is computed with.
    """
    present = words >= 0
    weights = np.exp(expected_log(lam)).T[np.where(present, words, 0)] * present[:, :, None]
    gamma = np.ones((len(words), len(lam)))
    active = np.arange(len(words))
    for _ in range(iterations):
        if not len(active):
            break
        before, own = gamma[active], weights[active]
        theta = np.exp(expected_log(before))
        scale = 1.0 / (np.einsum("nlk,nk->nl", own, theta) + LEAST)
        gamma[active] = after = alpha + theta * np.einsum("nlk,nl->nk", own, scale)
        active = active[np.abs(after - before).mean(axis=1) >= tolerance]
    logs = expected_log(gamma)
    likely = weights * np.exp(logs)[:, None, :]
    mass = likely.sum(axis=2)
    of_words = np.where(present, np.log(mass + LEAST), 0.0).sum(axis=1)
    bound = of_words + _dirichlet_terms(gamma, logs, alpha)
    return EStep(gamma, likely / (mass[:, :, None] + LEAST), bound)


def _dirichlet_terms(gamma: Floats, logs: Floats, alpha: float) -> Floats:
    """E[log p(theta)] - E[log q(theta)] of each document."""
    topics = gamma.shape[1]
    own = ((alpha - gamma) * logs + gammaln(gamma)).sum(axis=1) - gammaln(gamma.sum(axis=1))
    terms: Floats = own + gammaln(topics * alpha) - topics * gammaln(alpha)
    return terms


def statistics(step: EStep, words: NDArray[np.int64], weights: Floats, size: tuple[int, int]) -> Floats:
    """Sum over documents, each times its weight, of how many of each word are of each topic: [K, V] of this size."""
    found = np.zeros(size[::-1])
    present = words >= 0
    np.add.at(found, words[present], (step.phi * weights[:, None, None])[present])
    return found.T
