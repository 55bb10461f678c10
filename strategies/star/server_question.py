"""A decision about the modes of parameter servers, as STAR-ML is asked it (section IV-C2; pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from strategies.star.choice import Choice, Groups, to_places
from strategies.star.features import rows_of
from strategies.star.modal import Mode
from strategies.star.samples import Costed, Model, sample_of_rows


class Question(NamedTuple):
    """A question to decide: the arguments of :meth:`strategies.star.choice.Choice.price_modes`."""

    workers: tuple[int, ...]
    times_s: tuple[float, ...]
    groups: Groups
    batch_samples: float
    phi_samples: float
    present: Mode


@final
@dataclass(frozen=True)
class ServerQuestion:
    """The question, whose modes STAR-H and a model can cost; ``choice`` has the candidates and STAR-H's costs."""

    choice: Choice
    question: Question

    @property
    def num_workers(self) -> int:
        return len(self.question.workers)

    @property
    def phi_samples(self) -> float:
        return self.question.phi_samples

    def by_rule(self) -> dict[Mode, float]:
        """Seconds per unit of progress of all modes by equations 1 and 2, the best first."""
        return self.choice.price_modes(*self.question)

    def by_model(self, model: Model, max_workers: int) -> dict[Mode, float]:
        """The same by a model that corrects estimates, with room for so many workers."""
        _, times_s, _, batch, phi, _ = self.question

        def price(
            sizes: Sequence[int], groupings: Sequence[Sequence[Sequence[int]]]
        ) -> tuple[dict[int, float], list[float]]:
            rows = rows_of(times_s, batch, phi, self.choice.costs, max_workers, sizes, groupings)
            seconds = np.exp(rows.log_s + model.predict(rows.features)).tolist()
            return dict(zip(sizes, seconds, strict=False)), seconds[len(sizes) :]

        return self.choice.price_modes(*self.question, by=price)

    def one_s(self, mode: Mode) -> float:
        """Seconds per unit of progress of one mode by equation 1 or 2."""
        workers, times_s, _, batch, phi, _ = self.question
        if mode.groups is None:
            x = min(mode.x or len(workers), len(workers))
            return self.choice.costs.static_s(times_s, batch, phi, [x])[x]
        place = {worker: index for index, worker in enumerate(workers)}
        return self.choice.costs.dynamic_s(times_s, to_places(mode.groups, place), batch, phi)

    def cost_sample(self, mode_s: Mapping[Mode, float], max_workers: int, *, measured: bool) -> Costed:
        """Rows of modes and what they cost: static x-order by x, then the others."""
        workers, times_s, _, batch, phi, _ = self.question
        count = len(workers)
        place = {worker: index for index, worker in enumerate(workers)}
        sized = sorted((min(mode.x or count, count), mode) for mode in mode_s if mode.groups is None)
        grouped = [mode for mode in mode_s if mode.groups is not None]
        rows = rows_of(
            times_s,
            batch,
            phi,
            self.choice.costs,
            max_workers,
            sizes=[x for x, _ in sized],
            groupings=[to_places(mode.groups or (), place) for mode in grouped],
        )
        seconds = [mode_s[mode] for _, mode in sized] + [mode_s[mode] for mode in grouped]
        return sample_of_rows(rows, seconds, measured=measured)
