"""Tables of models: which cost model, device and size the jobs have that name a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from reading.errors import shown
from runtime.config.checking import convert, refuse_nonfinite, suggest
from runtime.config.foreign import refuse_elsewhere
from runtime.errors import ConfigError
from runtime.fitted import ROOT, Kind

KIND = Kind("table of models", "replay.models", "an editor", "models", ROOT / "models")


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of jobs that name this model."""

    costs: str
    """A cost model, as in ``cluster.costs``."""
    cost_changes: dict[str, float] = {}
    """As in ``cluster.cost_changes``, which take precedence."""
    device: dict[str, float] | None = None
    """As in ``cluster.device``."""
    num_parameters: Annotated[int, Meta(ge=0)]
    batch_samples: Annotated[int, Meta(ge=1)]
    """Samples in a batch of one worker."""


class ModelFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a file ``runtime/fitted/models/*.yaml``."""

    schema: Literal[1]
    models: dict[str, Model]


class Models:
    """A table of models; ``name`` is a file of ``runtime/fitted/models/`` or a path, None: an empty table.

    ``start``: the directory in which the user started. Raises :class:`ConfigError` for a file that is missing or
    invalid, or names cost models elsewhere.
    """

    def __init__(self, name: str | None, start: Path) -> None:
        self.name = name
        self._models: dict[str, Model] = {}
        if name is not None:
            raw = KIND.parse(KIND.read(name), name)
            try:
                refuse_nonfinite(raw)
                file: ModelFile = convert(raw, ModelFile, "")
                for model, one in file.models.items():
                    label = f"models.{shown(model)}.costs={shown(one.costs)}"
                    refuse_elsewhere(one.costs, start, label, beside=KIND.path_of(name).parent)
            except ConfigError as error:
                raise ConfigError(f"{KIND.setting}={name}: {error}") from None
            self._models = file.models

    def find(self, model: str) -> Model | None:
        """The entry of a model; None: jobs that name none, or all where there is no table, are as the run's settings.

        Raises :class:`ConfigError` for an unknown name.
        """
        if not model or self.name is None:
            return None
        if model not in self._models:
            raise ConfigError(
                f"model={model}: {KIND.setting}={self.name} has none of this name{suggest(model, self._models)}; "
                f"add it, or set {KIND.setting}=null for one model for all"
            )
        return self._models[model]
