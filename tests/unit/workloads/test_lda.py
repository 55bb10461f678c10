"""Latent Dirichlet allocation: scikit-learn's steps and scores, evidence by integration, topics that are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln, polygamma, psi
from scipy.stats import beta
from sklearn.decomposition import LatentDirichletAllocation

from runtime.training.optimizers import make_optimizer
from workloads.datasets.planted_topics import PlantedTopics
from workloads.lda import LDA
from workloads.topics import e_step

TEXT = PlantedTopics(samples=400, length=50, words=60, topics=4, data_seed=3)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("topics"))
    assert TEXT.prepare(folder) == TEXT.num_samples == 400
    return folder


def task(data_dir: str, **settings: Any) -> LDA:
    return LDA(**{"dataset": TEXT, "topics": 4, "data_dir": data_dir} | settings)


def counts(words: NDArray[np.int64], vocabulary: int) -> NDArray[np.int64]:
    return np.array([np.bincount(row[row >= 0], minlength=vocabulary) for row in words])


def peer(**settings: Any) -> LatentDirichletAllocation:
    return LatentDirichletAllocation(
        n_components=4, max_doc_update_iter=5000, mean_change_tol=1e-9, random_state=7, **settings
    )


def test_steps_are_those_of_scikit_learn(data_dir: str) -> None:
    """The same mini-batches, tau0 and kappa, from the same draw; our steps by the server's own optimizer."""
    tau0, kappa, size = 5.0, 0.7, 32
    own = task(data_dir, iterations=5000, tolerance=1e-9)
    train, _ = own.documents
    theirs = peer(learning_offset=tau0, learning_decay=kappa, total_samples=len(train))
    params = np.random.RandomState(7).gamma(100.0, 0.01, (4, 60)).astype(np.float32).ravel()
    optimizer = make_optimizer("sgd", len(params))
    for step in range(6):
        rows = np.arange(step * size, (step + 1) * size)
        theirs.partial_fit(counts(train[rows], 60))
        grad = np.zeros_like(params)
        own.numpy_gradient(params, rows, grad)
        optimizer.step(params, [grad], [1 / size], lr=(tau0 + 1 + step) ** -kappa, samples=size)
        np.testing.assert_allclose(params.reshape(4, 60), theirs.components_, rtol=2e-6)


def test_the_bound_is_that_of_scikit_learn_without_the_topics_own_terms(data_dir: str) -> None:
    own = task(data_dir, iterations=5000, tolerance=1e-9)
    train, test = own.documents
    theirs = peer(total_samples=len(train)).partial_fit(counts(train, 60))
    lam, eta = theirs.components_, own.eta
    logs = psi(lam) - psi(lam.sum(axis=1, keepdims=True))
    topics = ((eta - lam) * logs + gammaln(lam) - gammaln(eta)).sum()
    topics += (gammaln(60 * eta) - gammaln(lam.sum(axis=1))).sum()
    found = own.numpy_metrics(lam.astype(np.float32).ravel())
    expected = (theirs.score(counts(test, 60)) - topics) / test.size
    assert found["log_likelihood"] == pytest.approx(expected, rel=1e-6)
    assert found["perplexity"] == pytest.approx(math.exp(-expected), rel=1e-5)


def test_the_bound_is_below_the_evidence_and_near() -> None:
    """Two topics that are certain: the evidence of a document is an integral over one share.

    Where no word can be of both topics, nothing is approximated.
    """
    assert -0.5 < gap(np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])) < -0.01
    assert gap(np.array([[0.7, 0.3, 0.0], [0.0, 0.0, 1.0]])) == pytest.approx(0, abs=1e-5)


def gap(topics: NDArray[np.float64]) -> float:
    words, alpha = np.array([[0, 0, 1, 2, 0, -1]]), 0.8
    of_words = topics[:, words[0, :5]]

    def joint(share: float) -> float:
        return float(np.prod(share * of_words[0] + (1 - share) * of_words[1]) * beta(alpha, alpha).pdf(share))

    evidence = math.log(quad(joint, 0, 1, points=[1e-3, 1 - 1e-3])[0])
    bound = e_step(topics * 1e9 + 1e-3, words, alpha, 2000, 1e-12).bound[0]
    return float(bound - evidence)


def test_a_gradient_is_minus_the_natural_gradient_of_the_bound(data_dir: str) -> None:
    """By differences of the whole bound, which Fisher's information of the Dirichlet distributions turns into ours."""
    own = task(data_dir, iterations=20_000, tolerance=1e-13)
    train, _ = own.documents
    lam = np.random.default_rng(1).gamma(100.0, 0.01, (4, 60)) + 0.5 * counts(train[:4], 60)
    rows = np.array([5, 6, 7])

    def whole(at: NDArray[np.float64]) -> float:
        logs = psi(at) - psi(at.sum(axis=1, keepdims=True))
        topics = ((own.eta - at) * logs + gammaln(at)).sum() - gammaln(at.sum(axis=1)).sum()
        documents = e_step(at, train[rows], own.alpha, 20_000, 1e-13).bound.sum()
        return float(topics + len(train) / len(rows) * documents)

    grad = np.zeros(240, dtype=np.float32)
    own.numpy_gradient(lam.astype(np.float32).ravel(), rows, grad)
    mean = grad.reshape(4, 60).astype(np.float64) / len(rows)
    ascent = -(
        polygamma(1, lam) * mean - polygamma(1, lam.sum(axis=1, keepdims=True)) * mean.sum(axis=1, keepdims=True)
    )
    for k, v in ((0, train[5, 0]), (1, train[6, 1]), (3, 59)):
        step = np.zeros_like(lam)
        step[k, v] = 1e-4
        slope = (whole(lam + step) - whole(lam - step)) / 2e-4
        assert ascent[k, v] == pytest.approx(slope, rel=1e-4, abs=1e-4 * np.abs(ascent).max())


def test_gradients_are_sums_over_documents(data_dir: str) -> None:
    own = task(data_dir)
    params = own.initial_parameters(1)
    rows, weights = np.array([3, 50, 3, 7]), np.array([1.0, -2.0, 0.5, 1.0], dtype=np.float32)
    together, apart, single = (np.zeros_like(params) for _ in range(3))
    losses = own.numpy_weighted_gradient(params, rows, weights, together)
    one_by_one = 0.0
    for row, weight in zip(rows, weights, strict=True):
        single[:] = 0
        one_by_one += own.numpy_gradient(params, np.array([row]), single)
        apart += weight * single
    np.testing.assert_allclose(together, apart, rtol=1e-4, atol=1e-3)
    assert losses == pytest.approx(one_by_one)
    params[::7], together[:] = -3.0, 0.0  # a stale step may make some negative
    assert np.isfinite(own.numpy_gradient(params, np.arange(8), together))
    assert np.isfinite(together).all()
    assert np.isfinite(own.numpy_metrics(params)["log_likelihood"])
    assert (together[::7] < 0).all(), "steps lead back"


def trained(own: LDA, seed: int, epochs: int) -> NDArray[np.float32]:
    params, chance, step = own.initial_parameters(seed), np.random.default_rng(seed), 0
    for _ in range(epochs):
        order = chance.permutation(400)
        for at in range(0, 400, 40):
            grad = np.zeros_like(params)
            own.numpy_gradient(params, order[at : at + 40], grad)
            params -= np.float32((5 + step) ** -0.6 / 40) * grad
            step += 1
    return params


def test_the_topics_are_found_and_score_as_the_true_ones_do(data_dir: str) -> None:
    """Half the sum of absolute differences, topics matched as well as possible; at first it is far away."""
    own = task(data_dir, document_prior=0.1, topic_prior=0.05)
    topics, _ = TEXT.truth(data_dir)
    by_rank = np.empty_like(topics)
    by_rank[:, ranks(data_dir)] = topics
    first, last = own.initial_parameters(0), trained(own, 0, 4)
    assert distance(first, by_rank) > 0.5
    assert distance(last, by_rank) < 0.1
    best = own.numpy_metrics((by_rank * 1e6 + 1e-3).astype(np.float32).ravel())["log_likelihood"]
    scores = [own.numpy_metrics(params)["log_likelihood"] for params in (first, last)]
    assert scores[0] < best - 0.5
    assert best - 0.05 < scores[1] < best + 0.02


def ranks(data_dir: str) -> NDArray[np.int64]:
    train = TEXT.load(data_dir).train[0]
    found = np.empty(60, dtype=np.int64)
    found[np.argsort(-np.bincount(train.ravel(), minlength=60), kind="stable")] = np.arange(60)
    return found


def distance(params: NDArray[np.float32], topics: NDArray[np.float64]) -> float:
    lam = params.reshape(topics.shape).astype(np.float64)
    apart = np.abs((lam / lam.sum(axis=1, keepdims=True))[:, None] - topics[None]).sum(axis=2) / 2
    return float(apart[linear_sum_assignment(apart)].max())


def test_frequent_words_are_left_out_and_rare_ones_not_kept(data_dir: str) -> None:
    every, some = task(data_dir), task(data_dir, stop_words=2, vocabulary=10, train_samples=100, test_samples=5)
    assert (every.num_parameters, some.num_parameters) == (240, 40)
    assert (some.num_samples, some.prepare(), some.documents[1].shape) == (100, 100, (5, 50))
    frequent = np.bincount(every.documents[0].ravel(), minlength=60)
    assert (np.diff(frequent) <= 0).all()
    kept = some.documents[0]
    assert (kept.min(), kept.max()) == (-1, 9)


def test_documents_have_the_shares_and_the_words_of_their_topics(data_dir: str) -> None:
    """Frequencies over all held-out documents are those of the truth, within four standard errors of 2,000 words."""
    topics, shares = TEXT.truth(data_dir)
    expected = shares.mean(axis=0) @ topics
    found = np.bincount(TEXT.load(data_dir).test[0].ravel(), minlength=60) / (40 * 50)
    assert np.abs(found - expected).max() < 4 * math.sqrt(expected.max() / 2000)
    assert np.allclose(topics.sum(axis=1), 1)
    assert np.allclose(shares.sum(axis=1), 1)
    inputs, targets = TEXT.load(data_dir).train
    np.testing.assert_array_equal(inputs[:, 1:], targets[:, :-1])
    others = [{}, {"data_seed": 4}, {"samples": 30}, {"topics": 3}, {"topic_prior": 1.0}]
    about = {"samples": 20, "length": 5, "words": 9, "topics": 2, "data_seed": 3}
    assert len({PlantedTopics(**{**about, **other}).directory(data_dir) for other in others}) == 5  # type: ignore[arg-type]
