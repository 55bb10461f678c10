"""MLfabric: asynchronous training whose transfers are ordered, so that delays are bounded and updates early.

Symbols: g an update, v(g) the version that it was computed on, tau_max the bound on delays, v the version when a plan
is made; slot i = 0, 1, ... is applied at version v + i. Numbers are those of slides.

1. A worker that has computed says so (``Ready``) and holds g. A plan is made for all that wait, unless an earlier one
   is still in progress (``ordered``, ``window_s``).
2. When a transfer ends follows from what links carry and what is reserved (``fluid``, ``bandwidths``).
3. Slot i goes to the transfer that ends first (11); but to one whose deadline v(g) + tau_max - v is i, if there is one
   (12, 13; ``order``).
4. If that one would end ``idle_tolerance_s`` later than the shortest, it is dropped (14), and the slot goes to the
   next; one that no slot can hold any more is dropped, too.
5. Neighbours in the order are summed at an aggregator if all are there before all earlier ones are at the server (15;
   ``order``); a sum is one update.
6. A replica gets the same updates in the same order, early enough that the bound on its distance from the server stays
   below Div_max ``divergence_max`` (16, 17; ``replicas``).
7. The next is sent when the one before it has arrived; updates are applied in slot order (``ordered``), at a rate that
   falls with the delay (``lr_rule``). The worker continues with the newest parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from reading.ranges import OneOf
from strategies.mlfabric.ordered import OrderedGate, TransferSettings
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.weights import LR_RULES, STALENESS_RULES

WORST_CASE = "worst_case"


@final
@dataclass(kw_only=True)
class MLfabric(TransferSettings, Composition):
    """Workers hold what they have computed; a plan says who sends when, so that transfers share links in time.

    Source: Viswanathan, Balasubramanian and Akella, "Network-accelerated distributed machine learning for multi-tenant
    settings", SoCC 2020, from slides of a talk about it (no code is public).

    The algorithm is above. A transfer that takes ``late_factor`` times as long as planned leaves the order: later ones
    are sent and applied, and it is applied when it arrives, unless that is too late for ``tau_max``.

    Departures: the planner's rates are measured by the transfers themselves; a transfer begins when the one before it
    has arrived, a control message each way later; dropped samples are computed again (``requeue``), the slides lose
    them. ``lr_rule=adadelay`` follows the slides' rate as a function of the delay.

    Attributes:
        lr_rule: one of :data:`strategies.parts.weights.LR_RULES`, or ``worst_case``: ``batch_linear`` /
            sqrt(``tau_max``).
        requeue: whether the samples of dropped gradients are computed again.
        data: allocation policy of the data service.
    """

    lr_rule: Annotated[str, OneOf(*LR_RULES, WORST_CASE)] = "adadelay"
    requeue: bool = True
    data: str = "dynamic"

    rescales = True

    def compose(self) -> Parts:
        bounded = self.lr_rule == WORST_CASE
        if bounded and self.order != "deadlines":
            raise ValueError(f"lr_rule={WORST_CASE}: order={self.order} bounds no delay; use order=deadlines")
        if self.num_aggregators and self.lr_rule in STALENESS_RULES:
            raise ValueError(
                f"num_aggregators={self.num_aggregators}: lr_rule={self.lr_rule} weights each gradient by its delay, "
                "and a sum has one weight; use lr_rule=batch_linear, unit or worst_case"
            )
        lr_rule = "batch_linear" if bounded else self.lr_rule
        gate = self.make(OrderedGate, scale=None if bounded else 1.0, lr_rule=lr_rule)
        return self.make(Parts, gate=gate, lr_rule=lr_rule)
