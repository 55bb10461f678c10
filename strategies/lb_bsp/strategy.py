"""LB-BSP: BSP in which the batch sizes follow the workers' speeds.

Symbols: x_i is the batch of worker i, v_i its samples per second, X (here B) the global batch, Delta ``delta_samples``.
A round of all workers is one update, the mean over its samples, whatever the x_i are.

Processors (``kind: cpu``), before every round:

1. v_i of the last round: samples over loading and computing time (``forecast``).
2. The next v_i is predicted by NARX, from the last ones and from what the worker has of processor and memory
   (``forecast``, ``predictors``); ``predictor`` has simpler ones.
3. x_i in proportion to v_i, in whole samples: min max_i x_i / v_i with sum_i x_i = B (``by_speed``), and one more for a
   worker that rounding would keep early.

Accelerators (``kind: gpu``), whose time is flat below saturation, so that shares by speed would be wrong:

1. The median time T_i of every worker over ``window_iters`` rounds (``by_steps``).
2. Leader l: the fastest below ``max_batch_samples``; straggler s: the slowest above ``min_batch_samples``.
3. If T_s - T_l > ``dead_band_frac`` T_l: Delta samples move from s to l.
4. If they are the last pair with swapped roles: Delta is halved and the window doubled before.
5. If a time changes by over 20 % more than moves explain, Delta and window return to their first values; a worker that
   has recovered gets its former batch back, one step per round.
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
            return Parts(gate=AllGate(), load=by_steps)
        return Parts(gate=AllGate(), load=by_speed, detectors={"forecast": forecast})
