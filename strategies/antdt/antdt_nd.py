"""AntDT-ND: AntDT's solution for non-dedicated (shared) clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from strategies.antdt.adjust_bs import AdjustBS
from strategies.antdt.detector import DetectorSettings, StragglerDetector
from strategies.antdt.kill_restart import KillRestart, RestartSettings
from strategies.parts.checks import OneOf
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import AllGate, EachGate
from strategies.parts.load.shares import EvenLoad
from strategies.protocol import DATA_POLICIES


@final
@dataclass(kw_only=True)
class AntDTND(RestartSettings, DetectorSettings, Composition):
    """Transient stragglers get smaller batches (ADJUST_BS), persistent ones a new machine (KILL_RESTART).

    Source: "AntDT: A self-adaptive distributed training framework for leader and straggler nodes", ICDE 2024, section
    VI-A. Decided every ``decide_every_s`` seconds from what the Monitor has seen: a worker is a *transient* straggler
    if its mean time over the short window is at least ``slowness_ratio`` times the mean of all workers, and a
    *persistent* one if that holds over the long window; servers likewise, by their time per update. ``times`` says
    which time (the paper: batch processing time, without sending), and ``judge`` whether times are compared as they are
    (the paper) or as paces at equal work. One node is restarted, the slowest of the first case that applies:

    1. persistent server: KILL_RESTART;
    2. persistent worker, if a new one would be pending for no more than ``max_pending_s``: KILL_RESTART.

    In BSP the batch sizes are then solved again, without the killed worker, if one was killed or any other is a
    transient straggler: min max B_i / v_i with sum B_i = B. In every round the assigned sizes sum to the global batch,
    whichever workers leave or join; a newcomer begins with B / N. In ASP sizes stay: the data service balances the
    load, and only the restarts remain.

    Where the paper is silent: KILL precedes ADJUST, so that a node about to be killed does not first get a tiny batch;
    ``max_restarts`` holds for servers, too, so that a slowness that no restart cures does not stop the job forever; a
    decision without a transient straggler solves the sizes again from the present paces, which makes them even when no
    pace differs by more than noise (``judge: published``: even after two such decisions, if all workers are about
    equally fast by then).

    Departures: by default times contain sending, so that a slow link is detected, and are compared at equal work, so
    that a straggler with a small batch is still one.

    Attributes:
        mode: ``bsp`` or ``asp``.
        decide_every_s: seconds between two decisions.
        lr_rule: of ``asp``, see :mod:`strategies.parts.weights`.
        data: allocation policy of the data service; ``shared``, because batch sizes differ by much.
    """

    mode: Annotated[str, OneOf("bsp", "asp")] = "bsp"
    decide_every_s: float = 300.0
    lr_rule: str = "batch_linear"
    data: Annotated[str, OneOf(*DATA_POLICIES)] = "shared"

    def compose(self) -> Parts:
        """BSP or ASP, with one detector for restarts and batch sizes."""
        return self.make(
            Parts,
            gate=AllGate() if self.mode == "bsp" else EachGate(),
            load=AdjustBS() if self.mode == "bsp" else EvenLoad(),
            detectors={"stragglers": self.make(StragglerDetector)},
            actions={"kill_restart": self.make(KillRestart)},
        )
