"""The gate of streaming DiLoCo: fragments of the parameters are summed in turn, while workers step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, final

from reading.ranges import NonNegativeInt, Number, PositiveInt
from strategies.parts.gates.alone import OuterSettings
from strategies.parts.gates.base import Roster, Verdict, by_worker
from strategies.parts.gates.round import RoundGate
from strategies.protocol import Command, Grad, StepAlone, SumFragment


@final
@dataclass(kw_only=True)
class StreamingGate(OuterSettings, RoundGate):
    """Every ``period / fragments`` own steps another fragment is summed; now and then all make an update of all.

    Sum n is of what workers offer ``delay`` steps before the end of their n-th interval. It begins when the last has
    offered; at the end of that interval a worker waits for it, mixes, and goes on. ``offered`` are the workers that
    have offered for the next sum, ``sums`` counts the sums, ``mixed`` those that each worker has mixed, ``waiting`` are
    the workers that wait for a sum. From when one finds no data, none begins (``closing``); at the update of all, each
    worker has mixed what was summed. A loss voids all this, since replicas begin again from the last update.
    """

    rounds: ClassVar[bool] = True
    drops: ClassVar[bool] = False
    needs: ClassVar[frozenset[type[Command]]] = frozenset({StepAlone, SumFragment})

    period: PositiveInt = 32
    fragments: PositiveInt = 1
    delay: NonNegativeInt = 0
    mixing: Annotated[float, Number(0.0, most=1.0)] = 0.0
    common_every: PositiveInt | None = None

    def __post_init__(self) -> None:
        self.check_outer()
        if self.period % self.fragments:
            raise ValueError(f"period={self.period}: must be a multiple of fragments ({self.fragments})")
        self.interval = self.period // self.fragments
        if self.delay >= self.interval:
            raise ValueError(f"delay={self.delay}: must be less than period / fragments ({self.interval})")
        self.sums_meanwhile = self.delay > 0

    @property
    def outer(self) -> Mapping[str, Any]:
        return {**self.outer_optimizer, "fragments": self.fragments}

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.roster = Roster(workers)
        self._open()
        return self.roster.all()

    def _open(self) -> None:
        self.missing = set(self.roster.members)
        self.buffer: list[Grad] = []
        self.steps = dict.fromkeys(self.roster.members, 0)
        self.offered: set[int] = set()
        self.waiting: set[int] = set()
        self.mixed: dict[int, int] = {}
        self.sums, self.closing = 0, False

    # ---- events ------------------------------------------------------------------------------------------------------

    def arrived(self, grad: Grad) -> Verdict:
        """Step by the gradient; offer, sum and mix if it is time; then go on, wait, or make the update of all."""
        worker, step = grad.worker, tuple[Grad, ...]()
        if grad.samples:
            self.buffer.append(grad)
            self.steps[worker] = self.steps.get(worker, 0) + 1
            step = (grad,)
        elif not self.closing:
            self.closing = True
            self.missing -= self.waiting
        if self.closing:
            self.missing.discard(worker)
            return Verdict(step=step) if self.missing else self._complete(step)
        return self._go_on(worker, step)

    def _go_on(self, worker: int, step: tuple[Grad, ...]) -> Verdict:
        offer, sums = tuple[int, ...](), False
        if (self.steps[worker] + self.delay) % self.interval == 0:
            offer, sums = (worker,), self._offer(worker)
        if ends := not self.steps[worker] % self.interval:
            self.waiting.add(worker)
        mix = {one for one in self.waiting if self.steps[one] // self.interval <= self.sums}
        self.waiting -= mix
        self.mixed.update(dict.fromkeys(mix, self.sums))
        free = mix if ends else mix | {worker}
        done = {one for one in free if self.common_every is not None and self.steps[one] >= self.common_every}
        self.missing -= done
        if not self.missing:
            return self._complete(step, offer, sums, mix)
        return Verdict(step=step, fragment=self._fragment(offer, sums, mix), go=tuple(sorted(free - done)))

    def _offer(self, worker: int) -> bool:
        """Whether this is the last offer of a sum."""
        self.offered.add(worker)
        if not self.offered >= self.roster.members:
            return False
        self.sums, self.offered = self.sums + 1, set()
        return True

    def _fragment(self, offer: tuple[int, ...], sums: bool, mix: Collection[int]) -> SumFragment | None:
        if not (offer or mix):
            return None
        number = self.sums + (not sums and bool(offer))
        return SumFragment(
            fragment=(number - 1) % self.fragments,
            offer=offer,
            sums=sums,
            mix=tuple(sorted(mix)),
            kept_frac=self.mixing,
        )

    def _complete(
        self, step: tuple[Grad, ...] = (), offer: tuple[int, ...] = (), sums: bool = False, mix: Collection[int] = ()
    ) -> Verdict:
        """The update of all, after what was summed and is not mixed yet."""
        late = {one for one in self.roster.members if self.sums and self.mixed.get(one, 0) < self.sums}
        fragment, update = self._fragment(offer, sums, {*mix, *late}), by_worker(self.buffer)
        self.roster.enter()
        self._open()
        return Verdict(apply=update, go=self.roster.all(), opens=not update, step=step, fragment=fragment, outer=True)

    def log_state(self) -> dict[str, float | int | str]:
        return {"sums": self.sums, "waiting": len(self.waiting), "steps_alone": len(self.buffer)}
