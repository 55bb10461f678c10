"""What a mode of a ring took, as a line of the record, from which a model learns afterwards (section IV-C2; pure)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from strategies.star.measuring import HeldPace
from strategies.star.ring_modes import RingMode

NUMBERS = r"([-+.e\d ]+)"
LINE = re.compile(
    rf"(?:ring of all|ring without (?P<apart>[\d ]+), wait (?P<wait>{NUMBERS}) s): "
    rf"(?P<updates>\d+) updates of (?P<samples>{NUMBERS}) samples every (?P<update>{NUMBERS}) s, "
    rf"squared staleness (?P<squares>{NUMBERS}), lag (?P<lag>{NUMBERS}); "
    rf"overhead (?P<overhead>{NUMBERS}) s; workers (?P<workers>[\d ]+); T (?P<times>{NUMBERS}) s; "
    rf"delivered (?P<delivered>{NUMBERS}) s"
)


class RingTook(NamedTuple):
    """A mode that was used for so many updates, and what was predicted when it was chosen.

    ``times_s`` and ``delivered_s`` are by worker, in the order of ``workers``; they and ``overhead_s`` are those of a
    :class:`strategies.star.ring_question.RingQuestion`.
    """

    mode: RingMode
    pace: HeldPace
    workers: Sequence[int]
    times_s: Sequence[float]
    delivered_s: Sequence[float]
    updates: int
    overhead_s: float

    def __str__(self) -> str:
        update_s, samples, squares, lag = self.pace
        times, delivered = (" ".join(f"{one:.6g}" for one in by) for by in (self.times_s, self.delivered_s))
        return (
            f"{self.mode}: {self.updates} updates of {samples:.6g} samples every {update_s:.6g} s, "
            f"squared staleness {squares:.6g}, lag {lag:.6g}; "
            f"overhead {self.overhead_s:.6g} s; workers {' '.join(map(str, self.workers))}; "
            f"T {times} s; delivered {delivered} s"
        )


def read_took(line: str) -> RingTook | None:
    """The one that such a line says; None: it is another line."""
    found = LINE.fullmatch(line)
    if found is None:
        return None
    apart = tuple(int(word) for word in (found["apart"] or "").split())
    update_s, samples, squares, lag = (float(found[name]) for name in ("update", "samples", "squares", "lag"))
    times_s, delivered_s = (tuple(float(word) for word in found[name].split()) for name in ("times", "delivered"))
    return RingTook(
        RingMode(apart, float(found["wait"] or 0.0)),
        HeldPace(update_s, samples, squares, lag),
        tuple(int(word) for word in found["workers"].split()),
        times_s,
        delivered_s,
        int(found["updates"]),
        float(found["overhead"]),
    )
