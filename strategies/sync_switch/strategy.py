"""Sync-Switch: BSP at first and while all workers are equally fast, ASP for the rest.

Symbols: n workers, B the global batch, eta the learning rate of one worker's batch.

1. Configuration: BSP has batch B and rate n eta, ASP B / n and eta (``lr_rule``); momentum is kept.
2. Timing (``sync_then_async``): BSP for the first ``bsp_frac`` of the job's samples, ASP for all others.
3. Detection (``flagged``, ``slow_lately``): a worker is flagged when its time has exceeded the fastest one's by
   ``tolerance_frac`` throughout ``duration_s``, and no longer after one time that does not (``judge: median`` compares
   medians).
4. Stragglers, as long as 2 says BSP (``sync_then_async``): ``greedy``: ASP while anybody is flagged, then BSP again;
   ``elastic``: BSP without those that are, each of whom computes a probe every ``probe_s`` whose gradient is dropped;
   ``none``: nothing.
5. A switch follows the next update (``switching``): ``hot``, the new mode takes over what has arrived; or by
   ``restart`` of all nodes from a checkpoint (``relaunch``), as in the published code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.sync_switch.flagged import FlagDetector
from strategies.sync_switch.switching import SwitchingGate
from strategies.sync_switch.sync_then_async import SyncThenAsync


@final
@dataclass(kw_only=True)
class SyncSwitch(Composition):
    """Synchronous for the first ``bsp_frac`` of the samples, then asynchronous, with a policy for stragglers.

    Source: Li et al., "Sync-Switch: hybrid parameter synchronization for distributed deep learning", ICDCS 2021, with
    the straggler rule as STAR describes it (section V-A); the algorithm is above. ``elastic`` leaves a new straggler
    out as soon as its gradient has arrived (with ``median``: one that costs more waiting than it contributes), and
    probes because a recovery would otherwise never be seen.

    A switch is ``hot``: the parameters stay on the servers and Computes in progress continue; gradients computed under
    ASP count in the first round of BSP, however stale. No worker begins to compute for ``switch_s``. Or it is a
    ``restart``, as in the published code: all workers finish, then every server and every worker is restarted from a
    checkpoint. Every measured time contains it (the published evaluation subtracts it).

    Departures: a restart is one of single nodes, servers one after the other and then all workers, each on another
    machine; a straggler's flag outlives it. The published code's criterion for slowness is not public: ``judge:
    published`` follows STAR's description (the latest time of each against the smallest of all, throughout
    ``duration_s``), ``median`` is our reading, which noise alone does not trigger
    (:class:`strategies.sync_switch.slow_lately.SlowLately`). Times are the worker's own part of an iteration, with its
    link both ways.

    Attributes:
        bsp_frac: part of the job's samples that are trained synchronously first; 1 with no straggler is BSP, 0 is ASP.
        straggler_policy: ``greedy``, ``elastic`` or ``none``.
        duration_s: seconds for which a worker must have been slow.
        tolerance_frac: part of the fastest worker's time (``median``: of the median worker's) by which a slow worker
            takes longer.
        judge: ``published`` or ``median``.
        probe_s: seconds between two series of probes; left-out workers are probed one after another.
        switch: ``hot`` or ``restart``.
        switch_s: seconds that a hot switch takes.
        warmup_iters: first iterations of a process that are ignored.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``. A left-out worker must finally compute the samples
            of the epoch that it holds; with ``shared`` that is next to none.
        lr_rule: see :mod:`strategies.parts.weights`.
    """

    bsp_frac: float = 0.0625
    straggler_policy: str = "greedy"
    duration_s: float = 5.0
    tolerance_frac: float = 0.2
    judge: str = "published"
    probe_s: float = 10.0
    switch: str = "hot"
    switch_s: float = 0.0
    warmup_iters: int = 3
    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def compose(self) -> Parts:
        """A switching gate, a detector of stragglers, and the schedule that switches."""
        detector = FlagDetector(
            duration_s=self.duration_s,
            tolerance_frac=self.tolerance_frac,
            judge=self.judge,
            warmup_iters=self.warmup_iters,
        )
        schedule = SyncThenAsync(
            bsp_frac=self.bsp_frac,
            straggler_policy=self.straggler_policy,
            probe_s=self.probe_s,
            switch=self.switch,
            switch_s=self.switch_s,
        )
        gate = SwitchingGate()
        return Parts(gate=gate, detectors={"stragglers": detector}, schedule=schedule, lr_rule=self.lr_rule)
