"""Zeno++: asynchronous training that accepts a gradient only if held-out samples say that it is a descent.

Symbols (per-sample means): w the parameters, g a worker's gradient, r the gradient of ``validation_samples`` (the
paper's v), gamma the learning rate at the start, lr the present one, rho and eps weight and slack.

1. The server holds samples out and computes r on them and its present w, for the first gradient that arrives and every
   ``refresh_every``-th after it; until then r stays.
2. g arrives: the servers report <r, g>, |g| and |r|; its worker waits.
3. g is scaled to the length of r: c = |r| / |g|.
4. score = gamma c <r, g> - rho |c g|^2 + gamma eps; if score >= 0 then w <- w - lr c g, else g is dropped.
5. The worker continues on the newest parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, ClassVar, final

from reading.ranges import Checked, NonNegativeFloat, NonNegativeInt, OneOf, PositiveFloat, PositiveInt
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import EachGate
from strategies.parts.gates.base import Verdict
from strategies.parts.hooks import Judged
from strategies.protocol import AnyEvent, Command, Drop, Grad, Lost, Restored, Score, Scored, Started


@dataclass(kw_only=True)
class DescentSettings:
    """Which gradients count.

    Attributes:
        rho: weight of the penalty.
        eps: slack of the score; None: every gradient with a direction is accepted.
        gamma: None: the job's learning rate, before any schedule.
        refresh_every: gradients for one reference gradient.
        validation_samples: held out of the training data, by seed.
        rho_on: norm in the penalty, ``applied`` or ``raw``.
        rescale: apply c g; otherwise g, and c is 1.
        discard: samples of rejected gradients are lost (paper); False: they are computed again.
        give_up_after: rejections in a row after which their samples are lost, too, without ``discard``.
        warmup_updates: first updates, which are not screened.
    """

    rho: NonNegativeFloat = 0.001
    eps: NonNegativeFloat | None = 0.0
    gamma: PositiveFloat | None = None
    refresh_every: PositiveInt = 10
    validation_samples: PositiveInt = 128
    rho_on: Annotated[str, OneOf("applied", "raw")] = "applied"
    rescale: bool = True
    discard: bool = True
    give_up_after: PositiveInt = 20
    warmup_updates: NonNegativeInt = 0


@final
@dataclass(kw_only=True)
class DescentScreen(Checked, DescentSettings):
    """The rule of :class:`strategies.zeno_pp.ZenoPP`, which explains it."""

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Score, Drop})

    def start(self, started: Started) -> None:
        self._gamma = (started.lr or 1.0) if self.gamma is None else self.gamma
        self._accepted = self._rejected = 0
        self._score = 0.0
        self._forget()

    def observe_event(self, event: AnyEvent) -> None:
        """Forget pending verdicts of a lost worker, and all after a restore."""
        if isinstance(event, Restored):
            self._forget()
        elif isinstance(event, Lost):
            self._waits.pop(event.worker, None)

    def _forget(self) -> None:
        self._waits: dict[int, int] = {}
        self._incoming = self._in_a_row = 0

    def asks(self, grad: Grad, version: int) -> Score | None:
        """Score every gradient except in the first updates and except gradients without samples."""
        if not grad.samples or version < self.warmup_updates:
            return None
        refresh = self._incoming % self.refresh_every == 0
        self._incoming += 1
        self._waits[grad.worker] = grad.id
        return Score(grad=grad.id, refresh=refresh)

    def judged(self, scored: Scored) -> Judged:
        """Apply or drop the gradient; its worker continues, if it is still the same process."""
        grad, factor = scored.grad, self._factor(scored)
        accepted = factor > 0 and self._accepts(scored, factor)
        self._accepted += accepted
        self._rejected += not accepted
        self._in_a_row = 0 if accepted else self._in_a_row + 1
        go = (grad.worker,) if self._waits.get(grad.worker) == grad.id else ()
        if go:
            del self._waits[grad.worker]
        if accepted:
            return Judged(Verdict(apply=(grad,), go=go), factor)
        return Judged(Verdict(drop=(grad,), go=go), requeue=not (self.discard or self._in_a_row >= self.give_up_after))

    def _factor(self, scored: Scored) -> float:
        """The factor c on the gradient; 0 where a norm is 0, so that there is no direction."""
        if not scored.sqr_grad or not scored.sqr_ref:
            return 0.0
        return sqrt(scored.sqr_ref / scored.sqr_grad) if self.rescale else 1.0

    def _accepts(self, scored: Scored, factor: float) -> bool:
        penalised = factor * factor * scored.sqr_grad if self.rho_on == "applied" else scored.sqr_grad
        self._score = self._gamma * (factor * scored.dot + (self.eps or 0.0)) - self.rho * penalised
        return self.eps is None or self._score >= 0

    def log_state(self) -> dict[str, float | int | str]:
        """Number of gradients judged since the start, and the last score (with ``eps=null`` as for 0)."""
        judged = self._accepted + self._rejected
        return {
            "accepted": self._accepted,
            "rejected": self._rejected,
            "acceptance_ratio": self._accepted / judged if judged else 1.0,
            "score": self._score,
        }


@final
@dataclass(kw_only=True)
class ZenoPP(DescentSettings, Composition):
    """ASP with a screen: the servers compare each gradient g with the gradient r of a validation set.

    Source: Xie, Koyejo, Gupta, "Zeno++: robust fully asynchronous SGD", ICML 2020, and its code; the algorithm is
    above. Decided at ``Arrived`` and ``Scored``. Rejected gradients count towards ``refresh_every``. A gradient of norm
    0 is rejected; while |r| is 0, all are. The first ``warmup_updates`` are plain ASP.

    Departures: the code penalises |g|^2, which depends on the batch (``rho_on=raw``); here it is the norm of what is
    applied, so the rule is cos(r, g) >= rho / gamma - eps / |r|^2 and depends on no size. The validation samples are
    the same throughout. With ``discard=false`` rejected samples are computed again, but after ``give_up_after``
    rejections in a row they are lost all the same, because the job might never end otherwise.

    Attributes:
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.parts.weights`.
    """

    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def compose(self) -> Parts:
        return self.make(Parts, gate=EachGate(), screen=self.make(DescentScreen))
