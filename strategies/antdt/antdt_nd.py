"""AntDT-ND: AntDT's solution for non-dedicated (shared) clusters (section VI-A).

Symbols: B is the global batch, N (AntDT: n) the number of workers, B_i the batch of worker i, v_i its samples per
second, T_i its time of an iteration (AntDT: T_i^w; of a server T_i^s). Windows of the last seconds: L_trans
``short_window_s`` (300 s), L_per ``long_window_s`` (600 s); lambda ``slowness_ratio`` (1.5). With
``judge=at_equal_work`` (the default, ours) workers are compared by the pace T_i / (B_i + c), c being the fixed cost of
an iteration as a number of samples. c is fitted to iterations with different batches, and 0 before there are any. With
``judge=published`` T_i takes the place of the pace, and c = 0.

1. Workers begin with B_i = B / N. Monitor (``monitor``): every ``report_iters`` iterations (10) a worker reports the
   mean of their times and batches; this is a record. A decision uses a node's window once the node has been there for
   0.8 of its length and the window has ``min_records`` (5) records.
2. Every ``decide_every_s`` (300 s; ``detector``): worker i is a *transient* straggler if its mean pace over L_trans is
   at least lambda times the mean of all workers, itself included, and a *persistent* one if that holds over L_per.
   (``at_equal_work``: it must hold for the medians of the records, and for the newest ``min_records``, too.) A server
   is persistent if its mean T_i^s over L_per is at least lambda times the mean of all servers.
3. KILL_RESTART (``kill_restart``) of at most one node (ours), on another machine: the slowest persistent server that
   may be restarted; if there is none, the slowest persistent worker that may be, unless a new worker would wait longer
   than ``max_pending_s`` (600 s) for a machine; a new server may wait. A node is restarted at most ``max_restarts`` (3)
   times, ``cooldown_s`` (600 s) apart.
4. ADJUST_BS (``adjust_bs``; only BSP), if step 3 killed a worker or a worker that was not killed is transient: Eq. 3,
   min max_i (B_i + c) / v_i with sum_i B_i = B in whole samples, at least one each, over all workers but the killed
   one. v_i is 1 / pace over L_trans; a worker that differs from the median pace by no more than 2 %, or than 3 standard
   errors, counts as the median. (``published``: v_i is the mean of B_i / T_i of the records.) The batches hold from the
   next round on. A worker that joins computes B / N samples in its first round, and Eq. 3 divides the rest.
5. Otherwise NONE. If batches were adjusted before, Eq. 3 is solved again, but batches only move towards B / N, and only
   if the round gets more than 2 % shorter, or if a worker whose batch grows ended within 0.9 of the round.
   (``published``: batches become B / N after two decisions without a transient straggler, if the fastest worker is less
   than 1.1 times as fast as the slowest.)

In BSP an update is one round of all workers; in ASP an update is one gradient. In ASP only steps 1 to 3 remain, because
fast workers take more samples from the data service by themselves.
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
    join.

    Where the paper is silent: KILL precedes ADJUST, so that a node about to be killed does not first get a tiny batch.
    ``max_restarts`` holds for servers, too, so that a slowness that no restart cures does not stop the job forever.
    Step 5 returns to even batches.

    Departures: by default T_i contains sending (``times``), so that a slow link is detected; the paper's T_i does not.
    By default (``judge``) workers are compared at equal work, so that a straggler with a small batch remains one.

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
            detectors={"stragglers": self.make(StragglerDetector)},
            actions={"kill_restart": self.make(KillRestart)},
            load=AdjustBS() if self.mode == "bsp" else EvenLoad(),
            gate=AllGate() if self.mode == "bsp" else EachGate(),
        )
