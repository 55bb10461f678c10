"""Watchdog: what operators do with a detector of stragglers.

1. Every worker computes B / N samples; an update is the mean of all gradients (BSP).
2. A detector (``detector``, a predictor of ``predictors.registry``) receives the time of every iteration (``alarms``).
3. Every ``decide_every_s`` its alarms are read. Of the workers that have been tagged at all readings for at least
   ``min_slow_s``, one is restarted on another machine, by AntDT's rule KILL_RESTART (``antdt.kill_restart``): unless a
   new one would wait longer than ``max_pending_s`` for a machine, it was restarted ``max_restarts`` times, or
   ``cooldown_s`` have not passed since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from reading.ranges import OneOf
from strategies.antdt.kill_restart import KillRestart, RestartSettings
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import AllGate
from strategies.parts.load.shares import EvenLoad
from strategies.protocol import DATA_POLICIES
from strategies.watchdog.alarms import Alarms, AlarmSettings


@final
@dataclass(kw_only=True)
class Watchdog(RestartSettings, AlarmSettings, Composition):
    """BSP in which workers that a detector tags for long enough are restarted on another machine.

    Source: none; it makes detectors comparable by what acting on them costs. The algorithm is above.

    Attributes:
        decide_every_s: seconds between two readings of the detector.
        data: allocation policy of the data service.
    """

    decide_every_s: float = 60.0
    data: Annotated[str, OneOf(*DATA_POLICIES)] = "dynamic"

    def compose(self) -> Parts:
        return self.make(
            Parts,
            detectors={"alarms": self.make(Alarms)},
            actions={"kill_restart": self.make(KillRestart)},
            load=EvenLoad(),
            gate=AllGate(),
        )
