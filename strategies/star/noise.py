"""The gradient noise scale: measured while a job trains, as a number, or from a table that was profiled (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import msgspec

from predictors.fitted_file import known_as
from predictors.noise_scale import OnlineNoise, noise_terms
from predictors.noise_table import NoiseTable, read_table
from reading.ranges import Checked, NonNegativeFloat, PositiveFrac, PositiveInt, check_settings
from strategies.parts.hooks import Order
from strategies.protocol import AnyCommand, AnyEvent, Apply, Arrived, Drop, Grad, Measured, Ready, Restored, Started


@final
@dataclass(kw_only=True)
class FixedNoise(Checked):
    """One noise scale for the whole job and all sizes of updates.

    Attributes:
        phi: the noise scale in samples: with updates of so many samples half of each is signal.
    """

    phi: NonNegativeFloat = 300.0

    def observe_event(self, event: AnyEvent) -> None:
        """Learn nothing: the number is given."""

    def phi_of(self, batch_samples: float) -> tuple[float, float]:
        return self.phi, 0.0


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
        self._trained.append(self._trained[-1] + sum(grad.samples for grad in grads))
        self._table.at(self._trained[-1] // self._global_batch)

    def phi_of(self, batch_samples: float) -> tuple[float, float]:
        return self._table.phi_of(batch_samples)


SAME = 1e-9
"""Relative difference of weights that is rounding."""


@final
@dataclass(kw_only=True)
class NoiseMeter:
    """Has every ``every_updates``-th update measured that can be used, and averages what comes back.

    STAR's PGNS (section IV-C), by the estimator of AdaptDL. An update can be used if it is the mean over two or more
    gradients of the same version, whose norms workers have reported (of those in a sum: when they were ready): rounds,
    groups, not asynchronous updates. AdaptDL measures every update; averages fade with measured ones only, so here they
    go ``every_updates`` times as far back. Between measurements the last phi stands, with its age
    (:class:`strategies.parts.monitoring.base.MeasuresNoise`).

    Attributes:
        every_updates: updates from one measurement to the next; between them nothing is measured.
        smoothing: see :class:`predictors.noise_scale.OnlineNoise`.
    """

    every_updates: PositiveInt = 10
    smoothing: PositiveFrac = 0.999
    measures: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self)
        self._reset(1.0)

    def _reset(self, batch_samples: float) -> None:
        self.noise = OnlineNoise(smoothing=self.smoothing, batch_samples=batch_samples)
        self._ready: dict[int, Ready] = {}
        """The last of every worker."""
        self._fresh: dict[int, Sequence[Arrived | Ready]] = {}
        """Gradients that may be applied, by id: one alone, or those in a sum."""
        self._waiting: dict[int, list[Arrived | Ready]] = {}
        """Gradients of the updates that are being measured, by the version that they resulted in."""
        self._version, self._since = 0, self.every_updates

    def start(self, started: Started) -> None:
        self._reset(sum(started.batch_samples) / len(started.batch_samples))

    def observe_event(self, event: AnyEvent) -> None:
        """Keep the norms of gradients that may be applied, and use a measurement."""
        match event:
            case Ready():
                self._ready[event.grad.worker] = event
            case Arrived(grad=grad):
                known = {ready.grad.id: ready for ready in self._ready.values()} if grad.members else {}
                self._fresh[grad.id] = [known[member] for member in grad.members] or [event]
            case Measured(version=version, sqr_norm=sqr_norm):
                self._use_measurement(version, sqr_norm)
            case Restored(version=version):
                self._ready.clear()
                self._fresh.clear()
                self._waiting.clear()
                self._version = version
                self.noise.at(version)

    def _use_measurement(self, version: int, sqr_norm: float) -> None:
        used = self._waiting.pop(version, [])
        if used:
            samples = [one.grad.samples for one in used]
            norms = [one.sqr_norm or 0.0 for one in used]
            self.noise.update(version, sum(samples), noise_terms(samples, norms, sqr_norm))

    def settle(self, event: AnyEvent, commands: list[AnyCommand], order: Order) -> list[AnyCommand]:
        """The same commands; an update whose turn it is, is measured."""
        settled = [self._measure_if_due(command) if isinstance(command, Apply) else command for command in commands]
        for command in commands:
            if isinstance(command, Drop):
                for grad in command.grads:
                    self._fresh.pop(grad, None)
        return settled

    def _measure_if_due(self, command: Apply) -> Apply:
        used = [one for grad in command.grads for one in self._fresh.pop(grad, ())]
        self._version += 1
        self._since += 1
        self.noise.at(self._version)
        if self._since < self.every_updates:
            return command
        if not _is_usable(command, used):
            self.noise.skip()
            return command
        self._since = 0
        self._waiting[self._version] = used
        return msgspec.structs.replace(command, measure=True)

    def phi_of(self, batch_samples: float) -> tuple[float, float] | None:
        return self.noise.phi_of(batch_samples)

    def log_state(self) -> dict[str, float | int | str]:
        terms, phi = self.noise.terms, self.noise.phi_of(0.0)
        if terms is None or phi is None:
            return {}
        return {
            "noise_scale_samples": phi[0],
            "noise_scale_age_updates": phi[1],
            "grad_sqr": terms.sqr,
            "grad_var": terms.var,
            "noise_skipped": self.noise.skipped,
        }


def _is_usable(command: Apply, used: list[Arrived | Ready]) -> bool:
    """Whether the update is the mean over two or more gradients of one version, all with known norms."""
    if len(used) < max(2, len(command.grads)) or any(one.sqr_norm is None for one in used):
        return False
    if len({one.grad.version for one in used}) > 1 or used[0].grad.round is not None:
        return False
    samples = sum(one.grad.samples for one in used)
    return all(abs(weight * samples - 1.0) <= SAME for weight in command.weights)
