"""MLfabric: asynchronous training whose transfers are ordered, so that delays are bounded and updates early.

Symbols: g an update, v(g) the version that it was computed on, tau its delay, tau_max the bound on delays (None: twice
the number of workers), v (slides: v_init) the version when a plan is made. Slot i = 0, 1, ... is applied at version v +
i, so g has the deadline dl(g) = v(g) + tau_max - v. Numbers in brackets are slides, counted by their headings (title:
1). Ties: the lowest id.

1. A worker that has computed says so (``Ready``) and holds g. A plan (steps 2 to 5) is made for all that wait, unless
   an earlier plan is in progress (``ordered``): until its slots are applied, or for ``window_s`` seconds at most.
2. finish(g) (11; ``fluid``, ``bandwidths``): from when g is ready its rate is at each instant the least that a link of
   its path has left after the reservations of earlier slots. A slot reserves exactly this rate for its transfer.
3. Slot i (``order``): a g with dl(g) < i is dropped. The candidate is the g with the least finish(g) among the updates
   with dl(g) = i (12); if there are none, the g with the least finish(g) of all. c(g), the time at which g would be
   applied, is the later of finish(g) and the c of the slot before.
4. If c(candidate) is more than ``idle_tolerance_s`` later than the least c of all, the candidate is dropped (13) and
   slot i is filled again; else it has slot i. If ``idle_tolerance_s`` is None, it is the median time that one of these
   transfers takes alone.
5. With ``num_aggregators`` (0; on hosts without tasks, else on workers' hosts), neighbours in the order are summed (14;
   ``order``) at the aggregator that is free first. A group takes the next update, and the ones after it, as long as
   each reaches the aggregator no later than all earlier groups reach the server. If these are fewer than two, the next
   update goes directly to the server; the first one always does. A sum is one update. A plan that is made while earlier
   slots are in progress has no sums.
6. A replica gets the same updates in the same order (15; ``replicas``). Update k changes the parameters w by momentum:
   h <- mu h + u_k, w <- w + h, mu (slides: gamma) being the momentum factor. If the replica lacks the updates 1 .. L,
   and h is its momentum at its last update, its distance from the server is at most sum_k (1 + mu + ... + mu^(L-k))
   |u_k| + (mu + ... + mu^L) |h|. Before an update is applied, the replica gets the oldest updates that it lacks until
   this bound, with the new update included, is at most Div_max ``divergence_max``.
7. A slot is sent when all transfers that the plan ends before this one begins have arrived (``parallel_sends`` 1; n:
   all but n - 1), so transfers overlap where the plan lets them. Updates are applied in slot order (``ordered``), with
   the learning rate of update t times sqrt(t / (t + tau)) (``lr_rule=adadelay``). A worker whose g is applied or
   dropped continues with the newest parameters.
8. A transfer that takes ``late_factor`` (4) times as long as planned, and 50 ms at least, leaves the order: later slots
   are sent and applied. When it arrives, it gets the first place in the order that raises no other update's delay above
   tau_max, or is dropped if its own delay there would be (ours).
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

    The algorithm is above.

    Departures: the planner's rates are measured by the transfers themselves; a slot waits for arrivals and a control
    message each way, not for its planned time; dropped samples are computed again (``requeue``), the slides lose them;
    late transfers (step 8). ``lr_rule=adadelay`` follows the slides' rate as a function of the delay.

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
