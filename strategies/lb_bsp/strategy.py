"""LB-BSP: BSP in which the batch sizes follow the workers' speeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from strategies.lb_bsp.by_speed import SpeedLoad
from strategies.lb_bsp.by_steps import StepsLoad, StepsSettings
from strategies.lb_bsp.forecast import Forecast, ForecastSettings
from strategies.parts.checks import OneOf
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import AllGate


@final
@dataclass(kw_only=True)
class LBBSP(StepsSettings, ForecastSettings, Composition):
    """One update per round of all workers, each with a batch that fits its speed; the batches always sum to B.

    Source: Chen et al., "Semi-dynamic load balancing", SoCC 2020; AntDT's and STAR's baseline LB-BSP. Decided between
    two rounds, never within one. ``kind: cpu`` predicts every worker's speed for the next round and splits B so that
    the slowest finishes as early as possible. ``kind: gpu`` moves ``delta_samples`` from the slowest worker to the
    fastest once per window, fewer when the two swap roles.

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
        """A gate of rounds with batches by speed; the settings of both kinds are checked."""
        forecast, by_speed, by_steps = self.make(Forecast), self.make(SpeedLoad), self.make(StepsLoad)
        if self.kind == "gpu":
            return Parts(gate=AllGate(), load=by_steps)
        return Parts(gate=AllGate(), load=by_speed, detectors={"forecast": forecast})
