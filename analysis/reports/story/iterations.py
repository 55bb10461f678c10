"""A worker's iterations, many of which become one entry of its story."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from analysis.reports.story.lines import Fields

APPLIED = "applied"
MIN_WAIT_S = 1e-3
"""Shorter waits between a gradient and the next order are left out."""


@dataclass
class Iterations:
    """Consecutive iterations of one worker between two other entries of its story; times in seconds of the job."""

    seqs: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    injected: list[float] = field(default_factory=list)
    fates: Counter[str] = field(default_factory=Counter)
    waits: dict[str, list[float]] = field(default_factory=dict)
    """Seconds from a gradient to the next order, by the event that ended the wait."""

    def count_gradient(self, seq: int, t: float, event: Fields) -> None:
        """Count a gradient of the worker."""
        timings: dict[str, Any] = event.get("timings") or {}
        self.seqs.append(seq)
        self.times.append(t)
        self.samples.append(int(event["grad"].get("samples", 0)))
        parts = (timings.get(name) or 0.0 for name in ("pull_s", "data_s", "compute_s", "send_s"))
        self.seconds.append(float(sum(parts)))
        self.injected.append(float(timings.get("injected_s") or 0.0))

    def rolled_back(self, why: str) -> None:
        """One of the gradients that were applied is lost with its update."""
        self.fates[APPLIED] -= 1
        self.fates["applied, then rolled back" + (f" ({why})" if why else "")] += 1

    def count_wait(self, seconds: float, whom: str) -> None:
        """Count a wait that ``whom`` ended."""
        if seconds >= MIN_WAIT_S:
            self.waits.setdefault(whom, []).append(seconds)

    def in_words(self) -> str:
        """All of it as one sentence."""
        number = len(self.times)
        sizes = sorted(set(self.samples))
        size = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        said = [f"{number} iteration{'s' if number > 1 else ''} of {size} samples, {median(self.seconds):.3g} s each"]
        if injected := [one for one in self.injected if one > 0]:
            said.append(f"{median(injected):.3g} s of it injected" + _times(len(injected), number))
        said += [f"{count} {fate}" for fate, count in sorted(self.fates.items()) if count]
        for whom, waits in sorted(self.waits.items(), key=lambda item: -sum(item[1]))[:3]:
            said.append(f"waited {median(waits):.3g} s for {whom}" + _times(len(waits), number))
        return "; ".join(said)


def _times(count: int, number: int) -> str:
    return "" if count == number else f" ({count} of {number} times)"
