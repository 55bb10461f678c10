"""Coded rounds: which worker computes which row, when a round is decoded, and who is in the next code (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from statistics import fmean
from typing import final

from strategies.gradient_coding.group import CodedGroup, Recipe
from strategies.gradient_coding.speeds import Pace, Speeds, last_needed, side_by_side
from strategies.parts.load.allocation import samples_of_round
from strategies.protocol import AnyCommand, Apply, Arrived, Compute, Drop, Grad, Lost, Partition


@final
class Rounds:
    """Runs one round after another, each of ``batch_samples`` samples, or of one for each part if those are more.

    ``_working`` holds the round of the row that each worker computes, ``_rows`` the rows of this round that have
    arrived. Workers of the code that have left for good are ``_gone``; workers not yet in it wait as ``_newcomers``.
    """

    def __init__(self, recipe: Recipe, batch_samples: int, speeds: Speeds, *, rebuild_frac: float, eager: bool) -> None:
        self.recipe, self.batch_samples, self.speeds = recipe, batch_samples, speeds
        self.rebuild_frac, self.eager = rebuild_frac, eager
        self._built = self._refused = 0
        self._gone: set[int] = set()
        self._newcomers: set[int] = set()

    def begin(self, workers: Sequence[int]) -> list[AnyCommand]:
        """Build a code for ``workers``, which are all idle, and open the first round."""
        self._working: dict[int, int] = {}
        self._rows: dict[int, Grad] = {}
        self._round, self._residual = 0, 0.0
        if not workers:
            self._gone, self._newcomers = set(self._group.workers), set()
            return []
        self._build(workers)
        return self._open(workers)

    def log_state(self) -> dict[str, float | int | str]:
        return {
            "arrived": len(self._rows),
            "residual": self._residual,
            "tolerated": self._group.s,
            "codes": self._built,
            "refused": self._refused,
            "amplification": self._group.rated.amplification,
        }

    def _build(self, workers: Sequence[int]) -> None:
        """A code for the current workers, whatever s it has; even shares if shares by pace gain nothing."""
        paces, s = self.speeds.of(workers), min(self.recipe.s, len(workers) - 1)
        group = None
        if self.speeds.measured and s > 0:
            even = dict.fromkeys(workers, self.batch_samples * (s + 1) / len(workers))
            row = {worker: pace.seconds(even[worker]) for worker, pace in paces.items()}
            group = self._by_pace(paces, s, [row], even, last_needed(list(row.values()), s))
        if group is None:
            speeds = {worker: 1.0 if self.speeds.measured else 1 / pace.per_sample_s for worker, pace in paces.items()}
            group = CodedGroup.of(self.recipe, speeds, self._built)
        self._take(group)

    def _take(self, group: CodedGroup) -> None:
        self._group = group
        self._samples = samples_of_round(self.batch_samples, group.num_parts)
        self._assigned = group.samples_by_worker(self._samples)
        self.speeds.renew(self._assigned)
        self._gone, self._newcomers = set(), set()
        self._built += 1

    def _by_pace(
        self,
        paces: Mapping[int, Pace],
        s: int,
        seen: Sequence[Mapping[int, float]],
        sizes: Mapping[int, float],
        now_s: float,
    ) -> CodedGroup | None:
        """A code with shares by pace, if it makes rounds enough shorter than ``now_s``; None: it gains too little.

        ``seen`` are times of all workers' iterations with ``sizes``, aligned; they are scaled to the new sizes.
        """
        workers = sorted(paces)
        shares = dict(
            zip(workers, self.recipe.shares([paces[one] for one in workers], s, self.batch_samples), strict=True)
        )
        longer = {
            worker: paces[worker].seconds(samples) / paces[worker].seconds(sizes[worker])
            for worker, (_, samples) in shares.items()
            if worker in sizes
        }
        then_s = fmean(last_needed([row.get(one, inf) * longer.get(one, 1.0) for one in workers], s) for row in seen)
        if not then_s < now_s * (1 - self.rebuild_frac):
            return None
        try:
            return CodedGroup.with_shares(
                self.recipe, {one: parts for one, (parts, _) in shares.items()}, s, self._built
            )
        except ValueError:  # the new code would amplify too much; keep the current one
            self._refused += 1
            self.speeds.note_refusal()
            return None

    def _improve(self) -> CodedGroup | None:
        """A code for the measured speeds, if it makes rounds enough shorter.

        It must tolerate as many stragglers as the current one.
        """
        seen = self.speeds.current_times(self._assigned, self._group.s)
        if seen is None or not self._group.s:
            return None
        rows = side_by_side(seen)
        now_s = fmean(self._group.round_s(row, eager=self.eager) for row in rows)
        return self._by_pace(self.speeds.of(self._here()), self._group.s, rows, self._assigned, now_s)

    # ---- membership --------------------------------------------------------------------------------------------------

    def lost(self, event: Lost) -> list[AnyCommand]:
        """A worker that restarts is only late; when too many have left for good, the round restarts without them."""
        self._working.pop(event.worker, None)
        if event.restarting:
            return []
        self._newcomers.discard(event.worker)
        self._group.idle.discard(event.worker)
        if event.worker not in self._group.place:
            return []
        self._gone.add(event.worker)
        return self._begin_again() if len(self._gone) > self._group.s else []

    def _begin_again(self) -> list[AnyCommand]:
        here = self._here()
        dropped = self._drop(self._rows.values())
        self._rows = {}
        if not here:
            return dropped
        self._build(here)
        return [*dropped, *self._open([worker for worker in here if worker not in self._working])]

    def _here(self) -> list[int]:
        return sorted({*self._group.workers, *self._group.idle, *self._newcomers} - self._gone)

    def joined(self, worker: int) -> list[AnyCommand]:
        """A worker with a row computes it, unless the row has arrived; a newcomer waits for the next code."""
        deserted = len(self._gone) == len(self._group.workers)
        self._gone.discard(worker)
        if worker in self._group.idle:
            return []
        if worker in self._group.place and not deserted:
            return [] if worker in self._rows or worker in self._working else [self._row(worker)]
        self._newcomers.add(worker)
        return self._begin_again() if deserted else []

    # ---- a round -----------------------------------------------------------------------------------------------------

    def _open(self, idle: Collection[int]) -> list[AnyCommand]:
        self._round += 1
        begin = Partition(num_samples=self._samples, num_parts=self._group.num_parts)
        return [begin, *(self._row(worker) for worker in sorted(idle) if worker in self._group.place)]

    def next(self, worker: int) -> list[AnyCommand]:
        """The worker's row of the current round, if it has one in this code."""
        return [self._row(worker)] if worker in self._group.place else []

    def _row(self, worker: int) -> Compute:
        self._working[worker] = self._round
        return Compute(worker=worker, num_samples=self._assigned[worker], parts=self._group.rows[worker])

    def arrived(self, event: Arrived) -> list[AnyCommand]:
        """Drop a row of an older round; keep one of this round, and apply the rows if they can be decoded."""
        grad = event.grad
        self.speeds.tell(event)
        if self._working.pop(grad.worker) != self._round:
            return [*self._drop([grad]), *self.next(grad.worker)]
        self._rows[grad.worker] = grad
        decoded = self._group.decode(self._rows, eager=self.eager)
        if decoded is None:
            return []
        self._residual = decoded.residual
        return self._finish_round(decoded.weights)

    def _finish_round(self, weights: dict[int, float]) -> list[AnyCommand]:
        used = [grad for worker, grad in sorted(self._rows.items()) if grad.samples and weights[worker]]
        spare = [grad for worker, grad in sorted(self._rows.items()) if not weights[worker]]
        samples = used[0].round_samples or 1
        apply = Apply(
            grads=tuple(grad.id for grad in used), weights=tuple(weights[grad.worker] / samples for grad in used)
        )
        idle = {*self._rows, *self._newcomers} - self._gone
        self._rows = {}
        if self._newcomers:
            idle |= self._group.idle
            self._build(self._here())
        elif (improved := self._improve()) is not None:
            idle |= self._group.idle
            self._take(improved)
        return [apply, *self._drop(spare), *self._open(idle)]

    def _drop(self, grads: Iterable[Grad]) -> list[AnyCommand]:
        ids = tuple(grad.id for grad in grads if grad.samples)
        return [Drop(grads=ids, requeue=False)] if ids else []
