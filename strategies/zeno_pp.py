"""Zeno++: asynchronous training that accepts a gradient only if held-out samples say that it is a descent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, final

import msgspec

from strategies.checks import check_choice, check_number, check_whole
from strategies.gated import GatedStrategy
from strategies.gates import EachGate, Gate, Verdict
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Apply,
    Arrived,
    Command,
    Compute,
    Drop,
    Grad,
    Lost,
    Restored,
    Score,
    Scored,
    Started,
)
from strategies.weights import check_lr_rule


@final
@dataclass(kw_only=True)
class ZenoPP(GatedStrategy):
    """ASP with a screen: the servers compare each gradient g with the gradient r of a validation set.

    Source: Xie, Koyejo, Gupta, "Zeno++: robust fully asynchronous SGD", ICML 2020, and its code. At ``Arrived`` a score
    is asked for, with a new r for every ``refresh_every``-th gradient, accepted or not. At ``Scored``::

        c = |r| / |g|,   score = gamma c <r, g> - rho |c g|^2 + gamma eps

    of per-sample means; c g is applied if the score is 0 or more, otherwise the gradient is dropped. Its worker goes on
    then, on the newest parameters. A gradient of norm 0 is rejected, and so are all while |r| is 0. The first
    ``warmup_updates`` are plain ASP.

    Departures: the code penalises |g|^2, which depends on the batch (``rho_on=raw``); here it is the norm of what is
    applied, so the rule is cos(r, g) >= rho / gamma - eps / |r|^2 and depends on no size. Rejected samples are computed
    again unless ``discard``; but once ``give_up_after`` gradients in a row were rejected, nothing would come out
    otherwise any more, and they are given up. The validation samples are the same throughout.

    Attributes:
        rho: weight of the penalty.
        eps: slack of the score; None: every gradient is accepted that has a direction.
        gamma: None: the job's learning rate, before any schedule.
        refresh_every: gradients for one reference gradient.
        validation_samples: held out of the training data, by seed.
        rho_on: norm in the penalty, ``applied`` or ``raw``.
        rescale: apply c g; otherwise g, and c is 1.
        discard: samples of rejected gradients are not computed again.
        give_up_after: rejections in a row after which they are given up in any case.
        warmup_updates: that are not screened.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.weights`.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Compute, Apply, Drop, Score})
    rescales: ClassVar[bool] = True

    rho: float = 0.001
    eps: float | None = 0.0
    gamma: float | None = None
    refresh_every: int = 10
    validation_samples: int = 128
    rho_on: str = "applied"
    rescale: bool = True
    discard: bool = False
    give_up_after: int = 20
    warmup_updates: int = 0
    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def __post_init__(self) -> None:
        """Check the fields."""
        check_number("rho", self.rho, 0.0)
        if self.eps is not None:
            check_number("eps", self.eps, 0.0)
        if self.gamma is not None:
            check_number("gamma", self.gamma, above=0.0)
        check_whole("refresh_every", self.refresh_every, 1)
        check_whole("validation_samples", self.validation_samples, 1)
        check_choice("rho_on", self.rho_on, "applied", "raw")
        check_whole("give_up_after", self.give_up_after, 1)
        check_whole("warmup_updates", self.warmup_updates)
        check_lr_rule(self.lr_rule)

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """Nobody waits for another."""
        return EachGate(workers)

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Ask for a score, or judge by it."""
        match event:
            case Started():
                self._gamma = (event.lr or 1.0) if self.gamma is None else self.gamma
                self._accepted = self._rejected = 0
                self._score = 0.0
                self._forget()
            case Restored():
                self._forget()
            case Lost():
                self._waits.pop(event.worker, None)
            case Arrived(grad=grad) if grad.samples and self._version >= self.warmup_updates:
                return [self._ask(grad)]
            case Scored():
                return self._judge(event)
        return super().handle(event)

    def _forget(self) -> None:
        """Nothing is under way."""
        self._waits: dict[int, int] = {}
        self._incoming = self._in_a_row = 0

    def _ask(self, grad: Grad) -> Score:
        refresh = self._incoming % self.refresh_every == 0
        self._incoming += 1
        self._waits[grad.worker] = grad.id
        return Score(grad=grad.id, refresh=refresh)

    def _judge(self, scored: Scored) -> list[AnyCommand]:
        grad, factor = scored.grad, self._factor(scored)
        accepted = factor > 0 and self._accepts(scored, factor)
        self._accepted += accepted
        self._rejected += not accepted
        self._in_a_row = 0 if accepted else self._in_a_row + 1
        go = (grad.worker,) if self._waits.get(grad.worker) == grad.id else ()
        if go:
            del self._waits[grad.worker]
        if accepted:
            return [_weighed(command, factor) for command in self._carry_out(Verdict(apply=(grad,), go=go))]
        lost = self.discard or self._in_a_row >= self.give_up_after
        return [Drop(grads=(grad.id,), requeue=not lost), *self._carry_out(Verdict(go=go))]

    def _factor(self, scored: Scored) -> float:
        """What the gradient is multiplied by; 0 where there is no direction to go by."""
        if not scored.sqr_grad or not scored.sqr_ref:
            return 0.0
        return sqrt(scored.sqr_ref / scored.sqr_grad) if self.rescale else 1.0

    def _accepts(self, scored: Scored, factor: float) -> bool:
        penalised = factor * factor * scored.sqr_grad if self.rho_on == "applied" else scored.sqr_grad
        self._score = self._gamma * (factor * scored.dot + (self.eps or 0.0)) - self.rho * penalised
        return self.eps is None or self._score >= 0

    def log_state(self) -> dict[str, float | int | str]:
        """Gradients that were judged since the start, and the last score (with ``eps=null`` as if that were 0)."""
        judged = self._accepted + self._rejected
        return {
            "accepted": self._accepted,
            "rejected": self._rejected,
            "acceptance_ratio": self._accepted / judged if judged else 1.0,
            "score": self._score,
        }


def _weighed(command: AnyCommand, factor: float) -> AnyCommand:
    if not isinstance(command, Apply):
        return command
    return msgspec.structs.replace(command, weights=tuple([factor * weight for weight in command.weights]))
