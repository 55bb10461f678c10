"""Clicks drawn from a known factorisation machine: samples in Criteo's format with a known best possible AUC.

The log-odds of a click are (Rendle, ICDM 2010, equation 1, over fields instead of pairs of the same kind)

    bias + sum_k u_k x_k + sum_f w_f[id_f] + sum_{f < g} <v_f[id_f], v_g[id_g]>

where x are logarithms of log-normal counts and ids follow Zipf's law, as in practice. A purely additive model (linear,
"wide") cannot reach the AUC of one that multiplies fields, since half of the variance is in the products.
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
MAX_FIELDS = 10_000
ZIPF = 1.1
LOG_COUNT = (1.0, 1.0)
"""Mean and standard deviation of log(count)."""
MEAN_LOG_ODDS = -1.5
"""Bias that gives clicks for slightly more than one sample in four (Criteo's data: 25.6 %)."""


class Machine(NamedTuple):
    """The true model: ``dense`` [num_dense], ``single`` [fields, buckets], ``factors`` [fields, buckets, rank]."""

    bias: float
    dense: NDArray[np.float64]
    single: NDArray[np.float64]
    factors: NDArray[np.float64]

    def log_odds(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Log-odds of a click, float64 [N], for stored inputs [N, num_dense + fields]."""
        numbers, ids = inputs[:, : len(self.dense)], inputs[:, len(self.dense) :].astype(np.int64)
        fields = np.arange(ids.shape[1])
        vectors = self.factors[fields, ids]
        crossed = (vectors.sum(axis=1) ** 2 - (vectors**2).sum(axis=1)).sum(axis=1) / 2
        odds: NDArray[np.float64] = numbers @ self.dense + self.single[fields, ids].sum(axis=1) + crossed
        return self.bias + odds


@final
@dataclass(frozen=True, kw_only=True)
class Planted(Dataset):
    """Inputs float32 [N, num_dense + num_fields], targets float32 [N] (1: clicked); 10 % more samples are held out.

    ``spread`` is the standard deviation of the log-odds; half of the variance is due to the products. ``data_seed``
    draws the true model and the samples; it is separate from the job's seed, so that runs with several seeds learn the
    same.
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
        for name, most in (("buckets", 2**24), ("num_dense", MAX_FIELDS), ("num_fields", MAX_FIELDS)):
            if getattr(self, name) > most:
                raise ValueError(f"{name}={getattr(self, name)}: must be at most {most}")
        if not 0 < self.spread < 10:
            raise ValueError(f"spread={self.spread}: must be above 0 and below 10")
        if self.data_seed < 0:
            raise ValueError(f"data_seed={self.data_seed}: must be 0 or more")

    @property
    def num_samples(self) -> int | None:
        return self.samples

    @property
    def facts(self) -> Facts:
        return Facts(
            input_shape=(self.num_dense + self.num_fields,),
            num_dense=self.num_dense,
            cardinalities=(self.buckets,) * self.num_fields,
        )

    def variant(self) -> str:
        """All settings, since every one changes the arrays."""
        sizes = f"{self.samples}x{self.num_dense}+{self.num_fields}x{self.buckets}x{self.rank}"
        return f"_{sizes}_spread{self.spread:g}_seed{self.data_seed}"

    def convert(self, raw: Path, directory: Path) -> None:
        """(samples, true probabilities of the held-out ones)."""
        inputs = self._inputs()
        chance = 1 / (1 + np.exp(-self.truth(inputs).log_odds(inputs)))
        clicked = (self._stream("labels").random(len(chance)) < chance).astype(np.float32)
        train, test = slice(self.samples), slice(self.samples, None)
        split = Split(train=(inputs[train], clicked[train]), test=(inputs[test], clicked[test]))
        with appearing(directory) as partial:
            data.write(partial, split)
            np.save(partial / "test_probabilities.npy", chance[test])

    def best_auc(self, data_dir: str) -> float:
        """The expected AUC of the true model on the held-out samples (Bayes)."""
        return expected_auc(load_array(self.directory(data_dir), "test_probabilities"))

    def truth(self, inputs: NDArray[np.float32]) -> Machine:
        """The true model, scaled so that the log-odds have the intended mean and spread over ``inputs``."""
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
        """Training samples, followed by the held-out ones."""
        rng, count = self._stream("inputs"), self.samples + self.samples // 10
        counts = np.floor(rng.lognormal(*LOG_COUNT, (count, self.num_dense)))
        frequency = 1 / np.arange(1, self.buckets + 1) ** ZIPF
        limits = np.cumsum(frequency) / frequency.sum()
        ids = np.minimum(np.searchsorted(limits, rng.random((count, self.num_fields))), self.buckets - 1)
        return np.concatenate([np.log1p(counts), ids], axis=1).astype(np.float32)

    def _stream(self, purpose: str) -> Any:
        """A generator per purpose, so that streams do not depend on each other."""
        return np.random.default_rng([self.data_seed, *purpose.encode()])
