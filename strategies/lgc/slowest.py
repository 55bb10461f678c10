"""A schedule for ``RingGate``: the K fastest are the ring, chosen again from time to time (LGC-AR; pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar, final

from reading.ranges import Checked, NonNegativeFloat, NonNegativeInt, PositiveInt
from strategies.lgc.delayed import num_fastest
from strategies.parts.gates.ring import RingGate
from strategies.parts.hooks import Peers, State
from strategies.parts.monitoring.base import Warmup
from strategies.protocol import AnyEvent, Arrived, Command, Grad, Lost, Started, Wake


@final
@dataclass(kw_only=True)
class SlowestApart(Checked):
    """All but the K fastest workers leave the ring, by the mean time of their last iterations.

    The first choice is made when every worker has ``window_iters`` iterations, each following one after
    ``reselect_iters`` updates. Times are of loading and computing alone, since only children have a link of their own.

    Attributes:
        k_fastest: K, of fewer workers all (BSP); None: three quarters of the workers, rounded up.
        wait_s: seconds that a parent waits for its children after its own gradient.
        reselect_iters: updates from one choice to the next.
        window_iters: iterations of a worker over which its time is averaged.
        warmup_iters: first iterations of a process that are ignored.
    """

    looks_at: ClassVar[tuple[type, ...]] = (RingGate,)

    k_fastest: PositiveInt | None = None
    wait_s: NonNegativeFloat = 0.0
    reselect_iters: PositiveInt = 50
    window_iters: PositiveInt = 5
    warmup_iters: NonNegativeInt = 3

    @property
    def needs(self) -> frozenset[type[Command]]:
        """``Wake`` only if parents wait."""
        return frozenset({Wake}) if self.wait_s else frozenset()

    def meet(self, peers: Peers) -> None:
        self._gate = peers.one(RingGate)

    def start(self, started: Started) -> None:
        """Fix K for the job; no time is known."""
        self._size = num_fastest(self.k_fastest, len(started.workers))
        self._warmup = Warmup(self.warmup_iters)
        self._times_s: dict[int, deque[float]] = {}
        self._since: int | None = None
        self._chosen = 0
        self._gate.wanted, self._gate.wait_s = (), self.wait_s

    def observe_event(self, event: AnyEvent) -> None:
        """Keep the times of whole iterations; a process that is gone is measured again."""
        match event:
            case Arrived(grad=grad) if self._warmup.tells(event):
                self._times_s.setdefault(grad.worker, deque(maxlen=self.window_iters)).append(event.timings.bpt_s)
            case Lost(worker=worker):
                self._times_s.pop(worker, None)

    def applied(self, grads: tuple[Grad, ...]) -> None:
        if self._since is not None:
            self._since += 1

    def then(self, event: AnyEvent) -> Sequence[Command]:
        """Choose when it is time; the gate follows with its next updates."""
        if isinstance(event, Arrived) and (self._since is None or self._since >= self.reselect_iters):
            members = self._gate.roster.members
            if all(len(self._times_s.get(worker, ())) == self.window_iters for worker in members):
                self._choose(members)
        return ()

    def _choose(self, members: set[int]) -> None:
        """Slowest first; of equally slow workers the highest."""
        mean_s = {worker: fmean(self._times_s[worker]) for worker in members}
        slowest = sorted(members, key=lambda worker: (mean_s[worker], worker), reverse=True)
        self._gate.wanted = tuple(slowest[: max(0, len(members) - self._size)])
        self._since = 0
        self._chosen += 1

    def log_state(self) -> State:
        return {"children": " ".join(map(str, sorted(self._gate.wanted))), "chosen": self._chosen}
