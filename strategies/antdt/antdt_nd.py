"""AntDT-ND: AntDT's solution for non-dedicated (shared) clusters (section VI-A).

Symbols: T_i is the mean batch processing time of worker i, B_i its batch, v_i its samples per second; B the global
batch; lambda ``slowness_ratio``; L_trans and L_per ``short_window_s`` and ``long_window_s``.

1. Monitor (``monitor``): each worker reports the mean time and batch of every ``report_iters`` iterations. A node has a
   window of L_trans and one of L_per; one counts when the node has been there for 0.8 of it and it has ``min_records``.
2. Every ``decide_every_s`` (``detector``): worker i is a *transient* straggler if T_i >= lambda mean_j T_j over
   L_trans, a *persistent* one if that holds over L_per. Server j is persistent if its time per update over L_per is >=
   lambda times the mean of all servers.
3. KILL_RESTART (``kill_restart``) of one node at most, the slowest that may: a persistent server; if none, a persistent
   worker, unless a new one would be pending for more than ``max_pending_s``. A node may be restarted ``max_restarts``
   times, ``cooldown_s`` apart.
4. ADJUST_BS (``adjust_bs``; BSP only) if a worker was killed or another is a transient straggler: Eq. 3, min max_i B_i
   / v_i with sum_i B_i = B in whole samples, over all but the killed worker, v_i = mean of B_i / T_i over L_trans. The
   batches hold from the next round on.
5. Otherwise NONE; but batches that were adjusted are solved again, which makes them even when all are equally fast.

In BSP an update is one round of all workers, in ASP one gradient; in ASP steps 1 to 3 remain, because the data service
balances the load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, final

from reading.ranges import OneOf
from strategies.antdt.adjust_bs import AdjustBS
from strategies.antdt.detector import DetectorSettings, StragglerDetector
from strategies.antdt.kill_restart import KillRestart, RestartSettings
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
    VI-A; the algorithm is above. In every round the assigned sizes sum to the global batch, whichever workers leave or
    join; a newcomer begins with B / N.

    Where the paper is silent: KILL precedes ADJUST, so that a node about to be killed does not first get a tiny batch;
    ``max_restarts`` holds for servers, too, so that a slowness that no restart cures does not stop the job forever; a
    decision without a transient straggler solves the sizes again from the present paces, which makes them even when no
    pace differs by more than noise (``judge: published``: even after two such decisions, if all workers are about
    equally fast by then).

    Departures: by default T_i contains sending (``times``), so that a slow link is detected, and workers are compared
    at equal work (``judge``: seconds over samples and the fixed cost as samples, v_i its inverse), so that a
    straggler with a small batch is still one. It must then be slow in most records and in the newest, too.

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
        return self.make(
            Parts,
            gate=AllGate() if self.mode == "bsp" else EachGate(),
            load=AdjustBS() if self.mode == "bsp" else EvenLoad(),
            detectors={"stragglers": self.make(StragglerDetector)},
            actions={"kill_restart": self.make(KillRestart)},
        )
