"""What `make bench` holds the project to, as data, and the verdict on each goal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from .rounds import Comparison

PASS, FAIL, NOT_MEASURED = "pass", "FAIL", "not measured"


@dataclass(frozen=True)
class Verdict:
    """On one goal: what was wanted, what was found. Only ``FAIL`` fails the run."""

    goal: str
    wanted: str
    found: str
    status: str


@dataclass(frozen=True)
class Faster:
    """``ours`` is at least ``at_least`` times as fast as ``peer``: the median over accepted rounds of the ratio of
    their times within one round."""

    ours: str
    peer: str
    at_least: float

    def judge(self, comparison: Comparison) -> Verdict:
        goal, wanted = f"{self.ours} / {self.peer}", f">= {self.at_least:.2f}x"
        for name in (self.ours, self.peer):
            if missing := comparison.missing.get(name):
                note = f"{name}: {missing.summary}"
                return Verdict(goal, wanted, note, NOT_MEASURED if missing.excused else FAIL)
        ratios = comparison.ratios(self.ours, self.peer)
        if not ratios:
            return Verdict(
                goal, wanted, f"all {len(comparison.rounds)} rounds flagged: repeat on a quiet machine", FAIL
            )
        found = f"{median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})"
        return Verdict(goal, wanted, found, PASS if median(ratios) >= self.at_least else FAIL)


@dataclass(frozen=True)
class AtMost:
    """A figure stays below a limit; ``scale`` turns it into ``unit`` for the table."""

    goal: str
    limit: float
    unit: str
    scale: float = 1.0

    def judge(self, value: float, note: str = "") -> Verdict:
        """NaN (not measured; ``note`` says why) fails: every figure of this kind is ours."""
        wanted = f"<= {self.limit * self.scale:g} {self.unit}"
        if math.isnan(value):
            return Verdict(self.goal, wanted, note or "no accepted figure", FAIL)
        found = f"{value * self.scale:.3g} {self.unit}{note and ' ' + note}"
        return Verdict(self.goal, wanted, found, PASS if value <= self.limit else FAIL)


def at_least(goal: str, value: float, limit: float, unit: str) -> Verdict:
    shown = "{:,.2f} {}" if limit < 10 else "{:,.0f} {}"
    return Verdict(goal, f">= {shown.format(limit, unit)}", shown.format(value, unit), PASS if value >= limit else FAIL)


def at_most(goal: str, value: float, limit: float, unit: str, scale: float = 1.0) -> Verdict:
    return AtMost(goal, limit, unit, scale).judge(value)


TRANSPORT_GOALS = [Faster("ours tcp", "bare sockets", 0.85), Faster("ours shm", "ours tcp", 1.3)]
"""At every size; issue 2, "Speed"."""
TRANSPORT_GOALS_1MB = [Faster("ours tcp", "gloo", 2.0), Faster("ours tcp", "torch rpc", 2.0)]

MACHINES_GOALS = [Faster("ours", "bare sockets", 0.8)]
ORDERS = AtMost(
    "p99 from a report to the next order, 256 agents, 1,024 workers, 500 orders per second", 0.02, "ms", 1e3
)

STEP_GOALS = {
    "mlp": [
        Faster("ours tcp", "ddp gloo", 1.2),
        Faster("ours tcp, 16 bits", "ddp gloo", 1.2),
        Faster("ours tcp", "ray ps", 2.0),
        Faster("ours shm", "pure compute", 0.70),
    ],
    "resnet20": [
        Faster(ours, peer, at_least)
        for ours in ("ours tcp", "ours shm")
        for peer, at_least in (("pure compute", 0.95), ("ddp gloo", 1.0))
    ],
}

ALLREDUCE_GOALS = {
    (num_ranks, nbytes): [Faster("our ring", "gloo", at_least)]
    for num_ranks, nbytes, at_least in (
        (4, 1_000_000, 4.0),
        (8, 1_000_000, 6.0),
        (4, 10_000_000, 1.0),
        (8, 10_000_000, 1.0),
    )
}
"""By ranks and bytes; issue 5, "Must hold"."""
ALLREDUCE_STEP_GOALS = [Faster("our ring", "ddp gloo", 1.0)]

BIG_MODEL_GOALS = {
    "servers": Faster("parts in place", "parts of the whole", 1.5),
    "a worker's module": Faster("unfilled module", "filled module", 2.0),
}

GPU_GOALS = [Faster("ours shm", "ddp gloo", 0.95)]

DECISION_LIMITS_S = {64: 100e-6, 1024: 1e-3}
PLAN_LIMIT_S = 15e-3
"""Of 64 transfers, which are planned once for all of them."""
TENSORFLOW_GOALS = [Faster("ours asp", "tf parameter server", 1.0), Faster("ours bsp", "tf parameter server", 1.0)]
"""Like with like first: it is asynchronous."""
RECORDING = AtMost("recording and telemetry, share of a core", 0.01, "%", 100)
READY = AtMost("8 workers training after the import", 0.5, "s")
UNIQUE_MEMORY = AtMost("unique memory of a worker after its first step", 25e6, "MB", 1e-6)
RESTART = AtMost("a killed worker computes again", 0.3, "s")
MODEL_GOALS = [Faster("STAR-ML", "STAR-H", 5.0)]
MODEL_DECISION = AtMost("p99 of a decision by the model, 16 workers", 0.5e-3, "us", 1e6)
