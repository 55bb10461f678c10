"""Gradient coding: every update is the full gradient, whichever s workers are late or dead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from strategies.checks import check_choice, check_number, check_whole
from strategies.coding import SCHEMES
from strategies.coding.crew import Crew, Recipe
from strategies.coding.decoding import RESIDUAL
from strategies.coding.schemes import ONE_PART_EACH
from strategies.gated import GatedStrategy
from strategies.gates import AllGate, Gate
from strategies.load.allocation import split_min_max
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Apply,
    Arrived,
    Command,
    Compute,
    Drop,
    Failed,
    Grad,
    Joined,
    Lost,
    Partition,
    Restored,
    Started,
    Stop,
)
from strategies.watching.throughputs import Throughputs, largest_change

PATIENCE = 5
"""Times ``estimate_iters`` rounds in which everybody should have been measured."""


@final
@dataclass(kw_only=True)
class GradientCoding(GatedStrategy):
    """A round of the global batch is cut into k parts, each computed by s + 1 workers; each sends one weighted sum.

    Sources: Tandon et al., "Gradient coding", ICML 2017 (``fractional_repetition``, ``cyclic``); Wang et al.,
    "Heterogeneity-aware gradient coding for straggler tolerance", ICDCS 2019 (``heter_aware``, ``group_based``;
    ``naive`` is their baseline). The mathematics is in :mod:`strategies.coding`. An update is made as soon as those who
    have delivered suffice: a complete group, or all but s workers. Who is late is not interrupted; its row is dropped
    when it comes, and it goes on with the round of now. With s = 0 nothing is coded: BSP, each worker with its own
    samples.

    Departures. A code is built for those who are there: when more than s have left for good, or a newcomer waits, the
    next code is for those who are here, with the largest s that it can have; a round that can no longer be decoded
    begins again with the same samples. Throughputs that are not given are measured (the paper samples them beforehand).

    Attributes:
        scheme: ``naive``, ``fractional_repetition``, ``cyclic``, ``heter_aware`` or ``group_based``.
        s: stragglers that are tolerated.
        k: parts of a round (``heter_aware``, ``group_based``); None: what makes the shares whole, else 4 per worker.
        throughputs: of each worker, in any unit; None: equal at first, then measured.
        estimate_iters: iterations of each worker that a measurement takes; 0: never measured.
        rebuild_frac: a new code is built when a worker's share of all throughput changed by more than this part of it.
        draws: random matrices of which the one with the least amplification of rounding errors is taken.
        max_amplification: a code that amplifies more is refused.
        prune: which groups are kept, ``packing`` or ``paper`` (``group_based``).
        eager: also try those who have delivered when they are fewer than all but s.
        code_seed: of the random matrices.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Compute, Partition, Apply, Drop})

    scheme: str = "heter_aware"
    s: int = 1
    k: int | None = None
    throughputs: list[float] | None = None
    estimate_iters: int = 10
    rebuild_frac: float = 0.2
    draws: int = 50
    max_amplification: float = 500.0
    prune: str = "packing"
    eager: bool = False
    code_seed: int = 0

    def __post_init__(self) -> None:
        """Check the fields."""
        check_choice("scheme", self.scheme, *SCHEMES)
        check_whole("s", self.s)
        if self.k is not None:
            check_whole("k", self.k, least=1)
        self._check_throughputs()
        check_whole("estimate_iters", self.estimate_iters)
        check_number("rebuild_frac", self.rebuild_frac, above=0.0)
        check_whole("draws", self.draws, least=1)
        check_number("max_amplification", self.max_amplification, least=1.0)
        check_choice("prune", self.prune, "packing", "paper")
        check_whole("code_seed", self.code_seed)
        if not isinstance(self.eager, bool):
            raise ValueError(f"eager={self.eager}: must be true or false")

    def validate(self, num_workers: int) -> None:
        """The code for all of them can be built."""
        if self.throughputs is not None and len(self.throughputs) != num_workers:
            raise ValueError(
                f"throughputs={self.throughputs}: must be one number for each of the {num_workers} workers, or null"
            )
        self._recipe(None).rated(self.throughputs or [1.0] * num_workers, self.s)

    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        """No part is empty in a whole round; parts that are not asked for become fewer."""
        least = num_workers if self.scheme in ONE_PART_EACH else self.k or 1
        if least > global_batch_samples:
            name, value = ("scheme", self.scheme) if self.scheme in ONE_PART_EACH else ("k", self.k)
            raise ValueError(f"{name}={value}: makes {least} parts of a global batch of {global_batch_samples} samples")
        self._recipe(global_batch_samples).rated(self.throughputs or [1.0] * num_workers, self.s)

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """A round of rows; without stragglers to tolerate, BSP."""
        if self.s == 0:
            return super().handle(event)
        match event:
            case Started():
                self._batch_samples, self._built = sum(event.batch_samples), 0
                self._measured = Throughputs(self.estimate_iters, warmup_iters=3)
                given = self.throughputs or [1.0] * len(event.workers)
                self._throughputs = dict(zip(event.workers, map(float, given), strict=True))
                return self._restart(event.workers)
            case Restored():
                return self._restart(event.workers)
            case Arrived():
                return self._arrived(event)
            case Failed(retryable=False):
                return [Stop(reason=f"worker {event.worker}: {event.reason}", ok=False)]
            case Failed():
                return self._next(event.worker)
            case Lost():
                return self._lost(event)
            case Joined():
                return self._joined(event.worker)
            case _:
                return ()

    # ---- who is there ------------------------------------------------------------------------------------------------

    def _restart(self, workers: tuple[int, ...]) -> list[AnyCommand]:
        """All of ``workers`` are idle, nothing is under way."""
        self._gone: set[int] = set()
        self._newcomers: set[int] = set()
        self._working: dict[int, int] = {}
        self._rows: dict[int, Grad] = {}
        self._round, self._measured_from, self._residual = 0, 0, 0.0
        if not workers:
            self._gone = set(self._crew.workers)
            return []
        self._build(workers)
        return self._open(workers)

    def _build(self, workers: Sequence[int]) -> None:
        """A code for these; who is new counts as the mean of the others until it is measured."""
        known = [self._throughputs[worker] for worker in workers if worker in self._throughputs]
        mean = sum(known) / len(known) if known else 1.0
        self._throughputs |= {worker: mean for worker in workers if worker not in self._throughputs}
        self._crew = Crew.of(
            self._recipe(self._batch_samples), {worker: self._throughputs[worker] for worker in workers}, self._built
        )
        self._gone, self._newcomers = set(), set()
        self._built += 1

    def _lost(self, event: Lost) -> list[AnyCommand]:
        """One that restarts is only late; when too many are gone for good, the round begins again without them."""
        self._working.pop(event.worker, None)
        if event.restarting:
            return []
        self._newcomers.discard(event.worker)
        self._crew.idle.discard(event.worker)
        if event.worker not in self._crew.place:
            return []
        self._gone.add(event.worker)
        return self._begin_again() if len(self._gone) > self._crew.s else []

    def _begin_again(self) -> list[AnyCommand]:
        here = self._here()
        dropped = self._drop(self._rows.values())
        self._rows = {}
        if not here:
            return dropped
        self._build(here)
        return [*dropped, *self._open([worker for worker in here if worker not in self._working])]

    def _here(self) -> list[int]:
        return sorted({*self._crew.workers, *self._crew.idle, *self._newcomers} - self._gone)

    def _joined(self, worker: int) -> list[AnyCommand]:
        """Who has a row computes it, unless it has been delivered; a newcomer waits for the next code."""
        deserted = len(self._gone) == len(self._crew.workers)
        self._gone.discard(worker)
        if worker in self._crew.idle:
            return []
        if worker in self._crew.place and not deserted:
            return [] if worker in self._rows or worker in self._working else [self._row(worker)]
        self._newcomers.add(worker)
        return self._begin_again() if deserted else []

    # ---- a round -----------------------------------------------------------------------------------------------------

    def _open(self, idle: Collection[int]) -> list[AnyCommand]:
        self._round += 1
        begin = Partition(num_samples=self._batch_samples, num_parts=self._crew.num_parts)
        return [begin, *(self._row(worker) for worker in sorted(idle) if worker in self._crew.place)]

    def _next(self, worker: int) -> list[AnyCommand]:
        """Its row of the round of now, if it has one in this code."""
        return [self._row(worker)] if worker in self._crew.place else []

    def _row(self, worker: int) -> Compute:
        self._working[worker] = self._round
        assigned = self._crew.assigned(worker, self._batch_samples)
        return Compute(worker=worker, num_samples=assigned, parts=self._crew.row(worker))

    def _arrived(self, event: Arrived) -> list[AnyCommand]:
        grad = event.grad
        self._measured.tell(event)
        if self._working.pop(grad.worker) != self._round:
            return [*self._drop([grad]), *self._next(grad.worker)]
        self._rows[grad.worker] = grad
        if not (self.eager or self._crew.enough(self._rows)):
            return []
        weights, self._residual = self._crew.weights(self._rows)
        return self._decoded(weights) if self._residual <= RESIDUAL else []

    def _decoded(self, weights: dict[int, float]) -> list[AnyCommand]:
        used = [grad for worker, grad in sorted(self._rows.items()) if grad.samples and weights[worker]]
        spare = [grad for worker, grad in sorted(self._rows.items()) if not weights[worker]]
        samples = used[0].round_samples or 1
        apply = Apply(
            grads=tuple(grad.id for grad in used), weights=tuple(weights[grad.worker] / samples for grad in used)
        )
        idle = {*self._rows, *self._newcomers} - self._gone
        self._rows = {}
        if self._newcomers or self._outdated():
            idle |= self._crew.idle
            self._build(self._here())
        return [apply, *self._drop(spare), *self._open(idle)]

    def _drop(self, grads: Iterable[Grad]) -> list[AnyCommand]:
        ids = tuple(grad.id for grad in grads if grad.samples)
        return [Drop(grads=ids, requeue=False)] if ids else []

    def _outdated(self) -> bool:
        """Whether the workers' throughputs, measured since the last code, are no longer those that it was built for.

        Up to s may never have answered: after a while they count as the mean of the others.
        """
        if self.throughputs is not None or not self.estimate_iters or self.scheme in ONE_PART_EACH:
            return False
        known = {worker: speed for worker, speed in self._measured.known().items() if worker in self._crew.place}
        missing = len(self._crew.workers) - len(known)
        if missing > (self._crew.s if self._round - self._measured_from > PATIENCE * self.estimate_iters else 0):
            return False
        mean = sum(known.values()) / len(known)
        now = [known.get(worker, mean) for worker in self._crew.workers]
        if largest_change(self._crew.throughputs, now) <= self.rebuild_frac:
            return False
        self._throughputs |= dict(zip(self._crew.workers, now, strict=True))
        self._measured.forget()
        self._measured_from = self._round
        return True

    # ---- without redundancy ------------------------------------------------------------------------------------------

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """Everybody is needed."""
        return AllGate(workers)

    def shares(self, started: Started) -> list[int]:
        """Even, or by the throughputs where the scheme knows them."""
        if self.throughputs is None or self.scheme in ONE_PART_EACH:
            return list(started.batch_samples)
        workers = len(self.throughputs)
        return split_min_max(sum(started.batch_samples), self.throughputs, [1] * workers, [None] * workers)

    def log_state(self) -> dict[str, float | int | str]:
        """Of the round: rows that are here; of the last update: the residual; of the code: what it is good for."""
        if self.s == 0:
            return super().log_state()
        return {
            "arrived": len(self._rows),
            "residual": self._residual,
            "tolerated": self._crew.s,
            "codes": self._built,
            "amplification": self._crew.rated.amplification,
        }

    def _recipe(self, batch_samples: int | None) -> Recipe:
        limits = self.draws, self.max_amplification, self.prune, self.code_seed, batch_samples
        return Recipe(self.scheme, self.s, self.k, *limits)

    def _check_throughputs(self) -> None:
        if self.throughputs is None:
            return
        known = isinstance(self.throughputs, Sequence) and not isinstance(self.throughputs, str)
        if not known or not all(_is_speed(value) for value in self.throughputs):
            raise ValueError(
                f"throughputs={self.throughputs}: must be a list of positive numbers, one per worker, or null"
            )


def _is_speed(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
