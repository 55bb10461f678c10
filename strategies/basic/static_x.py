"""Static x-order: an update of every x gradients, between ASP and BSP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.basic.exactly import ExactlyGate
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts


@final
@dataclass(kw_only=True)
class StaticX(Composition):
    """The parameters are updated with the mean of every ``x`` gradients that arrive, whoever computed them.

    Source: STAR, section IV-B (static-x-order). Decided at ``Arrived``: the x-th gradient since the last update makes
    the next, and the workers whose gradients are in it continue. A late gradient becomes part of the next update and is
    never dropped, and a worker whose gradient waits does not compute. The learning rate is scaled by the share of the
    global batch, x / N. With ``x`` the number of workers it is BSP, with 1 ASP, event for event.

    Where the paper is silent: when fewer than ``x`` gradients can still arrive (workers have left, the data of an epoch
    is used up), those make the update.

    Attributes:
        x: gradients per update, from 1 to the number of workers.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.parts.weights`.
    """

    x: int = 2
    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def compose(self) -> Parts:
        """A gate of exactly x gradients of any age."""
        return self.make(Parts, gate=self.make(ExactlyGate))
