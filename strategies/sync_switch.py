"""Sync-Switch: BSP for the beginning and while all are equally fast, ASP for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from predictors.fixed_duration import SlowFor
from strategies.checks import check_choice, check_number, check_whole
from strategies.gated import GatedStrategy
from strategies.gates import Gate, GroupsGate, Verdict
from strategies.nodes.pause import Pause
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Apply,
    Arrived,
    Command,
    Compute,
    Joined,
    Lost,
    Restored,
    Started,
    Stop,
    Wake,
    Woke,
)
from strategies.watching.warmup import Warmup
from strategies.weights import check_lr_rule


@final
@dataclass(kw_only=True)
class SyncSwitch(GatedStrategy):
    """Synchronous for the first ``bsp_frac`` of the samples, then asynchronous; and meanwhile while somebody is slow.

    Source: Li et al., "Sync-Switch: hybrid parameter synchronization for distributed deep learning", ICDCS 2021, with
    the straggler rule as STAR describes it (section V-A): a worker is a straggler when it has been slow for
    ``duration_s``; ``greedy`` is ASP while there is one and BSP again when there is none. Decided after every update.
    Batches stay B / N; the rate is scaled by the share of the global batch, so BSP has N times that of ASP.
    Momentum is kept. The parameters stay on the servers at a switch, and so do orders that are being carried out: what
    was computed under ASP is part of the first round of BSP, however stale.

    Departures: the published code starts a new cluster from a checkpoint at every switch (about three minutes, which
    its evaluation takes off); here nobody begins to compute for ``switch_s``, which every measured time contains. The
    policy that excludes stragglers is not implemented.

    Attributes:
        bsp_frac: part of the job's samples that are trained synchronously first; 1 with no straggler is BSP, 0 is ASP.
        straggler_policy: ``greedy`` or ``none``.
        duration_s: seconds for which a worker must have been slow.
        tolerance_frac: part of the fastest worker's time by which one takes longer that is slow.
        switch_s: seconds that a switch takes.
        warmup_iters: first iterations of a process that count for nothing.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.weights`.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Compute, Apply, Wake})

    bsp_frac: float = 0.0625
    straggler_policy: str = "greedy"
    duration_s: float = 5.0
    tolerance_frac: float = 0.2
    switch_s: float = 0.0
    warmup_iters: int = 3
    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def __post_init__(self) -> None:
        """Check the fields."""
        check_number("bsp_frac", self.bsp_frac, 0.0)
        if self.bsp_frac > 1:
            raise ValueError(f"bsp_frac={self.bsp_frac}: must be at most 1, which is all of the job")
        check_choice("straggler_policy", self.straggler_policy, "greedy", "none")
        check_number("duration_s", self.duration_s, 0.0)
        check_number("tolerance_frac", self.tolerance_frac, 0.0)
        check_number("switch_s", self.switch_s, 0.0)
        check_whole("warmup_iters", self.warmup_iters)
        check_lr_rule(self.lr_rule)

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Measure, ask the gate, and switch when an update was made."""
        match event:
            case Started():
                self._warmup, self._slow = Warmup(self.warmup_iters), SlowFor(self.tolerance_frac, self.duration_s)
                self._total, self._trained = event.total_samples, [0]
                self._pause, self._switches = Pause(), 0
            case Restored():
                del self._trained[event.version + 1 :]
                self._slow.only(event.workers)
                self._pause = Pause()
            case Arrived(grad=grad) if self._warmup.tells(event):
                self._slow.took(event.t, grad.worker, event.timings.bpt_s)
            case Lost():
                self._slow.gone(event.worker)
                self._pause.gone(event.worker)
            case Woke():
                return [self._compute(worker) for worker in self._pause.ends(event.t)]
        commands = list(super().handle(event))
        if isinstance(event, Started) and 0 < self.bsp_frac < 1 and self._total is None:
            return [Stop(reason=self._refusal(), ok=False)]
        if any(isinstance(command, Apply) for command in commands):
            commands += self._switch(event.t)
        elif isinstance(event, Joined) and self._together:
            commands += self._divide()  # a newcomer is one of all
        return self._pause.hold(commands)

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """One group for BSP, groups of one for ASP."""
        self._together = self._wants_bsp()
        self._groups = GroupsGate(self._divided(workers))
        return self._groups

    def _wants_bsp(self) -> bool:
        if self.bsp_frac < 1 and self._trained[-1] >= self.bsp_frac * (self._total or 0):
            return False
        return self.straggler_policy == "none" or not self._slow.flagged

    def _divided(self, workers: Iterable[int]) -> list[list[int]]:
        return [sorted(workers)] if self._together else [[worker] for worker in sorted(workers)]

    def _switch(self, t: float) -> list[AnyCommand]:
        """To the other gate, if that is wanted and the last switch is over."""
        if self._together == (wanted := self._wants_bsp()) or self._pause.until_s is not None:
            return []
        self._together = wanted
        self._switches += 1
        if not self.switch_s:
            return self._divide()
        self._pause.until_s = t + self.switch_s
        return [*self._divide(), Wake(at_s=self._pause.until_s, tag="switched")]

    def _divide(self) -> list[AnyCommand]:
        verdicts = self._groups.regroup(self._divided(self._groups.members()))
        return [command for verdict in verdicts for command in self._carry_out(verdict)]

    def _carry_out(self, verdict: Verdict) -> list[AnyCommand]:
        """Keep count of what has been trained, by version, since parameters may be restored."""
        if samples := sum(grad.samples for grad in verdict.apply):
            self._trained.append(self._trained[-1] + samples)
        return super()._carry_out(verdict)

    def _refusal(self) -> str:
        return (
            f"strategy.bsp_frac={self.bsp_frac}: is part of a job without a number of epochs; set workload.epochs, or "
            "bsp_frac to 0 or 1"
        )

    def log_state(self) -> dict[str, float | int | str]:
        """The mode, who is flagged, and what the gate has to say of who waits."""
        return {
            "mode": "bsp" if self._together else "asp",
            "switches": self._switches,
            "flagged": len(self._slow.flagged),
            "arrived": len(self._groups.buffer),
        }
