"""The gradient noise scale from a table that was profiled before, by how far a job has trained (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

from predictors.fitted_file import known_as
from predictors.noise_table import NoiseTable, read_table
from strategies.protocol import AnyEvent, Grad, Restored, Started


@final
@dataclass(kw_only=True)
class TabledNoise:
    """STAR's table of PGNS values (section IV-C): phi of the newest profiled step that the job has reached.

    A step of the table is an update of the global batch, so smaller updates count as parts of one.

    Attributes:
        phi_table: a file of scripts/fitting/profile_noise.py, read once.
        phi_model: which of its models, a workload's name.
    """

    phi_table: str
    phi_model: str

    def __post_init__(self) -> None:
        try:
            rows = read_table(self.phi_table)
        except ValueError as error:
            raise ValueError(f"phi_table={error}") from None
        place = Path(self.phi_table)
        self.fitted = (known_as(place, place.read_bytes()),)
        try:
            self._table = NoiseTable(rows=rows, model=self.phi_model)
        except ValueError as error:
            raise ValueError(f"phi_{error}") from None

    def start(self, started: Started) -> None:
        self._global_batch = sum(started.batch_samples)
        self._trained = [0]
        """Samples that were applied, by version."""
        self._table.at(0)

    def observe_event(self, event: AnyEvent) -> None:
        """After a rollback the job is at an earlier step."""
        if isinstance(event, Restored):
            del self._trained[event.version + 1 :]
            self._table.at(self._trained[-1] // self._global_batch)

    def applied(self, grads: tuple[Grad, ...]) -> None:
        """Move on by the samples of one more update."""
        self._trained.append(self._trained[-1] + sum(grad.samples for grad in grads))
        self._table.at(self._trained[-1] // self._global_batch)

    def phi_of(self, batch_samples: float) -> tuple[float, float]:
        """(phi in samples, steps since the row that it is from)."""
        return self._table.phi_of(batch_samples)
