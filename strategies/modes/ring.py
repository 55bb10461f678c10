"""STAR's schedule without servers: who leaves the ring, and how long parents wait (sections IV-B, IV-C1; pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean
from typing import ClassVar, NamedTuple, final

from strategies.checks import check_number, check_whole
from strategies.gates.ring import RingGate
from strategies.hooks import Order, Peers, State
from strategies.modes.spacing import Spacing
from strategies.modes.times import ring_s
from strategies.monitoring.base import MeasuresNoise, PredictsStragglers
from strategies.nodes.pause import Pause
from strategies.nodes.timers import is_due
from strategies.protocol import AnyCommand, AnyEvent, Arrived, Command, Joined, Lost, Restored, Started, Wake, Woke

WAITS_S = (0.0, 0.03, 0.06, 0.09, 0.12, 0.15, 0.18, 0.21)
"""Candidates: STAR's 30 to 210 ms, and parents that do not wait."""


class RingMode(NamedTuple):
    """The workers outside of the ring, slowest first, and the seconds that their parents wait."""

    apart: tuple[int, ...]
    wait_s: float

    def __str__(self) -> str:
        if not self.apart:
            return "ring of all"
        return f"ring without {' '.join(map(str, self.apart))}, wait {self.wait_s:g} s"


WHOLE = RingMode((), 0.0)


@final
@dataclass(kw_only=True)
class RingChooser:
    """Chooses how many of the predicted stragglers are children, and how long their parents wait, by equation 3.

    Candidates are x = 0 to all tagged workers, of whom the slowest x leave, with each of ``waits_s``. A decision is
    made when the tags change, and every ``redecide_iters`` while somebody is tagged; it is carried out with the first
    update from ``decision_s`` later on. Without stragglers all are in the ring, which needs no decision.

    Predicted times must be without links (``PredictedTimes.with_links``), which only children have: what they spend
    there is measured. A worker that is none yet is expected to spend as much as the present children do on average or,
    without any, ``link_s``.

    Attributes:
        waits_s: seconds that parents may wait; 0 alone: never.

        predict_every_iters: iterations of every worker on average from one prediction to the next.
        redecide_iters: iterations of every worker on average after which is decided again although nothing changed.
        min_gain_frac: part by which another mode must be better than the present one.
        decision_s: seconds that a decision takes.
        pause: whether workers wait for it.
        max_pause_frac: decisions that change nothing pause ever less often, until they take this part of the time.
        link_s: seconds of a child on its link in an iteration, before any is measured.
    """

    looks_at: ClassVar[tuple[type, ...]] = (RingGate, PredictsStragglers, MeasuresNoise)

    waits_s: Sequence[float] = WAITS_S

    predict_every_iters: int = 1
    redecide_iters: int = 10
    min_gain_frac: float = 0.0
    decision_s: float = 0.97
    pause: bool = True
    max_pause_frac: float = 1.0
    link_s: float = 0.0

    def __post_init__(self) -> None:
        check_waits(self.waits_s)

        check_whole("predict_every_iters", self.predict_every_iters, 1)
        check_whole("redecide_iters", self.redecide_iters, 1)
        check_number("min_gain_frac", self.min_gain_frac, 0.0)
        check_number("decision_s", self.decision_s, 0.0)
        check_number("max_pause_frac", self.max_pause_frac, above=0, most=1)
        check_number("link_s", self.link_s, 0.0)

    @property
    def needs(self) -> frozenset[type[Command]]:
        """``Wake`` to end waits and pauses, if there are any."""
        return frozenset({Wake}) if any(self.waits_s) or (self.pause and self.decision_s) else frozenset()

    def meet(self, peers: Peers) -> None:
        """Keep the gate, the predictions and the noise scale."""
        self._gate = peers.one(RingGate)
        self._predicts: PredictsStragglers = peers.one(PredictsStragglers)  # type: ignore[type-abstract]
        self._noise: MeasuresNoise = peers.one(MeasuresNoise)  # type: ignore[type-abstract]

    # ---- events -----------------------------------------------------------------------------------------------------

    def start(self, started: Started) -> None:
        """Reset: all in the ring, and nothing is decided."""
        self._batch_samples = sum(started.batch_samples) / len(started.batch_samples)
        self._pause = Pause()
        self._spacing = Spacing(self.max_pause_frac)
        self._links_s: dict[int, float] = {}
        self._change: tuple[RingMode, float] | None = None
        self._arrived = self._iters = self._decisions = self._switches = 0
        self._seen = frozenset[int]()
        self._said = ""
        self._take(WHOLE)

    def observe_event(self, event: AnyEvent) -> None:
        """Measure links, carry out a decision that is ready, and forget what a loss has made void."""
        match event:
            case Arrived(grad=grad, timings=timings):
                self._links_s[grad.worker] = timings.recv_s + timings.send_s
            case Lost(worker=worker):
                self._links_s.pop(worker, None)
                self._pause.gone(worker)
                self._spacing.reset()
            case Joined():
                self._spacing.reset()
            case Restored():
                self._pause = Pause()
        if self._change is not None and is_due(event.t, self._change[1]):
            self._take(self._change[0])
            self._change = None
            self._switches += 1

    def then(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Predict and decide if it is time for that."""
        if not isinstance(event, Arrived) or not event.grad.samples:
            return ()
        self._arrived += 1
        members = self._gate.roster.members
        deciding = self._change is not None or self._pause.until_s is not None
        if deciding or self._arrived < self.predict_every_iters * len(members):
            return ()
        self._arrived = 0
        self._iters += self.predict_every_iters
        return self._looked(event.t, tuple(sorted(members)))

    def settle(self, event: AnyEvent, commands: list[AnyCommand], order: Order) -> list[AnyCommand]:
        """Hold Computes during a decision, and release them when it is made."""
        commands = self._pause.hold(commands)
        if not isinstance(event, Woke):
            return commands
        return [*commands, *(order(worker) for worker in self._pause.ends(event.t))]

    # ---- decisions --------------------------------------------------------------------------------------------------

    def _take(self, mode: RingMode) -> None:
        self._mode = mode
        self._gate.wanted, self._gate.wait_s = mode

    def _looked(self, t: float, workers: tuple[int, ...]) -> Sequence[AnyCommand]:
        """Predict, and decide if there is something new or nothing was decided for long."""
        outlook = self._predicts.outlook(workers, t, 0.0 if self.pause else self.decision_s)
        if outlook is None:
            return ()
        times_s, tagged = dict(zip(workers, outlook.times_s, strict=True)), outlook.tagged
        if not tagged:
            self._seen = tagged
            if self._mode != WHOLE:
                self._said = f"{t:.6g} s: no stragglers; {WHOLE}, was {self._mode}"
                self._change = (WHOLE, t)
            return ()
        noise = self._noise.phi_of(self._batch_samples * len(workers))
        if noise is None or (self._seen == tagged and self._iters < self.redecide_iters):
            return ()
        if self._spacing.waits(t):
            return ()
        self._seen, self._iters = tagged, 0
        return self._decided(t, times_s, tagged, noise[0])

    def _decided(
        self, t: float, times_s: Mapping[int, float], tagged: Collection[int], phi: float
    ) -> Sequence[AnyCommand]:
        """Cost all modes and take the best, a pause before it."""
        priced = {mode: self._mode_s(mode, times_s, phi) for mode in candidates(times_s, tagged, self.waits_s)}
        present = self._mode._replace(apart=tuple(one for one in self._mode.apart if one in times_s))
        priced.setdefault(present, self._mode_s(present, times_s, phi))
        best = min(priced, key=lambda mode: priced[mode])
        self._decisions += 1
        stays = best == present or priced[best] >= (1 - self.min_gain_frac) * priced[present]
        chosen = present if stays else best
        shown = ", ".join(
            f"{mode} {seconds:.4g} s" for mode, seconds in sorted(priced.items(), key=lambda one: one[1])[:4]
        )
        self._said = (
            f"{t:.6g} s: stragglers {' '.join(map(str, sorted(tagged)))}; {chosen}, was {present}; best: {shown}"
        )
        if chosen != self._mode:
            self._change = (chosen, t + self.decision_s)
        if not self.pause or not self.decision_s:
            return ()
        self._spacing.decided(t, self.decision_s, changed=chosen != self._mode)
        self._pause.until_s = t + self.decision_s
        return (Wake(at_s=self._pause.until_s, tag="decided"),)

    def _mode_s(self, mode: RingMode, times_s: Mapping[int, float], phi: float) -> float:
        """Equation 3: seconds per unit of progress; a child has delivered when it has used its link, too."""
        known = [self._links_s[child] for child in self._gate.parents if child in self._links_s]
        usual_s = fmean(known) if known else self.link_s
        late = [
            times_s[child] + (self._links_s.get(child, usual_s) if child in self._gate.parents else usual_s)
            for child in mode.apart
        ]
        ring = [time_s for worker, time_s in times_s.items() if worker not in mode.apart]
        all_s = [*ring, *[inf] * len(late)]
        wait_s = mode.wait_s if mode.apart else 0.0
        return ring_s(all_s, len(late), wait_s, self._batch_samples, phi, removed_s=sorted(late))

    def log_state(self) -> State:
        """The mode, the numbers of decisions and of changes, and the last decision with its numbers."""
        return {
            "mode": str(self._mode),
            "decisions": self._decisions,
            "switches": self._switches,
            "decision": self._said,
        }


def candidates(times_s: Mapping[int, float], tagged: Collection[int], waits_s: Sequence[float]) -> list[RingMode]:
    """All modes with up to all tagged workers apart, the fewest and the shortest wait first; somebody stays."""
    slowest = sorted(tagged, key=lambda worker: (times_s[worker], worker), reverse=True)[: len(times_s) - 1]
    counts = range(1, len(slowest) + 1)
    return [WHOLE, *(RingMode(tuple(slowest[:count]), wait_s) for count in counts for wait_s in sorted(waits_s))]


def check_waits(waits_s: object) -> None:
    """Raise ``ValueError`` unless these are one or more different numbers of seconds."""
    if isinstance(waits_s, str) or not isinstance(waits_s, Sequence) or not waits_s:
        raise ValueError(f"waits_s={waits_s}: must be a list of one or more numbers of seconds")
    for wait_s in waits_s:
        check_number("waits_s", wait_s, 0.0)
    if len(set(waits_s)) < len(waits_s):
        raise ValueError(f"waits_s={list(waits_s)}: must be different numbers")
