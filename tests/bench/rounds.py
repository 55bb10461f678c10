"""Peers in turns, A, B, C, A, B, C ..., with a probe of the machine between any two measurements."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from .launch import PeerError, Unavailable
from .probe import SLOW_FACTOR, Probe, Reading

Measure = Callable[[], float]
WAIT_FOR_QUIET_S = 15.0


@dataclass(frozen=True)
class Round:
    """One pass over all peers: seconds of each, and the probes before, between and after them."""

    seconds: dict[str, float]
    probes: list[Reading]

    def is_flagged(self, probe: Probe) -> bool:
        """A slow probe, or a machine that changed between probes: two virtual CPUs that come to share one physical
        core talk faster and compute slower, and nothing is comparable across that."""
        hops_ns = [reading.hop_ns for reading in self.probes]
        return any(map(probe.is_slow, self.probes)) or max(hops_ns) > SLOW_FACTOR * min(hops_ns)


@dataclass(frozen=True)
class Missing:
    """Why a peer has no figures; ``excused`` when it is merely not installed here."""

    reason: str
    excused: bool

    @property
    def summary(self) -> str:
        return self.reason.splitlines()[0]


@dataclass
class Comparison:
    """All rounds of one comparison; every figure is of the accepted ones only."""

    title: str
    probe: Probe
    rounds: list[Round] = field(default_factory=list)
    missing: dict[str, Missing] = field(default_factory=dict)

    @property
    def accepted(self) -> list[Round]:
        """One slow probe flags its whole round, so that ratios always compare neighbours in time.

        The limits are those of the session so far: a later, faster probe may flag a round after the fact.
        """
        return [one for one in self.rounds if not one.is_flagged(self.probe)]

    @property
    def flagged(self) -> int:
        """Rounds that do not count."""
        return len(self.rounds) - len(self.accepted)

    def seconds(self, name: str) -> list[float]:
        """Of the accepted rounds; empty for a missing peer."""
        return [] if name in self.missing else [one.seconds[name] for one in self.accepted]

    def median_s(self, name: str) -> float:
        """NaN without an accepted figure."""
        return median(self.seconds(name) or [math.nan])

    def ratios(self, ours: str, peer: str) -> list[float]:
        """By how much ``ours`` is as fast as ``peer``, round by round."""
        return [b / a for a, b in zip(self.seconds(ours), self.seconds(peer), strict=False)]

    def as_json(self) -> dict[str, Any]:
        """Everything that was measured, flagged rounds included."""
        return {
            "title": self.title,
            "median_s": {name: median(values) for name in self.measured if (values := self.seconds(name))},
            "rounds": [
                {
                    "seconds": one.seconds,
                    "hops_ns": [now.hop_ns if math.isfinite(now.hop_ns) else None for now in one.probes],
                    "lost_frac": [now.lost_frac for now in one.probes],
                    "flagged": one.is_flagged(self.probe),
                }
                for one in self.rounds
            ],
            "flagged": self.flagged,
            "missing": {name: missing.reason for name, missing in self.missing.items()},
        }

    @property
    def measured(self) -> list[str]:
        """Peers with figures, in the order given."""
        return [name for name in (self.rounds[0].seconds if self.rounds else {}) if name not in self.missing]


def wait_for_quiet(probe: Probe) -> Reading:
    """Slow episodes last seconds to tens of seconds: sit them out rather than measure a round that cannot count."""
    deadline = time.monotonic() + WAIT_FOR_QUIET_S
    while probe.is_slow(reading := probe.read()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return reading


def bracketed(title: str, peers: Mapping[str, Measure], probe: Probe, rounds: int) -> Comparison:
    """Go round until ``rounds`` are accepted, or give up after twice as many. A peer that fails is left out."""
    comparison = Comparison(title, probe)
    while len(comparison.accepted) < rounds and len(comparison.rounds) < 2 * rounds:
        seconds, probes = {}, [wait_for_quiet(probe)]
        for name, measure in peers.items():
            if name in comparison.missing:
                continue
            try:
                seconds[name] = measure()
                print(f"{title}: {name}: {1e3 * seconds[name]:.3f} ms", flush=True)  # kept if the session is ended
            except Unavailable as reason:
                comparison.missing[name] = Missing(str(reason), excused=True)
            except PeerError as error:
                comparison.missing[name] = Missing(str(error), excused=False)
            probes.append(probe.read())
        comparison.rounds.append(Round(seconds, probes))
        if len(comparison.missing) == len(peers):
            break
    return comparison
