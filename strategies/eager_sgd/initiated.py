"""Gate ``initiated``: the arrival of one worker begins the update, which has all gradients that have arrived."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, final

from reading.ranges import Checked, NonNegativeInt, OneOf, PositiveInt
from strategies.parts.gates.base import NOTHING, Roster, Verdict, by_worker
from strategies.parts.gates.meanwhile import MeanwhileGate
from strategies.protocol import Grad

DIGEST_BYTES = 8
"""With 2^64 outcomes all remainders are equally likely, as far as a job can tell."""


def initiator_of(seed: int, version: int, workers: Sequence[int]) -> int:
    """One of ``workers``, drawn for the update after ``version``: the same after a rollback, and in any process."""
    digest = blake2b(f"{seed} {version}".encode(), digest_size=DIGEST_BYTES).digest()
    return workers[int.from_bytes(digest) % len(workers)]


@final
@dataclass(kw_only=True)
class InitiatedGate(MeanwhileGate, Checked):
    """An update is all gradients that have arrived when a worker that may begin it has computed on ``version``.

    A worker that has computed on older parameters is late: its gradient waits for the update, and the worker goes on.
    Any other worker waits, also one that finds no more data; if all workers wait and none was late, that one counts for
    the rate as in BSP. ``buffer`` holds the gradients since the last update, perhaps several of a worker; ``waiting``
    are the workers that wait. New workers enter with the next update.

    Attributes:
        mode: ``solo``: any worker may begin it; ``majority``: the one that is drawn.
        seed: of the draws.
        sync_every: every so many updates the last of all workers begins it; None: never.
    """

    mode: Annotated[str, OneOf("solo", "majority")] = "majority"
    seed: NonNegativeInt = 0
    sync_every: PositiveInt | None = None

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.roster, self.version = Roster(workers), version
        self.buffer: list[Grad] = []
        self.waiting: set[int] = set()
        return self.roster.all()

    def arrived(self, grad: Grad) -> Verdict:
        """Keep the gradient; after a late one its worker goes on, any other may begin the update."""
        late = grad.version < self.version
        if grad.samples or not late:
            self.buffer.append(grad)
        if late:
            return Verdict(go=(grad.worker,))
        self.waiting.add(grad.worker)
        return self._test()

    def _test(self) -> Verdict:
        if not (self._begins() or self.roster.deserted):
            return NOTHING
        as_bsp = self.waiting >= self.roster.members and all(grad.version == self.version for grad in self.buffer)
        update = by_worker(grad for grad in self.buffer if grad.samples or as_bsp)
        self.buffer = []
        self.version += any(grad.samples for grad in update)
        return Verdict(apply=update, go=self._release(), opens=not update)

    def _begins(self) -> bool:
        if not self.waiting:
            return False
        if self.sync_every is not None and (self.version + 1) % self.sync_every == 0:
            return self.waiting >= self.roster.members
        return self.mode == "solo" or initiator_of(self.seed, self.version, self.roster.all()) in self.waiting

    def log_state(self) -> dict[str, float | int | str]:
        return {"waiting": len(self.waiting), "late": sum(grad.version < self.version for grad in self.buffer)}
