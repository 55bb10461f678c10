"""LB-BSP: BSP in which the batch sizes follow the workers' speeds.

Symbols: x_i is the batch of worker i of N, v_i its samples per second, X (here B) the global batch, Delta
``delta_samples`` (32). A round of all workers is one update, the mean over its samples, whatever the x_i are.

Processors (``kind: cpu``), before every round:

1. v_i: samples over loading and computing time, the highest of the last ``confirm_iters`` (1) rounds (``forecast``).
2. The next v_i is predicted (``forecast``, ``predictors``) by NARX, v(t+1) = f(v(t), v(t-1); c(t+1), c(t); m(t+1),
   m(t)): c and m are the worker's processor and memory, f has a layer of 10 tanh units and is trained online, on the
   last 200 iterations. ``predictor`` has simpler rules. A worker with fewer than ``min_records`` iterations gets the
   median v of the other workers.
3. x_i in proportion to v_i, in whole samples and between the bounds: min max_i x_i / v_i with sum_i x_i = B
   (``by_speed``). If this gives worker i no more than its last batch x_i', although x_i' < B / N and
   x_i' / v_i < 0.95 B / sum_j v_j, it gets x_i' + 1: the fixed cost of an iteration makes a small batch look
   slow. If that makes it late, the next try follows after twice as many rounds.

Accelerators (``kind: gpu``), whose time is flat below saturation, so that shares by speed would be wrong; after every
window of ``window_iters`` rounds (8; ``by_steps``):

1. T_i is the median time of worker i over the window, T_i' that in the window before, with a batch of x_i'. If T_i >
   1.2 max(1, x_i / x_i') T_i' or T_i < 0.8 min(1, x_i / x_i') T_i', its speed has changed: Delta and window return to
   their first values. A worker that became slow and is fast again gets its former batch back, at most Delta per round.
2. Leader l: the fastest worker below ``max_batch_samples``; straggler s: the slowest above ``min_batch_samples``.
3. If T_s - T_l > ``dead_band_frac`` T_l (0.05), samples move. If s was the leader and l the straggler at the last move,
   Delta is halved first and the window doubled, while Delta is above 1.
4. Delta samples move from s to l, or fewer at a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from reading.ranges import OneOf
from strategies.lb_bsp.by_speed import SpeedLoad
from strategies.lb_bsp.by_steps import StepsLoad, StepsSettings
from strategies.lb_bsp.forecast import Forecast, ForecastSettings
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import AllGate


@final
@dataclass(kw_only=True)
class LBBSP(StepsSettings, ForecastSettings, Composition):
    """One update per round of all workers, each with a batch that fits its speed; the batches always sum to B.

    Source: Chen et al., "Semi-dynamic load balancing", SoCC 2020; AntDT's and STAR's baseline LB-BSP; the algorithm is
    above. Decided between two rounds, never within one.

    Departures: times are loading and computing (AntDT's BPT): batch sizes do not change how long a transfer takes.
    STAR compares iteration times (``times: iteration``), so its LB-BSP sees a slow link and takes computing away from
    the worker behind it. The split is the exact integer one instead of rounded shares, and a worker that rounding would
    keep early gets one more sample. When members leave or join, the next round's sizes again sum to B, beyond the
    bounds if necessary.

    Attributes:
        kind: ``cpu`` or ``gpu``.
        data: allocation policy, ``shared``, ``dynamic`` or ``even``; batch sizes differ by much.
    """

    kind: Annotated[str, OneOf("cpu", "gpu")] = "cpu"
    data: str = "shared"

    def compose(self) -> Parts:
        forecast, by_speed, by_steps = self.make(Forecast), self.make(SpeedLoad), self.make(StepsLoad)
        if self.kind == "gpu":
            return Parts(load=by_steps, gate=AllGate())
        return Parts(detectors={"forecast": forecast}, load=by_speed, gate=AllGate())
