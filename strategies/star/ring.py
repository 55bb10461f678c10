"""STAR's schedule without servers: workers that leave the ring, and parents' waits (sections IV-B, IV-C1; pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import ClassVar, final

from reading.ranges import NonNegativeFloat
from strategies.parts.gates.ring import RingGate
from strategies.parts.hooks import Peers, State
from strategies.parts.monitoring.base import MeasuresNoise
from strategies.parts.nodes import is_due
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Arrived,
    Command,
    Grad,
    Joined,
    Lost,
    Restored,
    Started,
    Wake,
)
from strategies.star.choice import check_gain
from strategies.star.deciding import Deciding
from strategies.star.measuring import RingTook
from strategies.star.predicted import PredictedTimes
from strategies.star.ring_modes import WAITS_S, WHOLE, RingMode, RingOverhead, check_waits
from strategies.star.ring_question import RingQuestion
from strategies.star.times import ModeTimes


@final
@dataclass(kw_only=True)
class RingChooser(Deciding):
    """Chooses how many of the predicted stragglers are children, and how long their parents wait, by equation 3.

    Candidates are x = 0 to all tagged workers, with each of ``waits_s``; the slowest x leave. A decision is
    made when the tags change, and every ``redecide_iters`` while a worker is tagged; it is carried out with the first
    update from ``decision_s`` later on. Without stragglers all are in the ring, which needs no decision.

    Predicted times must be without links (``PredictedTimes.with_links``), which only children have: their time there is
    measured. A worker that is none yet is expected to spend as much as the present children do on average or, without
    any, ``link_s``.

    With ``learning`` a model costs the modes once it has learnt enough (STAR-ML), from what equation 3 says of them and
    from what they took while they were used.

    Attributes:
        waits_s: seconds that parents may wait; 0 alone: never.
        min_gain_frac: part by which another mode must be better than the present one.
        link_s: seconds of a child on its link in an iteration, before any is measured.
        costs: the price of staleness in what modes took, for ``learning``.
    """

    looks_at: ClassVar[tuple[type, ...]] = (RingGate, PredictedTimes, MeasuresNoise)

    waits_s: Sequence[NonNegativeFloat] = WAITS_S
    min_gain_frac: float = 0.0
    link_s: NonNegativeFloat = 0.0
    costs: ModeTimes = field(default_factory=ModeTimes)

    def __post_init__(self) -> None:
        check_gain(self.min_gain_frac)
        self._check("allreduce", self.costs)
        check_waits(self.waits_s)

    @property
    def needs(self) -> frozenset[type[Command]]:
        """``Wake`` to end waits and pauses, if there are any."""
        return frozenset({Wake}) if any(self.waits_s) or self._pauses else frozenset()

    def meet(self, peers: Peers) -> None:
        self._gate = peers.one(RingGate)
        self._query(peers)

    # ---- events -----------------------------------------------------------------------------------------------------

    def start(self, started: Started) -> None:
        self._begin_job(started, self.costs)
        self._links_s: dict[int, float] = {}
        self._change: tuple[RingMode, float] | None = None
        self._seen = frozenset[int]()
        self._took = ""
        self._overhead = RingOverhead()
        self._take(WHOLE)

    def observe_event(self, event: AnyEvent) -> None:
        """Measure links, carry out a decision that is ready, and forget what a loss has made void."""
        self._note(event)
        match event:
            case Arrived(grad=grad, timings=timings):
                self._links_s[grad.worker] = timings.recv_s + timings.send_s
                if self.learning is not None and grad.worker not in self._gate.parents:
                    self._overhead.arrived(event.t, timings.bpt_s)
            case Lost(worker=worker):
                self._links_s.pop(worker, None)
                self._overhead.interrupt()
            case Joined() | Restored():
                self._overhead.interrupt()
        if self._change is not None and is_due(event.t, self._change[1]):
            self._take(self._change[0])
            self._change = None
            self._switches += 1
            self._begins = True  # the round in progress is still of the mode before

    def applied(self, grads: tuple[Grad, ...]) -> None:
        """Measure the mode by its updates, from that which leaves its ring on; members who pause take longer."""
        self._updated = True
        self._measuring.count_update(self._now, 0, grads)
        if self._pause.until_s is None:
            self._overhead.note_update(self._now)
            self._begin()

    def then(self, event: AnyEvent) -> Sequence[AnyCommand]:
        if not isinstance(event, Arrived) or not event.grad.samples:
            return ()
        members = self._gate.roster.members
        deciding = self._change is not None or self._pause.until_s is not None
        look = self._is_time_to_look(1, len(members), deciding=deciding)
        return self._look(event.t, tuple(sorted(members))) if look else ()

    # ---- decisions --------------------------------------------------------------------------------------------------

    def _take(self, mode: RingMode) -> None:
        self._mode = mode
        self._gate.wanted, self._gate.wait_s = mode

    def _look(self, t: float, workers: tuple[int, ...]) -> Sequence[AnyCommand]:
        """Predict, and decide if there is something new or nothing was decided for long."""
        outlook = self._predicts.outlook(workers, t, 0.0 if self.pause else self._takes_s(workers))
        if outlook is None:
            return ()
        times_s, tagged = dict(zip(workers, outlook.times_s, strict=True)), outlook.tagged
        if not tagged:
            self._seen = tagged
            self._learn()
            self._measuring.asked = None
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
        return self._decide(t, times_s, tagged, noise[0])

    def _decide(
        self, t: float, times_s: Mapping[int, float], tagged: Collection[int], phi: float
    ) -> Sequence[AnyCommand]:
        """Cost all modes and take the best, a pause before it."""
        self._learn()
        takes_s = self._takes_s(times_s)
        asked = self._question(times_s, tagged, phi)
        present = asked.present
        by_model = self.learning is not None and self.learning.can_decide(len(times_s))
        priced = asked.by_rule() if self.learning is None else self.learning.price_modes(asked)
        best = min(priced, key=lambda mode: priced[mode])
        self._decisions += 1
        stays = best == present or priced[best] >= (1 - self.min_gain_frac) * priced[present]
        chosen = present if stays else best
        shown = ", ".join(f"{mode} {seconds:.4g} s" for mode, seconds in list(priced.items())[:4])
        self._said = (
            f"{t:.6g} s: stragglers {' '.join(map(str, sorted(tagged)))}; {chosen}, was {present}; best: {shown}"
            f"{' (by the model)' if by_model else ''}"
        )
        self._measuring.asked = asked
        self._begins = chosen == self._mode
        if not self._begins:
            self._change = (chosen, t + takes_s)
        if not self.pause or not takes_s:
            if self._updated:
                self._begin()
            return ()
        self._spacing.note_decision(t, takes_s, changed=chosen != self._mode)
        self._pause.until_s = t + takes_s
        self._overhead.interrupt()
        return (Wake(at_s=self._pause.until_s, tag="decided"),)

    def _question(self, times_s: Mapping[int, float], tagged: Collection[int], phi: float) -> RingQuestion:
        """The question to decide; a child has delivered when it has used its link, too."""
        known = [self._links_s[child] for child in self._gate.parents if child in self._links_s]
        usual_s = fmean(known) if known else self.link_s
        delivered_s = {
            worker: time_s + (self._links_s.get(worker, usual_s) if worker in self._gate.parents else usual_s)
            for worker, time_s in times_s.items()
        }
        there = tuple(worker for worker in self._mode.apart if worker in times_s)
        return RingQuestion(
            times_s=times_s,
            delivered_s=delivered_s,
            tagged=tuple(sorted(tagged)),
            waits_s=tuple(self.waits_s),
            batch_samples=self._batch_samples,
            phi_samples=phi,
            overhead_s=self._overhead.seconds,
            present=self._mode._replace(apart=there[: len(times_s) - 1]),  # the gate does not let the last member leave
            costs=self.costs,
        )

    # ---- what modes took --------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Measure the mode from this update on, if it has been chosen and all have the places that it gives them."""
        if self._begins and self._gate.formed:
            self._begins = False
            self._measuring.begin(self._now, self._batch_samples * len(self._gate.roster.members))

    def _learn(self) -> None:
        """The present mode has been used until now."""
        asked = self._measuring.asked
        if (held := self._measuring.learn(self._mode)) is not None and isinstance(asked, RingQuestion):
            took = RingTook(
                self._mode, held.pace, asked.workers, asked.times, asked.deliveries_s, held.updates, asked.overhead_s
            )
            self._took = str(took)

    def log_state(self) -> State:
        found: State = {
            "mode": str(self._mode),
            "decisions": self._decisions,
            "switches": self._switches,
            "decision": self._said,
        }
        return found if self.learning is None else {**found, **self._learning_state(), "took": self._took}
