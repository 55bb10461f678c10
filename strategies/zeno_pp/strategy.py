"""Zeno++: asynchronous training that accepts a gradient only if held-out samples say that it is a descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import EachGate
from strategies.zeno_pp.descent import DescentScreen, DescentSettings


@final
@dataclass(kw_only=True)
class ZenoPP(DescentSettings, Composition):
    """ASP with a screen: the servers compare each gradient g with the gradient r of a validation set.

    Source: Xie, Koyejo, Gupta, "Zeno++: robust fully asynchronous SGD", ICML 2020, and its code. At ``Arrived`` a score
    is requested, with a new r for every ``refresh_every``-th gradient, accepted or not. At ``Scored``::

        c = |r| / |g|,   score = gamma c <r, g> - rho |c g|^2 + gamma eps

    of per-sample means; c g is applied if the score is 0 or more, otherwise the gradient is dropped. Then its worker
    continues, on the newest parameters. A gradient of norm 0 is rejected, and so are all while |r| is 0. The first
    ``warmup_updates`` are plain ASP.

    Departures: the code penalises |g|^2, which depends on the batch (``rho_on=raw``); here it is the norm of what is
    applied, so the rule is cos(r, g) >= rho / gamma - eps / |r|^2 and depends on no size. Rejected samples are computed
    again unless ``discard``; after ``give_up_after`` rejections in a row they are given up all the same, because the
    job might never end otherwise. The validation samples are the same throughout.

    Attributes:
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.parts.weights`.
    """

    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def compose(self) -> Parts:
        """ASP's gate behind a screen: a worker waits only for the score of its own gradient."""
        return self.make(Parts, gate=EachGate(), screen=self.make(DescentScreen))
