"""Clicks drawn from a factorisation machine that is known: samples in Criteo's form for which the best AUC is known.

The log-odds of a click are (Rendle, ICDM 2010, equation 1, over fields instead of pairs of equal kind)

    bias + sum_k u_k x_k + sum_f w_f[id_f] + sum_{f < g} <v_f[id_f], v_g[id_g]>

with x the logarithms of log-normal counts and ids that follow Zipf's law, as they look in practice. A model of sums
alone (linear, "wide") cannot reach the AUC of one that multiplies fields, since half of the variance lies in the
products.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from workloads import data
from workloads.data import Split, appearing, load_array
from workloads.datasets.base import About, Dataset, Facts
from workloads.metrics import expected_auc

MIN_SAMPLES = 100
ZIPF = 1.1
LOG_COUNT = (1.0, 1.0)
"""Mean and deviation of log(count)."""
MEAN_LOG_ODDS = -1.5
"""Clicks for somewhat more than one in four (Criteo's data: 25.6 %)."""


class Machine(NamedTuple):
    """The truth: ``dense`` [num_dense], ``single`` [fields, buckets], ``factors`` [fields, buckets, rank]."""

    bias: float
    dense: NDArray[np.float64]
    single: NDArray[np.float64]
    factors: NDArray[np.float64]

    def log_odds(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Of a click, float64 [N], for inputs [N, num_dense + fields] as they are stored."""
        numbers, ids = inputs[:, : len(self.dense)], inputs[:, len(self.dense) :].astype(np.int64)
        fields = np.arange(ids.shape[1])
        vectors = self.factors[fields, ids]
        crossed = (vectors.sum(axis=1) ** 2 - (vectors**2).sum(axis=1)).sum(axis=1) / 2
        odds: NDArray[np.float64] = numbers @ self.dense + self.single[fields, ids].sum(axis=1) + crossed
        return self.bias + odds


@final
@dataclass(frozen=True, kw_only=True)
class Planted(Dataset):
    """Inputs float32 [N, num_dense + num_fields], targets float32 [N] (1: clicked); one sample in ten more is held out.

    ``spread`` is the deviation of the log-odds, one half of its square from the products. ``data_seed`` draws the truth
    and the samples; it is apart from the job's seed, so that runs with several seeds learn the same.
    """

    name = "planted"
    about = About(
        what="clicks drawn from a known factorisation machine, in Criteo's form",
        licence="made here",
        source="nowhere: it is drawn",
        files="nothing",
    )

    from_files = False

    samples: int = 100_000
    num_dense: int = 13
    num_fields: int = 26
    buckets: int = 100
    rank: int = 4
    spread: float = 2.0
    data_seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("num_dense", 1), ("num_fields", 2), ("buckets", 2), ("rank", 1), ("samples", MIN_SAMPLES)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least {least}")
        if self.buckets > 2**24:
            raise ValueError(f"buckets={self.buckets}: must be at most {2**24}")
        if not 0 < self.spread < 10:
            raise ValueError(f"spread={self.spread}: must be above 0 and below 10")
        if self.data_seed < 0:
            raise ValueError(f"data_seed={self.data_seed}: must be 0 or more")

    @property
    def num_samples(self) -> int | None:
        """As asked for."""
        return self.samples

    @property
    def facts(self) -> Facts:
        """As Criteo's."""
        return Facts(
            input_shape=(self.num_dense + self.num_fields,),
            num_dense=self.num_dense,
            cardinalities=(self.buckets,) * self.num_fields,
        )

    def variant(self) -> str:
        """Everything changes the arrays."""
        sizes = f"{self.samples}x{self.num_dense}+{self.num_fields}x{self.buckets}x{self.rank}"
        return f"_{sizes}_spread{self.spread:g}_seed{self.data_seed}"

    def convert(self, raw: Path, directory: Path) -> None:
        """The samples, and the true probabilities of the held-out ones."""
        inputs = self._inputs()
        chance = 1 / (1 + np.exp(-self.truth(inputs).log_odds(inputs)))
        clicked = (self._stream("labels").random(len(chance)) < chance).astype(np.float32)
        train, test = slice(self.samples), slice(self.samples, None)
        split = Split(train=(inputs[train], clicked[train]), test=(inputs[test], clicked[test]))
        with appearing(directory) as partial:
            data.write(partial, split)
            np.save(partial / "test_probabilities.npy", chance[test])

    def best_auc(self, data_dir: str) -> float:
        """What the truth itself is expected to score on the held-out samples (Bayes)."""
        return expected_auc(load_array(self.directory(data_dir), "test_probabilities"))

    def truth(self, inputs: NDArray[np.float32]) -> Machine:
        """The machine, scaled so that the log-odds have their mean and spread over ``inputs``."""
        rng = self._stream("truth")
        dense = rng.standard_normal(self.num_dense)
        single = rng.standard_normal((self.num_fields, self.buckets))
        factors = rng.standard_normal((self.num_fields, self.buckets, self.rank))
        inputs = inputs[: 100 * MIN_SAMPLES]
        linear = Machine(0.0, dense, single, np.zeros_like(factors)).log_odds(inputs).std()
        crossed = Machine(0.0, np.zeros_like(dense), np.zeros_like(single), factors).log_odds(inputs).std()
        each = self.spread / np.sqrt(2)
        scaled = Machine(0.0, dense * each / linear, single * each / linear, factors * np.sqrt(each / crossed))
        return scaled._replace(bias=MEAN_LOG_ODDS - float(scaled.log_odds(inputs).mean()))

    def _inputs(self) -> NDArray[np.float32]:
        """Training samples, then the held-out ones."""
        rng, count = self._stream("inputs"), self.samples + self.samples // 10
        counts = np.floor(rng.lognormal(*LOG_COUNT, (count, self.num_dense)))
        frequency = 1 / np.arange(1, self.buckets + 1) ** ZIPF
        limits = np.cumsum(frequency) / frequency.sum()
        ids = np.minimum(np.searchsorted(limits, rng.random((count, self.num_fields))), self.buckets - 1)
        return np.concatenate([np.log1p(counts), ids], axis=1).astype(np.float32)

    def _stream(self, purpose: str) -> Any:
        """Streams for different purposes do not depend on each other."""
        return np.random.default_rng([self.data_seed, *purpose.encode()])
