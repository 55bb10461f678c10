"""Documents drawn from known topics (latent Dirichlet allocation): text with a known truth and no download."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from workloads import data
from workloads.data import Split, appearing, load_array
from workloads.datasets.base import About, Dataset, Facts

MIN_SAMPLES = 10


@final
@dataclass(frozen=True, kw_only=True)
class PlantedTopics(Dataset):
    """Inputs int64 [N, length], the words of a document, and targets, the word after each; 10 % more are held out.

    The generative model of Blei, Ng and Jordan (JMLR 2003): every topic is a distribution over the vocabulary from
    Dirichlet(``topic_prior``), every document has shares of the topics from Dirichlet(``document_prior``), every word a
    topic of its own by these shares. ``data_seed`` draws everything and is separate from the job's seed.
    """

    name = "planted_topics"
    about = About(
        what="documents drawn from known topics",
        licence="made here",
        source="nowhere: it is drawn",
        files="nothing",
    )

    from_files = False

    samples: int = 4_000
    length: int = 64
    words: int = 500
    topics: int = 10
    topic_prior: float = 0.05
    document_prior: float = 0.1
    data_seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("samples", MIN_SAMPLES), ("length", 1), ("words", 2), ("topics", 1), ("data_seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least {least}")
        for name in ("topic_prior", "document_prior"):
            if not 0 < getattr(self, name) <= 100:
                raise ValueError(f"{name}={getattr(self, name)}: must be above 0 and at most 100")

    @property
    def num_samples(self) -> int | None:
        return self.samples

    @property
    def facts(self) -> Facts:
        return Facts(input_shape=(self.length,), num_classes=self.words, vocabulary=self.words)

    def variant(self) -> str:
        """All settings, since every one changes the arrays."""
        sizes = f"{self.samples}x{self.length}_words{self.words}_topics{self.topics}"
        return f"_{sizes}_priors{self.topic_prior:g}+{self.document_prior:g}_seed{self.data_seed}"

    def convert(self, raw: Path, directory: Path) -> None:
        """(topics, shares of the held-out documents)."""
        topics = self._stream("topics").dirichlet(np.full(self.words, self.topic_prior), self.topics)
        count = self.samples + max(1, self.samples // 10)
        shares = self._stream("shares").dirichlet(np.full(self.topics, self.document_prior), count)
        text = self._text(topics, shares)
        train, test = slice(self.samples), slice(self.samples, None)
        inputs, targets = text[:, :-1], text[:, 1:]
        split = Split(train=(inputs[train], targets[train]), test=(inputs[test], targets[test]))
        with appearing(directory) as partial:
            data.write(partial, split)
            np.save(partial / "topics.npy", topics)
            np.save(partial / "test_shares.npy", shares[test])

    def truth(self, data_dir: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The topics [topics, words], and the shares of topics in the held-out documents [N, topics]; rows sum to 1."""
        folder = self.directory(data_dir)
        return load_array(folder, "topics"), load_array(folder, "test_shares")

    def _text(self, topics: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.int64]:
        """Words [N, length + 1]: first each word's topic, then the word, by inverting cumulative distributions."""
        rng, size = self._stream("words"), (len(shares), self.length + 1)
        of_topics = _invert(np.cumsum(shares, axis=1), rng.random(size))
        words, chance = np.empty(size, dtype=np.int64), rng.random(size)
        for number, topic in enumerate(np.cumsum(topics, axis=1)):
            own = of_topics == number
            words[own] = _invert(topic[None, :], chance[own][None, :])[0]
        return words

    def _stream(self, purpose: str) -> Any:
        """A generator per purpose, so that streams do not depend on each other."""
        return np.random.default_rng([self.data_seed, *purpose.encode()])


def _invert(cumulative: NDArray[np.float64], chance: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each row the first index whose cumulative probability [N, n] is above each of ``chance`` [N, m]."""
    rows = zip(cumulative, chance, strict=True)
    found = np.array([np.searchsorted(row, values, side="right") for row, values in rows])
    indices: NDArray[np.int64] = np.minimum(found, cumulative.shape[1] - 1)
    return indices
