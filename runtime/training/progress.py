"""The progress model: estimates from its updates what a job without gradients (``backend=none``) would have learned.

An update of B samples at learning rate ``scale * lr``, for a model fitted at ``lr``, makes the progress

    scale / (1 + scale * phi / B)

and the held-out metric is a monotone function of the sum. At scale 1 this is the statistical efficiency 1 / (1 + phi/B)
of McCandlish et al. 2018, Pollux (OSDI'21) and STAR; phi is the noise scale in samples. The learning rate enters such
that only its ratio to the batch size decides how much noise costs (Smith and Le, ICLR 2018): an update split into n
updates with 1/n of the samples and of the rate makes the same progress, as the ``batch_linear`` rule intends. So phi
belongs to its rate: it is the gradient noise scale if the rate is as high as a noiseless gradient allows, else smaller.

Not modelled:

* Staleness. A late gradient counts as much as a fresh one, so asynchronous jobs look better than they are.
* A learning rate that is too high. Training never diverges; progress increases with the rate up to B / phi.
* The gain from a decaying rate at the end: decay slows progress and cannot lift the metric above the curve.
* Noise. The metric is the average run's, and stays at the curve's last value after its end.
* Other optimizers, models and data than in the fitted runs: each needs a fit of its own.

Models are small YAML files in ``runtime/fitted/progress/`` (or anywhere); ``scripts/fitting/fit_progress.py`` writes
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, final

import msgspec
import numpy as np
from msgspec import Meta

from runtime.config.checking import convert, refuse_nonfinite
from runtime.errors import ConfigError
from runtime.fitted import ROOT, Kind

SCHEMA = 1
DIRECTORY = ROOT / "progress"
KIND = Kind("progress model", "backend.progress", "scripts/fitting/fit_progress.py", "points", DIRECTORY)

NonNegative = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
RESERVED = ("", "t", "asked_s", "version")
"""Columns of the evaluations table (``docs/record.md``), which cannot be names of metrics."""


class Covered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Smallest and largest value in the updates that a model was fitted to; outside, it extrapolates."""

    batch_samples: tuple[int, int]
    lr: tuple[float, float]


class ProgressModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A progress file. Build it with :func:`load_progress` or :func:`parse_progress`, which check it."""

    schema: Literal[1]
    workload: str | None = None
    """Name of the only workload that the model applies to; None: any."""
    metric: str
    lr: Positive
    """The learning rate at scale 1."""
    phi_samples: NonNegative | tuple[tuple[NonNegative, NonNegative], ...]
    """Noise scale at ``lr``: a constant, or (progress, phi) points interpolated linearly, as it grows in training."""
    points: tuple[tuple[NonNegative, float], ...]
    """(progress, value of the metric) points, interpolated linearly."""
    errors: dict[str, float] = {}
    """Its error for batch sizes that were left out of the fit."""
    covered: Covered | None = None
    runs: tuple[str, ...] = ()
    """Records that the model was fitted to."""

    def check(self, workload: str, metric: str) -> None:
        """Raise :class:`ConfigError` if the model is of another workload or metric."""
        if self.workload not in (None, workload):
            raise ConfigError(f"backend.progress: is a model of workload={self.workload}, not of {workload}")
        if self.metric != metric:
            raise ConfigError(f"backend.progress: is a model of the metric {self.metric}, not of {metric}")


@final
class Progress:
    """The sum of one job's updates, and the metric that follows from it (equations: see the module)."""

    def __init__(self, model: ProgressModel) -> None:
        self.model = model
        self.progress = 0.0
        self._points = np.array(model.points, dtype=np.float64)
        phi = model.phi_samples
        self._constant = phi if isinstance(phi, float | int) else None
        self._phi = np.array([[0.0, phi]] if isinstance(phi, float | int) else phi, dtype=np.float64)

    @property
    def phi_samples(self) -> float:
        """The current noise scale, at the model's learning rate."""
        return self._constant if self._constant is not None else _interpolate(self.progress, self._phi)

    def update(self, samples: int, lr_scale: float = 1.0) -> None:
        """Add one update of ``samples``; ``lr_scale`` is its learning rate divided by the model's ``lr``.

        Raises ``ValueError`` for less than one sample or a negative rate.
        """
        if samples < 1 or not lr_scale >= 0:
            raise ValueError(f"samples={samples}, lr_scale={lr_scale}: must be at least 1 and at least 0")
        self.progress += lr_scale * samples / (samples + lr_scale * self.phi_samples)

    def metrics(self) -> dict[str, float]:
        """The estimated held-out metric, by its name."""
        return {self.model.metric: _interpolate(self.progress, self._points)}

    def state(self) -> dict[str, float]:
        """The state that a checkpoint stores."""
        return {"progress": self.progress}

    def load_state(self, state: Mapping[str, float]) -> None:
        """Restore the progress from a :meth:`state`; raises ``ValueError`` for anything else."""
        if set(state) != {"progress"} or not 0 <= state["progress"] < float("inf"):
            raise ValueError(f"progress state: {dict(state)} must be one number, progress, of at least 0")
        self.progress = float(state["progress"])


def load_progress(name: str, directory: Path = DIRECTORY) -> ProgressModel:
    """The model ``name``: a file of ``runtime/fitted/progress/`` without its ending, or a path ending in ``.yaml``.

    Raises :class:`ConfigError` with one line for a file that is missing, not a progress model, or out of range.
    """
    return parse_progress(KIND._replace(directory=directory).read(name), name)


def parse_progress(data: bytes, name: str = "progress") -> ProgressModel:
    """Parse the text of such a file; raises :class:`ConfigError`."""
    raw = KIND.parse(data, name)
    try:
        return _build(raw)
    except ConfigError as error:
        raise ConfigError(f"{KIND.setting}={name}: {error}") from None


def _build(raw: Mapping[Any, Any]) -> ProgressModel:
    if raw.get("schema") != SCHEMA:
        raise ConfigError(f"schema={raw.get('schema')}: must be {SCHEMA}; use the version of Stragglab that wrote it")
    refuse_nonfinite(raw)
    model: ProgressModel = convert(raw, ProgressModel, "")
    if model.metric in RESERVED:
        raise ConfigError(f"metric={model.metric}: must be a name, and not {', '.join(RESERVED[1:])}")
    if len(model.points) < 2:
        raise ConfigError("points: must be two or more pairs of progress and value")
    _check_rising("points", model.points)
    if isinstance(model.phi_samples, tuple):
        if not model.phi_samples:
            raise ConfigError("phi_samples: must be a number, or pairs of progress and noise scale")
        _check_rising("phi_samples", model.phi_samples)
    values = [value for _, value in model.points]
    if values not in (sorted(values), sorted(values, reverse=True)):
        raise ConfigError("points: the value must only rise or only fall as progress grows")
    return model


def _check_rising(name: str, pairs: tuple[tuple[float, float], ...]) -> None:
    for (before, _), (after, _) in pairwise(pairs):
        if after <= before:
            raise ConfigError(f"{name}: progress {after:g} after {before:g}; it must strictly rise")


def _interpolate(progress: float, pairs: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Linear interpolation between the rows of ``pairs``, float64 [n, 2]; constant outside."""
    return float(np.interp(progress, pairs[:, 0], pairs[:, 1]))
