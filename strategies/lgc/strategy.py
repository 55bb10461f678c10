"""LGC: live gradient compensation, synchronous training whose late gradients still count.

Symbols: N workers, w_t the parameters after t updates, G_i(w) the gradient sum of worker i, B the global batch, K
``k_fastest`` (None: three quarters of N, rounded up; STAR: 5).

1. All workers begin together: worker i computes G_i on w_0, later on the newest w_t.
2. Update t waits for the K fastest gradients on w_t (``delayed``).
3. It adds the gradients of slower workers that have arrived since the last update and are one update late, j with G_j
   on w_{t-1}, and divides by the global batch, however many there are:
   w_{t+1} = w_t - lr / B (sum of the K G_i(w_t) + sum of the late G_j(w_{t-1})).
4. Workers whose gradients are in the update compute on w_{t+1} (after a late gradient a worker may begin earlier, on
   w_t: ``late_begin``); the others continue on what they have begun.
5. A gradient that is more than ``max_delay_versions`` (the paper: 1) updates late is dropped.

Partial gradients (``delayed``): a batch comes in ``blocks`` parts. Each part counts as a gradient in step 3, fresh or
late; only workers with all parts on w_t count towards K. LGC-AR (``slowest``, ``strategies.parts.gates.ring``): the K
workers with the least mean time sum their gradients in a ring; they are chosen again every ``reselect_iters`` updates.
Every other worker is the child of the ring worker with the fewest children (STAR: with the highest bandwidth to it),
which adds the child's gradient to its own in the next sum; then the child begins again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from reading.ranges import NonNegativeFloat, OneOf, PositiveInt
from strategies.lgc.delayed import BlocksGate, DelayedGate
from strategies.lgc.slowest import SlowestApart
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import RingGate


@final
@dataclass(kw_only=True)
class LGC(Composition):
    """An update waits for the ``k_fastest`` fresh gradients and includes those that are one update late.

    Source: Xu et al., "Live gradient compensation for evading stragglers in distributed learning", INFOCOM 2021, by its
    abstract and STAR's description (section V-A); the algorithm is above. Decided at ``Arrived``. With ``batch_linear``
    the step is smaller when fewer contribute, since it is divided by the whole global batch.

    Where the sources are silent: a late worker that has delivered begins again at once if its next gradient should be
    late by ``max_delay_versions`` at most, given its last time and the last interval between updates; otherwise it
    waits for the next update (``late_begin``). A gradient that is even later is dropped and its samples return to the
    queue. When fewer than K workers can still be fresh, those suffice. With ``blocks`` a part begins when the last one
    has arrived, on the newest parameters, which is less stale than the paper's parts of one gradient.

    STAR's own code differs and is not followed: it adds the first K without dividing, leaves the next K arrivals for
    the following step whatever their age, and sets K to N - 2.

    LGC-AR (``topology=allreduce``) is STAR's. It waits for no child, unless ``wait_s`` says for how long. All links
    count as equally fast; how often the ring is chosen again, STAR does not say.

    Attributes:
        k_fastest: K, fresh gradients that an update waits for, of fewer workers all (BSP); None: three quarters of the
            workers, rounded up. STAR: 5, in jobs of 4 to 12.
        max_delay_versions: updates by which a gradient may be late and still count; 1 is the paper's.
        blocks: parts of a batch; 1: whole gradients only.
        late_begin: when a late worker begins again (without blocks): ``in_time`` or ``next_update``.
        requeue: False loses the samples of dropped gradients.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.parts.weights`.
        topology: ``ps``, or ``allreduce`` for LGC-AR, on which alone it then works.
        reselect_iters: updates from one choice of the ring to the next, with ``allreduce``.
        wait_s: seconds that a parent waits for its children after its own gradient, with ``allreduce``.
    """

    k_fastest: int | None = None
    max_delay_versions: int = 1
    blocks: PositiveInt = 1
    late_begin: str = "in_time"
    requeue: bool = True
    data: str = "dynamic"
    lr_rule: str = "batch_linear"
    topology: Annotated[str, OneOf("ps", "allreduce")] = "ps"
    reselect_iters: PositiveInt = 50
    wait_s: NonNegativeFloat = 0.0

    def compose(self) -> Parts:
        if self.topology == "allreduce":
            return self._ring()
        if self.wait_s:
            raise ValueError(f"wait_s={self.wait_s:g}: servers have no parents that wait; use topology=allreduce, or 0")
        whole, in_parts = self.make(DelayedGate), self.make(BlocksGate)
        return self.make(Parts, gate=whole if self.blocks == 1 else in_parts)

    def _ring(self) -> Parts:
        """The ring of the K fastest, which does not wait for its children."""
        if self.blocks != 1:
            raise ValueError(f"blocks={self.blocks}: a ring sums whole gradients; use blocks=1, or topology=ps")
        return self.make(Parts, gate=self.make(RingGate), schedule=self.make(SlowestApart))
