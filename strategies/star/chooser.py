"""STAR's schedule: predict, tag, cost all modes, change to the best after an update (sections IV-B, IV-C; pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Annotated, ClassVar, NamedTuple, final

import msgspec

from reading.ranges import NonNegativeFloat, OneOf
from strategies.parts.gates.base import Verdict
from strategies.parts.hooks import Peers, State
from strategies.parts.monitoring.base import MeasuresNoise, cluster_by_ratio
from strategies.parts.nodes import is_due
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Arrived,
    Command,
    Grad,
    Reserve,
    Reserved,
    Restored,
    Started,
    Wake,
)
from strategies.star.choice import Choice, Decision, Groups, mode_among_costs
from strategies.star.deciding import Deciding
from strategies.star.demands import ModeDemands, Reserving
from strategies.star.modal import SSGD, ModalGate, Mode
from strategies.star.predicted import Outlook, PredictedTimes
from strategies.star.server_question import Question, ServerQuestion
from strategies.star.times import updates_per_progress

ASK_AGAIN_ITERS = 10
"""Average iterations of every worker after which a refused mode is asked for again, since others' needs change."""
CALM = ("ssgd", "cheaper")
"""Possible modes without stragglers."""


class Change(NamedTuple):
    """A mode that has been chosen, to be taken with the first update from ``ready_s`` on."""

    mode: Mode
    ready_s: float


@final
@dataclass(kw_only=True)
class ModeChooser(Deciding):
    """Chooses a mode when stragglers, clusters or predicted times change, and now and then while there are stragglers.

    A decision takes ``decision_s``. With ``pause`` no worker begins to compute meanwhile; otherwise training continues
    in the old mode, and the decision is based on predictions that much further ahead. The new mode is taken with the
    first update after the decision (an update during the pause is enough, as no worker has begun to compute since).
    Without stragglers it is SSGD, or with ``when_calm: cheaper`` the present mode if SSGD would cost more, so that the
    next straggler need not hold up a whole round before it is known. Neither takes ``decision_s``. A predicted time has
    changed if it differs by more than ``cluster_frac`` from the last decision's.

    Attributes:
        choice: the candidates, and how one is chosen.
        cluster_frac: part of the fastest member's time by which the slowest of a cluster may take longer.
        when_calm: the mode without stragglers: ``ssgd`` (STAR), or ``cheaper``.
        prevention: modes' needs from the hosts, requested before a mode is taken; one that is refused
            gives way to the next best, and SSGD needs nothing (section IV-D1). None: nothing is asked for.
    """

    looks_at: ClassVar[tuple[type, ...]] = (ModalGate, PredictedTimes, MeasuresNoise)

    choice: Choice = field(default_factory=Choice)
    cluster_frac: NonNegativeFloat = 0.2
    when_calm: Annotated[str, OneOf(*CALM)] = "ssgd"
    prevention: ModeDemands | None = None

    def __post_init__(self) -> None:
        self._check("ps", self.choice.costs)
        if not isinstance(self.prevention, ModeDemands | None):
            raise ValueError(f"prevention={self.prevention}: must be a strategies.star.demands.ModeDemands, or null")
        self._calm = replace(self.choice, modes=("ssgd",))

    @property
    def needs(self) -> frozenset[type[Command]]:
        """``Wake`` only if there is a pause to end, ``Reserve`` only if modes are asked for."""
        reserves = frozenset[type[Command]]() if self.prevention is None else frozenset({Reserve})
        return reserves | {Wake} if self._pauses else reserves

    @property
    def watches_use(self) -> bool:
        """Whether it must know what servers use."""
        return self.prevention is not None

    def meet(self, peers: Peers) -> None:
        self._gate = peers.one(ModalGate)
        self._query(peers)

    # ---- events -----------------------------------------------------------------------------------------------------

    def start(self, started: Started) -> None:
        self._begin_job(started, self.choice.costs)
        self._gate.mode = SSGD
        self._change: Change | None = None
        self._at_boundary = False
        self._seen: tuple[frozenset[int], Groups] | None = None
        self._decided_s: dict[int, float] = {}
        self.decision: Decision | None = None
        self._reserving: Reserving | None = None
        self._holds = False
        """Whether more is reserved than SSGD needs."""
        self._refused = False
        """Whether the last decision would have been another if the cluster had granted it."""
        if self.prevention is not None:
            self.prevention.reset(started)

    def observe_event(self, event: AnyEvent) -> None:
        """Note lost workers; after a restore training begins in the mode chosen last, without a pause."""
        self._note(event)
        if self.prevention is not None:
            self.prevention.observe(event, synchronous=self._gate.mode == SSGD)
        if isinstance(event, Restored):
            self._holds, self._reserving = self._holds or self._reserving is not None, None
            if self._change is not None:
                self._gate.mode, self._change = self._change.mode, None
                self._switches += 1

    def applied(self, grads: tuple[Grad, ...]) -> None:
        """Note that this event makes an update, with which the mode may change."""
        self._updated = True
        self._measuring.count_update(self._now, self._gate.at.of.get(grads[0].worker, 0), grads)
        if self._begins and self._pause.until_s is None:
            self._begin()

    def then(self, event: AnyEvent) -> Sequence[Verdict | AnyCommand]:
        """Change the mode if it is time, then predict and decide if it is time for that."""
        answers: list[Verdict | AnyCommand] = [*self._take_change(event.t)]
        if isinstance(event, Reserved) and self._reserving is not None:
            answers += self._handle_answer(event, self._reserving)
        elif isinstance(event, Arrived) and event.grad.samples:
            arrived = len(event.grad.members) or 1
            if self._is_time_to_look(arrived, len(self._gate.members), deciding=self._is_deciding()):
                answers += self._look(event.t)
        if self._holds and self._gate.mode == SSGD and not self._is_deciding():
            self._holds = False
            answers.append(Reserve())
        return answers

    # ---- decisions --------------------------------------------------------------------------------------------------

    def _is_deciding(self) -> bool:
        return self._change is not None or self._reserving is not None or self._pause.until_s is not None

    def _look(self, t: float) -> Sequence[Verdict | AnyCommand]:
        """Predict, and decide if there is something new or nothing was decided for long."""
        workers = tuple(sorted(self._gate.members))
        outlook = self._predicts.outlook(workers, t, 0.0 if self.pause else self._takes_s(workers))
        if outlook is None:
            return ()
        if not outlook.tagged:
            self._seen = None
            if self._gate.mode == SSGD or self._stays(workers, outlook.times_s):
                return ()
            self._measuring.learn(self._gate.mode)
            self._measuring.asked = None
            self._said = f"{t:.6g} s: no stragglers; ssgd, was {self._gate.mode}"
            return self._changing_to(SSGD, t, t)
        clusters = cluster_by_ratio(outlook.times_s, 1 + self.cluster_frac)
        groups = tuple(tuple(workers[index] for index in group) for group in clusters)
        noise = self._noise.phi_of(self._batch_samples * len(workers))
        if noise is None or not (self.prevention is None or self.prevention.is_known):
            return ()
        same = self._seen == (outlook.tagged, groups) and not self._has_moved(workers, outlook.times_s)
        most_iters = min(self.redecide_iters, ASK_AGAIN_ITERS) if self._refused else self.redecide_iters
        if (same and self._iters < most_iters) or self._spacing.waits(t):
            return ()
        self._seen, self._iters = (outlook.tagged, groups), 0
        self._decided_s = dict(zip(workers, outlook.times_s, strict=True))
        return self._decide(t, workers, outlook, groups, noise)

    def _stays(self, workers: tuple[int, ...], times_s: Sequence[float]) -> bool:
        """Whether the present mode is kept without stragglers, because SSGD costs as much or more."""
        noise = self._noise.phi_of(self._batch_samples * len(workers))
        if self.when_calm == "ssgd" or noise is None or "ssgd" not in self.choice.modes:
            return False
        present, everybody = self._gate.mode, (workers,)
        # without candidates between, which are simulated, this costs microseconds; static x is costed as among them
        choice = self.choice if present.groups is None and present.x != 1 else self._calm
        mode_s = choice.price_modes(workers, times_s, everybody, self._batch_samples, noise[0], present)
        return mode_s[SSGD] >= mode_s.get(present, inf)

    def _has_moved(self, workers: tuple[int, ...], times_s: Sequence[float]) -> bool:
        """Whether a time differs from the last decision's by more than the width of a cluster, in fastest times.

        The first prediction of a straggler may be between its old and its new time: it is tagged, but costs are wrong.
        """
        before = [self._decided_s.get(worker, time_s) for worker, time_s in zip(workers, times_s, strict=True)]
        ratios = [(now / min(times_s)) / (then / min(before)) for now, then in zip(times_s, before, strict=True)]
        return any(max(ratio, 1 / ratio) > 1 + self.cluster_frac for ratio in ratios)

    def _decide(
        self, t: float, workers: tuple[int, ...], outlook: Outlook, groups: Groups, noise: tuple[float, float]
    ) -> Sequence[Verdict | AnyCommand]:
        """Cost all modes and take the best; a pause begins in any case, since the decision has to be made."""
        before, (phi, age), takes_s = self._gate.mode, noise, self._takes_s(workers)
        self._refused = False
        self._measuring.learn(before)
        asked = ServerQuestion(
            self.choice, Question(workers, outlook.times_s, groups, self._batch_samples, phi, before)
        )
        by_model = self.learning is not None and self.learning.can_decide(len(workers))
        mode_s = asked.by_rule() if self.learning is None else self.learning.price_modes(asked)
        chosen, why = self.choice.choose(mode_s, before, len(workers))
        self.decision = Decision(
            t=t,
            workers=workers,
            times_s=outlook.times_s,
            tagged=tuple(sorted(outlook.tagged)),
            phi_samples=phi,
            phi_age_updates=age,
            mode_s=mode_s,
            before=before,
            chosen=chosen,
            why=why,
        )
        self._decisions += 1
        self._said = f"{self.decision} ({self.choice.costs}{', by the model' if by_model else ''})"
        self._measuring.asked = asked
        answers: list[Verdict | AnyCommand] = []
        if self.pause and takes_s:
            self._pause.until_s = t + takes_s
            answers.append(Wake(at_s=self._pause.until_s, tag="decided"))
        if self.prevention is None or chosen in (before, SSGD):
            return [*answers, *self._schedule(chosen, t, t, t + takes_s)]
        self._reserving = Reserving(
            t=t,
            modes=self.choice.better(mode_s, before, len(workers)),
            mode_s=mode_s,
            present=before,
            present_s=mode_s[mode_among_costs(before, len(workers))],
            updates_per_batch=updates_per_progress(self._batch_samples * len(workers), phi),
            updated=self._updated,
            ready_s=t + takes_s,
        )
        return [*answers, self._reserving.asks(self.prevention, workers, outlook.times_s)]

    def _handle_answer(self, event: Reserved, reserving: Reserving) -> Sequence[Verdict | AnyCommand]:
        """The cluster grants or refuses a mode: it is taken, or the next is asked for, or the present one stays."""
        assert self.prevention is not None
        assert self.decision is not None
        mode = reserving.take_answer(event)
        if mode is None:
            return (reserving.asks(self.prevention, self.decision.workers, self.decision.times_s),)
        self._reserving, self._refused = None, bool(reserving.refused)
        if event.ok:
            self._holds = True
        if reserving.refused:
            self.decision = msgspec.structs.replace(self.decision, chosen=mode)
            self._said = f"{self.decision}; refused by the cluster: {', '.join(reserving.refused)}"
        self._updated |= reserving.updated and event.t == reserving.t
        return self._schedule(mode, event.t, reserving.t, reserving.ready_s)

    def _schedule(self, mode: Mode, t: float, begun_s: float, ready_s: float) -> Sequence[Verdict]:
        """A decision that was begun at ``begun_s`` is made; its mode is to be taken when it has had its time."""
        before = self._gate.mode
        if self.pause:
            self._spacing.note_decision(begun_s, ready_s - begun_s, changed=mode != before)
        if mode == before:
            self._begins = True
            if self._updated and self._pause.until_s is None:
                self._begin()
            return ()
        return self._changing_to(mode, t, ready_s)

    def _changing_to(self, mode: Mode, t: float, ready_s: float) -> Sequence[Verdict]:
        self._change, self._at_boundary = Change(mode, ready_s), False
        return self._take_change(t)

    def _take_change(self, t: float) -> Sequence[Verdict]:
        """The updates that the change completes, if it is due: with an update, or if no worker computes after one."""
        if self._change is None:
            return ()
        self._at_boundary |= self._updated
        paused = self._pause.until_s is not None
        if not is_due(t, self._change.ready_s) or not (self._updated or (paused and self._at_boundary)):
            return ()
        mode, self._change = self._change.mode, None
        self._switches += 1
        verdicts = self._gate.switch(mode)
        self._begin()
        return verdicts

    def _begin(self) -> None:
        self._begins = False
        self._measuring.begin(self._now, self._batch_samples * len(self._gate.members))

    def log_state(self) -> State:
        own: State = {"decisions": self._decisions, "switches": self._switches, "decision": self._said}
        return {**own, **self._learning_state()}
