"""A disturbance of a plan in words, for live views and for stories of records."""

from __future__ import annotations

EFFECTS = {
    "delay": "+{size:g} s per {work}",
    "slowdown": "+{percent:.3g} % of its own time per {work}",
    "cpu": "processor at {percent:.3g} %",
    "gpu": "GPU at {percent:.3g} %",
    "bandwidth": "rate at {percent:.3g} %",
    "cut": "cut",
    "pause": "paused",
    "kill": "killed",
    "join": "joins",
    "leave": "leaves",
}
"""Effects of a disturbance of this size on its target, by kind."""

WORK = {"server": "update", "stages": "message"}
"""Work that a disturbance makes longer, by its target; of others it is an iteration."""


def effect(kind: str, magnitude: float, *, on: str) -> str:
    """Describe a disturbance's effect on its target, with the unit of its size: ``+0.1 s per iteration``.

    ``on``: the form of the target (``worker``, ``server`` ..., ``stages`` for a link between stages).
    A kind that this version does not know is named with its size.
    """
    words = EFFECTS.get(kind, f"{kind} {{size:g}}")
    return words.format(size=magnitude, percent=100 * magnitude, work=WORK.get(on, "iteration"))
