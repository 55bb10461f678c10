"""Topics of documents: online variational Bayes for latent Dirichlet allocation, as gradient sums.

Hoffman, Blei and Bach (NIPS 2010) take a mini-batch of documents, estimate what the topics would be if the whole corpus
were like it, ``lam_hat = eta + D * mean_d(s_d)``, and step there: ``lam <- (1 - rho) lam + rho lam_hat``. This is
stochastic natural-gradient ascent (Hoffman et al., JMLR 2013): with the "gradient" of a document

    g_d = lam - eta - D * s_d

it is ``lam <- lam - rho * mean_d(g_d)``, plain SGD with the rate rho. So any strategy trains it, with stale gradients,
too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from workloads.datasets.base import Dataset
from workloads.topics import EStep, e_step, statistics

FLOOR_FRAC = 0.01
"""Part of eta below which no parameter is believed to be: steps with stale gradients may pass eta, and even zero."""
INITIAL = (100.0, 0.01)
"""Shape and scale of the gamma distribution of initial parameters (the authors' code, and scikit-learn)."""
AT_ONCE = 64
"""Held-out documents that are evaluated together, so that memory is bounded."""


@final
@dataclass(frozen=True, kw_only=True)
class LDA:
    """Parameters: ``lam``, float32 [topics, vocabulary], flat. A sample is a document, a row of the data set's words.

    Attributes:
        dataset: text of ``workloads/datasets/``.
        topics: number of topics, K.
        document_prior: alpha; null: 1 / K.
        topic_prior: eta; null: 1 / K.
        stop_words: the most frequent words of the training text are left out, this many.
        vocabulary: words that are kept of the rest, the most frequent ones; null: all.
        iterations: at most so many in a document's inner loop.
        tolerance: it ends when the mean change of gamma is less.
        data_dir: directory of the converted arrays.
        train_samples: number of training documents, the first ones; null: all.
        test_samples: the same for held-out ones.
    """

    dataset: Dataset
    topics: int = 10
    document_prior: float | None = None
    topic_prior: float | None = None
    stop_words: int = 0
    vocabulary: int | None = None
    iterations: int = 100
    tolerance: float = 1e-3
    data_dir: str = "data"
    train_samples: int | None = None
    test_samples: int | None = None

    independent_samples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.dataset.facts.vocabulary:
            raise ValueError(f"dataset={self.dataset.name}: holds no text; choose planted_topics or wikitext2")
        for name, least in (("topics", 1), ("iterations", 1), ("stop_words", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name}={value}: must be a whole number, at least {least}")
        for name in ("vocabulary", "train_samples", "test_samples"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{name}={value}: must be at least 1, or null for all")
        for name in ("document_prior", "topic_prior"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 100:
                raise ValueError(f"{name}={value}: must be above 0 and at most 100, or null for 1 / topics")
        if not 0 <= self.tolerance < math.inf:
            raise ValueError(f"tolerance={self.tolerance}: must be 0 or more")
        if self.stop_words >= self.dataset.facts.vocabulary:
            raise ValueError(f"stop_words={self.stop_words}: the text has {self.dataset.facts.vocabulary} words")

    @property
    def alpha(self) -> float:
        """Prior of every topic's share in a document."""
        return self.document_prior if self.document_prior is not None else 1 / self.topics

    @property
    def eta(self) -> float:
        """Prior of every word's share in a topic."""
        return self.topic_prior if self.topic_prior is not None else 1 / self.topics

    @property
    def words(self) -> int:
        """V: words that count."""
        left: int = self.dataset.facts.vocabulary - self.stop_words
        return left if self.vocabulary is None else min(left, self.vocabulary)

    @property
    def num_parameters(self) -> int:
        """Number of parameters, one per topic and word."""
        return self.topics * self.words

    @property
    def num_samples(self) -> int | None:
        """Number of training documents; None if it depends on the files."""
        known: int | None = self.dataset.num_samples
        return known if known is None or self.train_samples is None else min(known, self.train_samples)

    def prepare(self) -> int:
        """Convert the text once; returns the number of training documents. Raises ``ValueError`` for missing data."""
        found: int = self.dataset.prepare(self.data_dir)
        return found if self.train_samples is None else min(found, self.train_samples)

    def preload(self) -> list[str]:
        """Import nothing beyond what this module imports."""
        return []

    def initial_parameters(self, seed: int) -> NDArray[np.float32]:
        """Near 1, each a little different, so that topics can become so."""
        drawn = np.random.default_rng(seed).gamma(*INITIAL, self.num_parameters)
        return drawn.astype(np.float32)

    @cached_property
    def documents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(training, held out): words by their rank in frequency from 0 on, -1 for those that are left out; [N, L]."""
        split = self.dataset.load(self.data_dir)
        train, test = split.train[0][: self.train_samples], split.test[0][: self.test_samples]
        counts = np.bincount(train.ravel(), minlength=self.dataset.facts.vocabulary)
        ranks = np.empty(len(counts), dtype=np.int64)
        ranks[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
        ranks -= self.stop_words
        ranks[(ranks < 0) | (ranks >= self.words)] = -1
        return ranks[train], ranks[test]

    def numpy_gradient(
        self, params: NDArray[np.float32], indices: NDArray[np.int64], grad: NDArray[np.float32]
    ) -> float:
        """Add the documents' gradients; the loss of a document is minus its bound, per word."""
        return self.numpy_weighted_gradient(params, indices, np.ones(len(indices), dtype=np.float32), grad)

    def numpy_weighted_gradient(
        self,
        params: NDArray[np.float32],
        indices: NDArray[np.int64],
        weights: NDArray[np.float32],
        grad: NDArray[np.float32],
    ) -> float:
        """The same with a weight for every document's gradient; losses have none."""
        train, _ = self.documents
        words, each = train[indices], weights.astype(np.float64)
        lam = self._lam(params)
        step = self._fit(lam, words)
        found = statistics(step, words, each, lam.shape)
        whole = params.astype(np.float64).reshape(lam.shape) - self.eta
        grad += (each.sum() * whole - len(train) * found).ravel().astype(np.float32)
        return float(-(step.bound / np.maximum((words >= 0).sum(axis=1), 1)).sum())

    def numpy_metrics(self, params: NDArray[np.float32]) -> dict[str, float]:
        """The held-out bound on the log-likelihood per word (nats), and the perplexity that it stands for."""
        _, test = self.documents
        lam = self._lam(params)
        parts = [test[at : at + AT_ONCE] for at in range(0, len(test), AT_ONCE)]
        bound = sum(float(self._fit(lam, part).bound.sum()) for part in parts)
        per_word = bound / max(1, int((test >= 0).sum()))
        return {"log_likelihood": per_word, "perplexity": math.exp(min(-per_word, 80.0)), "loss": -per_word}

    def _lam(self, params: NDArray[np.float32]) -> NDArray[np.float64]:
        lam = params.astype(np.float64).reshape(self.topics, self.words)
        return np.maximum(lam, FLOOR_FRAC * self.eta)

    def _fit(self, lam: NDArray[np.float64], words: NDArray[np.int64]) -> EStep:
        return e_step(lam, words, self.alpha, self.iterations, self.tolerance)
