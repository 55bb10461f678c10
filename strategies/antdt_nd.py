"""AntDT-ND: the solution of AntDT for clusters that are shared with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from strategies.checks import check_choice, check_number, check_whole
from strategies.gated import GatedStrategy
from strategies.gates import AllGate, EachGate, Gate
from strategies.load.adjust_bs import round_sizes, slowest_s
from strategies.nodes.nd_rules import JUDGES, NDRules
from strategies.nodes.restarts import Restarts
from strategies.nodes.timers import is_due
from strategies.protocol import (
    DATA_POLICIES,
    AnyCommand,
    AnyEvent,
    Apply,
    Command,
    Compute,
    Lost,
    Restart,
    Restored,
    Scheduling,
    ServerLost,
    Started,
    Wake,
    Woke,
)
from strategies.watching.flags import CENTERS, check_ratio
from strategies.watching.monitor import TIMES, Monitor, check_windows
from strategies.weights import check_lr_rule

NEVER_MATURE = "nothing was ever decided: no two workers were there for 0.8 of short_window_s with enough iterations"
PAYING_FRAC = 0.98
"""What a round must take of what it took, by prediction, for sizes to return by a part."""

EARLY_FRAC = 0.9
"""Or who gets more must have been done in less than this part of a round: what it does then tells how fast it is."""


@final
@dataclass(kw_only=True)
class AntDTND(GatedStrategy):
    """Transient stragglers get smaller batches (ADJUST_BS), persistent ones a new machine (KILL_RESTART).

    Source: "AntDT: A self-adaptive distributed training framework for leader and straggler nodes", ICDE 2024, section
    VI-A. Decided every ``decide_every_s`` seconds from what the Monitor has seen: a worker is a *transient* straggler
    if its mean batch processing time over the short window is at least ``slowness_ratio`` times the mean of all
    workers, and a *persistent* one if that holds over the long window; servers likewise, by their time per update. The
    first that applies of

    1. persistent server: KILL_RESTART;
    2. persistent worker, if a new one would be pending for no more than ``max_pending_s``: KILL_RESTART;

    restarts one node, the slowest. In BSP the batch sizes are then solved anew, without a killed worker, if there is
    one or if any other is a transient straggler: min max B_i / v_i with sum B_i = B. In every round the sizes assigned
    sum to the global batch, whoever leaves or joins; a newcomer begins with B / N. In ASP sizes stay: the data service
    balances the load, and only the restarts are left.

    Where the paper is silent: KILL goes before ADJUST, as a node that is to go should not first get a tiny batch; sizes
    become even again after two decisions without a transient straggler, if all are about equally fast by then;
    ``max_restarts`` holds for servers, too, so that a slowness that no restart cures does not stop the job for ever.

    Attributes:
        mode: ``bsp`` or ``asp``.
        slowness_ratio: the paper's lambda; above 1 and, against the mean of all, less than the number of workers.
        short_window_s: seconds; the paper's L_trans.
        long_window_s: seconds; the paper's L_per.
        report_iters: iterations of a worker that make one record of the Monitor.
        min_records: records without which a window is no basis for a decision.
        warmup_iters: first iterations of a process that the Monitor leaves out.
        decide_every_s: seconds between two decisions.
        max_pending_s: seconds that a new worker may be expected to wait for its place.
        max_restarts: of one node.
        cooldown_s: seconds between two restarts of one node.
        min_slow_s: seconds for which a worker must have been slow before it is killed; 0 is the paper's bare rule.
        min_update_s: seconds per update below which no server is slow; 0 is the paper's bare rule.
        center: ``mean_all`` (the paper's) or ``median_others``, for few workers.
        lr_rule: of ``asp``, see :mod:`strategies.weights`.
        data: allocation policy of the data service; ``shared``, because batch sizes differ by much.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Compute, Apply, Wake, Restart})
    watches_servers: ClassVar[bool] = True

    mode: str = "bsp"
    slowness_ratio: float = 1.5
    short_window_s: float = 300.0
    long_window_s: float = 600.0
    report_iters: int = 10
    min_records: int = 5
    warmup_iters: int = 3
    decide_every_s: float = 300.0
    max_pending_s: float = 600.0
    max_restarts: int = 3
    cooldown_s: float = 600.0
    min_slow_s: float = 0.0
    min_update_s: float = 0.0
    center: str = "mean_all"
    judge: str = "at_equal_work"
    times: str = "iter"
    lr_rule: str = "batch_linear"
    data: str = "shared"

    def __post_init__(self) -> None:
        """Check the fields."""
        check_choice("mode", self.mode, "bsp", "asp")
        check_choice("center", self.center, *CENTERS)
        check_choice("judge", self.judge, *JUDGES)
        check_choice("times", self.times, *TIMES)
        check_choice("data", self.data, *DATA_POLICIES)
        check_lr_rule(self.lr_rule)
        check_number("slowness_ratio", self.slowness_ratio, above=1.0)
        for name in ("short_window_s", "long_window_s", "decide_every_s"):
            check_number(name, getattr(self, name), above=0.0)
        for name in ("max_pending_s", "cooldown_s", "min_slow_s", "min_update_s"):
            check_number(name, getattr(self, name), least=0.0)
        for name, least in (("report_iters", 1), ("min_records", 1), ("warmup_iters", 0), ("max_restarts", 0)):
            check_whole(name, getattr(self, name), least)
        check_windows(self.short_window_s, self.long_window_s, self.decide_every_s, self.min_records)

    def validate(self, num_workers: int) -> None:
        """Somebody must be able to be a straggler."""
        check_ratio("slowness_ratio", self.slowness_ratio, num_workers, self.center)

    # ---- events ------------------------------------------------------------------------------------------------------

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """BSP or ASP."""
        return AllGate(workers) if self.mode == "bsp" else EachGate(workers)

    def _begin_anew(self) -> None:
        windows_s, counts = (self.short_window_s, self.long_window_s), (self.report_iters, self.min_records)
        self._monitor = Monitor(*windows_s, *counts, self.warmup_iters, times=self.times, sparse=True)
        self._restarts = Restarts(self.max_restarts, self.cooldown_s, self.min_slow_s)
        limits = self.slowness_ratio, self.center, self.max_pending_s, self.min_update_s
        self._rules = NDRules(self._monitor, self._restarts, *limits, self.judge)
        self._pending_s = self._due_s = 0.0
        self._halted = False
        self._speeds: dict[int, float] = {}
        self._round: set[int] = set()
        self._stale = False
        self._decided, self._warning = "", NEVER_MATURE

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Watch everything, decide when it is time, leave the rest to the gate."""
        if isinstance(event, Started):
            self._begin_anew()
        self._monitor.saw(event)
        match event:
            case Woke(tag="decide"):
                due = is_due(event.t, self._due_s) and not self._halted
                return self._decide(event.t) if due else ()
            case Scheduling(pending_s=pending_s):
                self._pending_s = pending_s
                return ()
            case ServerLost():
                self._halted = True
            case Lost(restarting=False):
                self._gone(event.worker)
            case Restored():
                self._halted = False
                for worker in self._round - set(event.workers):
                    self._gone(worker)
            case Started():
                pass
            case _:
                return super().handle(event)
        commands = super().handle(event)
        # the timer may have fired while everything stood still; if it did not, it comes too early and is ignored
        return [*commands, self._set_timer(event.t)] if isinstance(event, Started | Restored) else commands

    def _gone(self, worker: int) -> None:
        """Its next incarnation will be a newcomer."""
        self._round.discard(worker)
        self._speeds.pop(worker, None)
        self._stale = True

    def _set_timer(self, t: float) -> Wake:
        self._due_s = t + self.decide_every_s
        return Wake(at_s=self._due_s, tag="decide")

    def log_state(self) -> dict[str, float | int | str]:
        """What was decided last and why, whether sizes differ, and how many nodes were restarted."""
        warning = {"warning": self._warning} if self._warning else {}
        restarts = self._restarts.total
        state = super().log_state() | {"decided": self._decided, "adjusted": bool(self._speeds), "restarts": restarts}
        return state | warning

    # ---- decisions ---------------------------------------------------------------------------------------------------

    def _decide(self, t: float) -> Sequence[AnyCommand]:
        """At most one restart, and new sizes if need be, which hold from the next round on."""
        timer, said = self._set_timer(t), list[str]()
        self._rules.observe()
        if self._warning and len(self._monitor.mature_workers("short")) > 1:
            self._warning = ""
        killed = self._rules.kill(t, self._pending_s, said)
        if self.mode == "bsp":
            speeds = self._rules.adjust(self._round, bool(self._speeds), killed, said)
            if speeds is not None:
                self._speeds, self._stale = speeds, True
        self._decided = "; ".join(said) or "NONE"
        return [timer, Restart(node=killed)] if killed else [timer]

    def before_round(self, workers: tuple[int, ...]) -> None:
        """Sizes change here, for everybody at once, if speeds or members have changed; they sum to the global batch."""
        newcomers = set(workers) - self._round
        if self.mode == "bsp" and (self._stale or newcomers):
            self._batch |= self._sizes(workers, newcomers)
            self._round, self._stale = set(workers), False

    def _sizes(self, workers: tuple[int, ...], newcomers: set[int]) -> dict[int, int]:
        """Without a straggler, and with the same members, only steps to the even split that pay or probe."""
        total, speeds, base = self._global_batch, self._speeds, self._rules.base.samples
        same = not newcomers and self._round == set(workers)
        if not (self._rules.calm and same):
            return round_sizes(total, workers, speeds, newcomers, base)
        now = {worker: self._batch[worker] for worker in workers}
        back = round_sizes(total, workers, speeds, newcomers, base, returning=now)
        last_s = slowest_s(now, speeds, base)
        pays = not speeds or slowest_s(back, speeds, base) < PAYING_FRAC * last_s
        more = {worker: speed for worker, speed in speeds.items() if back.get(worker, 0) > now.get(worker, 0)}
        early = any(slowest_s(now, {worker: more[worker]}, base) < EARLY_FRAC * last_s for worker in more)
        return back if pays or early else now
