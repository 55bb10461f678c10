"""The training data of STAR-ML: the newest rows of costed decisions and measured modes (pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from predictors.history import Floats
from predictors.network import Network
from predictors.ridge import Ridge
from strategies.star.features import Rows

Model = Network | Ridge
"""Models that learn from rows in slices."""
ESTIMATED, MEASURED = 0.25, 1.0
"""Weights of STAR-H's estimates and of measured times."""
CLOSE, LEAST_WEIGHT = 0.1, 0.02
"""Logarithm of the disadvantage at which a mode counts e times less, and what is left of those far behind."""
HELD_OUT_FRAC = 0.2
"""Part of the decisions, the newest, of which nothing is learnt: by them the model is judged."""


class Costed(NamedTuple):
    """One decision, or one measured mode: its rows, the logarithms of the estimates' errors, and weights."""

    features: Floats
    targets: Floats
    log_s: Floats
    weights: Floats
    measured: bool = False


class LearningRows(NamedTuple):
    """Features, float [rows, features]; targets and weights, float [rows]."""

    features: Floats
    targets: Floats
    weights: Floats


def sample_of_rows(rows: Rows, seconds: Sequence[float], *, measured: bool) -> Costed:
    """A sample of modes with these rows and seconds per unit of progress: STAR-H's estimates or measured ones.

    A mode counts the less, the worse it is than the best of them: how bad the bad ones are changes no decision.
    """
    log_s = np.log(np.array(seconds))
    weight = MEASURED if measured else ESTIMATED
    weights = weight * (LEAST_WEIGHT + np.exp(-(log_s - log_s.min()) / CLOSE))
    return Costed(rows.features, log_s - rows.log_s, rows.log_s, weights, measured=measured)


@final
class SampleBuffer:
    """The newest ``most`` rows, in whole decisions."""

    def __init__(self, most: int) -> None:
        self.most, self.rows = most, 0
        self._decisions = deque[Costed]()

    @property
    def decisions(self) -> int:
        """How many there are, measured modes included."""
        return len(self._decisions)

    def add(self, costed: Costed) -> None:
        """Add a decision; the oldest leave while there are too many rows."""
        self._decisions.append(costed)
        self.rows += len(costed.targets)
        while self.rows > self.most and len(self._decisions) > 1:
            self.rows -= len(self._decisions.popleft().targets)

    def split(self) -> tuple[LearningRows, list[Costed]]:
        """(rows to learn from, the decisions that are held out), of two decisions or more."""
        held_out = max(1, round(HELD_OUT_FRAC * len(self._decisions)))
        decisions = list(self._decisions)
        return learning_rows(decisions[:-held_out]), [one for one in decisions[-held_out:] if not one.measured]


def learning_rows(decisions: Sequence[Costed]) -> LearningRows:
    """All rows of these decisions."""
    return LearningRows(
        np.concatenate([one.features for one in decisions]),
        np.concatenate([one.targets for one in decisions]),
        np.concatenate([one.weights for one in decisions]),
    )


def regret_of(costed: Costed, corrections: Floats) -> float:
    """How much longer the mode with the least corrected estimate takes than the best one, as a fraction of that."""
    log_s = costed.log_s + costed.targets
    chosen = int(np.argmin(costed.log_s + corrections))
    return float(np.exp(log_s[chosen] - log_s.min()) - 1.0)
