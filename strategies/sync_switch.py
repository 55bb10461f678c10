"""Sync-Switch: BSP for the beginning and while all are equally fast, ASP for the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.composition.composition import Composition
from strategies.composition.parts import Parts
from strategies.gates import SwitchingGate
from strategies.modes.sync_then_async import SyncThenAsync
from strategies.monitoring.flagged import FlagDetector


@final
@dataclass(kw_only=True)
class SyncSwitch(Composition):
    """Synchronous for the first ``bsp_frac`` of the samples, then asynchronous; stragglers meanwhile are dealt with.

    Source: Li et al., "Sync-Switch: hybrid parameter synchronization for distributed deep learning", ICDCS 2021, with
    the straggler rule as STAR describes it (section V-A): a worker is a straggler when it has been slow for
    ``duration_s``. ``greedy`` is ASP while there is one and BSP again when there is none; ``elastic`` stays BSP without
    the stragglers (with ``median``: without those whom to wait for costs more than they contribute), and gives each a
    Compute every ``probe_s`` whose gradient is dropped, or it could never be seen to be fast again. Modes change after
    an update; who becomes a straggler is left out as soon as its gradient is here. Batches stay B / N; the rate is
    scaled by the share of the global batch, so BSP has N times that of ASP. Momentum is kept.

    A switch is ``hot``: the parameters stay on the servers, and so do orders that are being carried out; what was
    computed under ASP is part of the first round of BSP, however stale. Nobody begins to compute for ``switch_s``. Or
    it is a ``restart``, as in the published code: everybody finishes, then every server and every worker is a new
    process that begins from a checkpoint. Every measured time contains it (the published evaluation takes it off).

    Departures: a restart is one of single nodes, servers one after the other and then all workers, each on another
    machine; a straggler's flag outlives it. What the published code takes as slow is not public: ``judge: published``
    is how STAR tells it (the latest time of each against the smallest of all, throughout ``duration_s``), ``median``
    our reading, which noise alone does not trigger (:class:`strategies.monitoring.slow_lately.SlowLately`). Times are
    the worker's own part of an iteration, its link both ways included.

    Attributes:
        bsp_frac: part of the job's samples that are trained synchronously first; 1 with no straggler is BSP, 0 is ASP.
        straggler_policy: ``greedy``, ``elastic`` or ``none``.
        duration_s: seconds for which a worker must have been slow.
        tolerance_frac: part of the fastest worker's time (``median``: of the median worker's) by which one takes longer
            that is slow.
        judge: ``published`` or ``median``.
        probe_s: seconds from one series of probes to the next; those that are left out are probed one after the other.
        switch: ``hot`` or ``restart``.
        switch_s: seconds that a hot switch takes.
        warmup_iters: first iterations of a process that count for nothing.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``. What is left of an epoch with who is left out
            it has to compute itself, in the end; with ``shared`` that is next to nothing.
        lr_rule: see :mod:`strategies.weights`.
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
        """All together or each by itself, whichever is wanted."""
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
