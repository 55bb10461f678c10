"""Zeno++: asynchronous training that accepts a gradient only if held-out samples say that it is a descent.

Symbols (per-sample means): g a worker's gradient, r that of ``validation_samples`` (the paper's v), gamma the learning
rate, rho and eps weight and slack.

1. The server holds samples out and computes r on them, again for every ``refresh_every``-th gradient that arrives.
2. g arrives: the servers report <r, g>, |g| and |r| (``descent``); its worker waits.
3. g is scaled to the length of r: c = |r| / |g|.
4. score = gamma c <r, g> - rho |c g|^2 + gamma eps; at 0 or more w <- w - gamma c g, else g is dropped (``descent``).
5. The worker continues on the newest parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import EachGate
from strategies.zeno_pp.descent import DescentScreen


@final
@dataclass(kw_only=True)
class ZenoPP(Composition):
    """ASP with a screen: the servers compare each gradient g with the gradient r of a validation set.

    Source: Xie, Koyejo, Gupta, "Zeno++: robust fully asynchronous SGD", ICML 2020, and its code; the algorithm is
    above. Decided at ``Arrived`` and ``Scored``. Rejected gradients count towards ``refresh_every``. A gradient of norm
    0 is rejected, and so are all while |r| is 0. The first ``warmup_updates`` are plain ASP.

    Departures: the code penalises |g|^2, which depends on the batch (``rho_on=raw``); here it is the norm of what is
    applied, so the rule is cos(r, g) >= rho / gamma - eps / |r|^2 and depends on no size. Rejected samples are computed
    again unless ``discard``; after ``give_up_after`` rejections in a row they are given up all the same, because the
    job might never end otherwise. The validation samples are the same throughout.

    Attributes:
        rho: weight of the penalty.
        eps: slack of the score; None: every gradient with a direction is accepted.
        gamma: None: the job's learning rate, before any schedule.
        refresh_every: gradients for one reference gradient.
        validation_samples: held out of the training data, by seed.
        rho_on: norm in the penalty, ``applied`` or ``raw``.
        rescale: apply c g; otherwise g, and c is 1.
        discard: samples of rejected gradients are not computed again.
        give_up_after: rejections in a row after which their samples are given up in any case.
        warmup_updates: first updates, which are not screened.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.parts.weights`.
    """

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

    def compose(self) -> Parts:
        """ASP's gate behind a screen: a worker waits only for the score of its own gradient."""
        screen = DescentScreen(
            rho=self.rho,
            eps=self.eps,
            gamma=self.gamma,
            refresh_every=self.refresh_every,
            validation_samples=self.validation_samples,
            rho_on=self.rho_on,
            rescale=self.rescale,
            discard=self.discard,
            give_up_after=self.give_up_after,
            warmup_updates=self.warmup_updates,
        )
        return Parts(gate=EachGate(), screen=screen, lr_rule=self.lr_rule)
