"""Sync-Switch: BSP for the beginning and while all are equally fast, ASP for the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from predictors.fixed_duration import SlowFor
from strategies.checks import check_choice, check_number, check_whole
from strategies.gated import GatedStrategy
from strategies.gates import Gate, SwitchingGate, Verdict
from strategies.nodes.pause import Pause
from strategies.nodes.relaunch import Relaunch
from strategies.nodes.timers import is_due
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Apply,
    Arrived,
    Command,
    Compute,
    Drop,
    Lost,
    Restart,
    Restored,
    Started,
    Wake,
    Woke,
)
from strategies.watching.own_times import SlowLately
from strategies.watching.warmup import Warmup
from strategies.weights import check_lr_rule


@final
@dataclass(kw_only=True)
class SyncSwitch(GatedStrategy):
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
    our reading, which noise alone does not trigger (:class:`strategies.watching.own_times.SlowLately`). Times are the
    worker's own part of an iteration, its link both ways included.

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

    def __post_init__(self) -> None:
        """Check the fields."""
        check_number("bsp_frac", self.bsp_frac, 0.0)
        if self.bsp_frac > 1:
            raise ValueError(f"bsp_frac={self.bsp_frac}: must be at most 1, which is all of the job")
        check_choice("straggler_policy", self.straggler_policy, "greedy", "elastic", "none")
        check_number("duration_s", self.duration_s, 0.0)
        check_number("tolerance_frac", self.tolerance_frac, 0.0)
        check_choice("judge", self.judge, "published", "median")
        check_number("probe_s", self.probe_s, above=0.0)
        check_choice("switch", self.switch, "hot", "restart")
        check_number("switch_s", self.switch_s, 0.0)
        check_whole("warmup_iters", self.warmup_iters)
        check_lr_rule(self.lr_rule)
        if self.switch == "restart" and self.switch_s:
            raise ValueError(f"switch_s={self.switch_s}: is what switch=hot takes; with switch=restart it must be 0")

    @property
    def needs(self) -> frozenset[type[Command]]:  # type: ignore[override]
        """Only what the settings call for: who may restart nodes is told how long they would be pending."""
        needed = frozenset[type[Command]]({Compute, Apply, Wake, Drop})
        return needed | {Restart} if self.switch == "restart" else needed

    def validate_length(self, epochs: int | None) -> None:
        """A part of the job needs a whole."""
        if 0 < self.bsp_frac < 1 and epochs is None:
            raise ValueError(
                f"bsp_frac={self.bsp_frac}: is part of a job without a number of epochs; set workload.epochs, or "
                "bsp_frac to 0 or 1"
            )

    # ---- events ------------------------------------------------------------------------------------------------------

    def _begin_anew(self, event: Started) -> None:
        rule = SlowFor if self.judge == "published" else SlowLately
        self._warmup, self._slow = Warmup(self.warmup_iters), rule(self.tolerance_frac, self.duration_s)
        total = math.inf if event.total_samples is None or self.bsp_frac == 1 else event.total_samples
        self._sync_samples = self.bsp_frac and self.bsp_frac * total
        self._trained, self._switches = [0], 0
        self._left_out = self._slow.flagged if self.judge == "published" else set[int]()
        self._pause, self._relaunch = Pause(), Relaunch(event.workers, event.num_servers)
        self._probe_due_s = math.inf

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Measure, ask the gate, and switch when an update was made."""
        if isinstance(event, Started):
            self._begin_anew(event)
        self._watch(event)
        commands = self._pause.hold(self._answer(event))
        if self._modes.out and self._probe_due_s == math.inf:
            self._probe_due_s = event.t + self.probe_s
            commands.append(Wake(at_s=self._probe_due_s, tag="probe"))
        commands += self._relaunch.proceed(idle=self._modes.computing <= self._pause.withheld)
        if self._pause.until_s == math.inf and not self._relaunch.under_way:
            self._pause.until_s = event.t
        elif not isinstance(event, Woke):
            return commands
        return [*commands, *(self._compute(worker) for worker in self._pause.ends(event.t))]

    def _watch(self, event: AnyEvent) -> None:
        """Who is slow, who is gone, and what a restore takes back."""
        match event:
            case Arrived(grad=grad) if self._warmup.tells(event):
                self._slow.took(event.t, grad.worker, event.timings.own_s)
                self._leave_out()
            case Lost():
                if not self._relaunch.owns(event):
                    self._slow.gone(event.worker)
                    self._leave_out()
                self._pause.gone(event.worker)
            case Restored():
                del self._trained[event.version + 1 :]
                self._slow.only(event.workers)
                self._leave_out()
                if self.switch == "restart" and self._modes.together != self._wants_bsp():
                    self._begin_relaunch()
                self._pause = Pause(math.inf if self._relaunch.under_way else None)
                self._probe_due_s = math.inf
        self._relaunch.saw(event)

    def _leave_out(self) -> None:
        """Whom ``elastic`` does without; the gate looks at this very set."""
        if isinstance(self._slow, SlowLately):
            self._left_out.clear()
            self._left_out.update(self._slow.not_worth_waiting_for())

    def _answer(self, event: AnyEvent) -> Sequence[AnyCommand]:
        if isinstance(event, Woke):
            if event.tag != "probe" or not is_due(event.t, self._probe_due_s):
                return ()
            self._probe_due_s = math.inf
            return [self._compute(worker) for worker in self._modes.probe()]
        commands = list(super().handle(event))
        if any(isinstance(command, Apply) for command in commands):
            commands += self._switch(event.t)
        return commands

    # ---- modes -------------------------------------------------------------------------------------------------------

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """All together or each by itself, as is wanted now."""
        left_out = self._left_out if self.straggler_policy == "elastic" else frozenset[int]()
        self._modes = SwitchingGate(workers, self._wants_bsp(), left_out)
        return self._modes

    def _wants_bsp(self) -> bool:
        if self._trained[-1] >= self._sync_samples:
            return False
        return self.straggler_policy != "greedy" or not self._slow.flagged

    def _switch(self, t: float) -> list[AnyCommand]:
        """To the other mode, if it is wanted and the last switch is over; a restarted cluster begins in it."""
        if self._modes.together == self._wants_bsp() or self._pause.until_s is not None:
            return []
        if self.switch == "restart":
            self._begin_relaunch()
            self._pause.until_s = math.inf
            return []
        self._switches += 1
        commands = [command for verdict in self._modes.switch() for command in self._carry_out(verdict)]
        if not self.switch_s:
            return commands
        self._pause.until_s = t + self.switch_s
        return [*commands, Wake(at_s=self._pause.until_s, tag="switched")]

    def _begin_relaunch(self) -> None:
        if not self._relaunch.under_way:
            self._switches += 1
            self._relaunch.begin()

    def _carry_out(self, verdict: Verdict) -> list[AnyCommand]:
        """Keep count of what has been trained, by version, since parameters may be restored."""
        if samples := sum(grad.samples for grad in verdict.apply):
            self._trained.append(self._trained[-1] + samples)
        return super()._carry_out(verdict)

    def log_state(self) -> dict[str, float | int | str]:
        """The gate's state, how often modes were switched, and how many workers are slow."""
        return {**super().log_state(), "switches": self._switches, "flagged": len(self._slow.flagged)}
