"""The gate of SGP: a worker sends half of what it has after each step, and waits for the half that is due to it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, final

from reading.ranges import Checked, NonNegativeInt, PositiveInt
from strategies.parts.gates.base import Roster, Verdict, by_worker
from strategies.parts.gates.round import RoundGate
from strategies.protocol import Command, Grad, PushHalf, StepAlone


def places_on(step: int, size: int) -> int:
    """How far the target of a half is, in a circle of ``size`` workers, at least two; ``step`` counts from 0.

    1, 2, 4, ... in turn: the powers of two that are less than ``size``.
    """
    return 1 << step % (size - 1).bit_length()


@final
@dataclass(kw_only=True)
class PushGate(RoundGate, Checked):
    """A worker steps, sends a half, and goes on when the half of ``overlap_iters`` steps ago that it is due was sent.

    The members' ranks are their places in the circle. ``steps`` counts each worker's steps since the last update of
    all; ``halves`` are those that are sent and not added, by target: (the sender's step, sender). A worker adds a half
    not before its own step of the same number. ``waiting`` are the workers that wait for one. The update comes when
    all have made ``common_every`` steps, or when a worker finds no data: nobody waits for a half from then on
    (``closing``), and all are added. A loss voids all this, since replicas begin again from the last update.
    """

    rounds: ClassVar[bool] = True
    drops: ClassVar[bool] = False
    needs: ClassVar[frozenset[type[Command]]] = frozenset({StepAlone, PushHalf})
    sums_meanwhile: ClassVar[bool] = True
    waits_for_all: ClassVar[bool] = False

    overlap_iters: NonNegativeInt = 0
    common_every: PositiveInt | None = None

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.roster = Roster(workers)
        self._open()
        return self.roster.all()

    def _open(self) -> None:
        self.missing = set(self.roster.members)
        self.buffer: list[Grad] = []
        self.steps: Counter[int] = Counter()
        self.halves: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self.waiting: set[int] = set()
        self.closing = False

    # ---- events ------------------------------------------------------------------------------------------------------

    def arrived(self, grad: Grad) -> Verdict:
        """Step by the gradient; then send a half, or be ready for the update of all."""
        worker, step = grad.worker, tuple[Grad, ...]()
        if grad.samples:
            self.buffer.append(grad)
            self.steps[worker] += 1
            step = (grad,)
        elif not self.closing:
            self.closing = True
            self.missing -= self.waiting
        if self.closing or self.steps[worker] == self.common_every:
            self.missing.discard(worker)
            return Verdict(step=step) if self.missing else self._complete(step)
        if len(self.roster.members) == 1:
            return Verdict(step=step, go=(worker,))
        return self._push(worker, step)

    def _push(self, worker: int, step: tuple[Grad, ...]) -> Verdict:
        """Send the half; its target may go on now, if it waits, and the worker itself."""
        count, circle = self.steps[worker], self.roster.all()
        to = _partner(circle, worker, count, 1)
        self.halves[to].append((count, worker))
        self.waiting.add(worker)
        go = tuple([one for one in (worker, to) if one in self.waiting and self._is_served(one, circle)])
        self.waiting.difference_update(go)
        push = [PushHalf(worker=worker, to=to)]
        push += [PushHalf(worker=one, adds=adds) for one in go if (adds := self._due(one))]
        return Verdict(step=step, push=tuple(push), go=go)

    def _is_served(self, worker: int, circle: tuple[int, ...]) -> bool:
        """Whether the half that it may not go on without was sent; earlier ones were, or it would not be here."""
        count = self.steps[worker] - self.overlap_iters
        return count < 1 or self.steps[_partner(circle, worker, count, -1)] >= count

    def _due(self, worker: int) -> tuple[int, ...]:
        """Take the halves for it of steps up to its own: their senders."""
        mine = sorted(self.halves[worker])
        due = [sender for count, sender in mine if count <= self.steps[worker]]
        self.halves[worker] = mine[len(due) :]
        return tuple(due)

    def _complete(self, step: tuple[Grad, ...] = ()) -> Verdict:
        """Add all halves that are left, and let all workers average."""
        update, late = by_worker(self.buffer), sorted(to for to, halves in self.halves.items() if halves)
        push = tuple(
            [PushHalf(worker=to, adds=tuple([sender for _, sender in sorted(self.halves[to])])) for to in late]
        )
        self.roster.enter()
        self._open()
        return Verdict(apply=update, go=self.roster.all(), opens=not update, step=step, push=push, outer=True)

    def log_state(self) -> dict[str, float | int | str]:
        halves = sum(map(len, self.halves.values()))
        return {"waiting": len(self.waiting), "halves": halves, "steps_alone": len(self.buffer)}


def _partner(circle: tuple[int, ...], worker: int, count: int, way: int) -> int:
    """The target of the half that a worker sends after its step ``count``, from 1 on; with ``way`` -1 the sender."""
    place = circle.index(worker) + way * places_on(count - 1, len(circle))
    return circle[place % len(circle)]
