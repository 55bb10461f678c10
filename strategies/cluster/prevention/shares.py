"""The share of its host that every task holds, and the part that it gives to another job (STAR, section IV-D1; pure).

A task holds its measured use, limited by the host's capacity. Workers that wait use less than their shares, so the
shares may sum to more than their host has. Then each holds its share as if no worker waited: max-min fair, as
processors and links divide themselves.

It gives by the sensitivity of its job's model. Source of the models' times: constants in STAR's published code
(github.com/pcl-projects/Training-Sync-Mode): seconds to accuracy without throttling, under two levels of throttled
processors, and under two of throttled links.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from strategies.protocol import Resource

Task = tuple[str, str]
"""(job, node)."""
NOTHING = 1e-12
"""Part of a host's capacity that is rounding."""


def fair_shares(capacity: float, wanted: Mapping[Task, float]) -> dict[Task, float]:
    """Max-min fair: no task gets more than it wants; one that gets less has at least as much as any other."""
    left, given = max(0.0, capacity), dict[Task, float]()
    waiting = sorted(wanted, key=lambda task: (wanted[task], task))
    while waiting:
        task = waiting.pop(0)
        given[task] = min(wanted[task], left / (len(waiting) + 1))
        left -= given[task]
    return given


def held_shares(capacity: float, wanted: Mapping[Task, float], fixed: Mapping[Task, float]) -> dict[Task, float]:
    """Shares of a host's tasks, which sum to ``capacity`` at most; ``fixed`` ones were granted or left by a policy."""
    return fair_shares(capacity - math.fsum(fixed.values()), wanted) | dict(fixed)


def free_of(capacity: float, held: Mapping[Task, float]) -> float:
    """The part of the capacity that no task holds; a remainder of rounding counts as 0."""
    free = capacity - math.fsum(held.values())
    return free if free > NOTHING * capacity else 0.0


def reductions(missing: float, weights: Mapping[Task, float], most: Mapping[Task, float]) -> dict[Task, float]:
    """``missing`` divided in proportion to ``weights``, at most ``most`` each; amounts above are divided again.

    All together give less than ``missing`` only if everybody gives the most.
    """
    given, left = dict.fromkeys(weights, 0.0), missing
    giving = [task for task in sorted(weights) if most[task] > 0]
    while giving:
        total = math.fsum(weights[task] for task in giving)
        parts = {task: max(0.0, left * weights[task] / total) for task in giving}
        full = [task for task in giving if parts[task] >= most[task]]
        if not full:
            return given | parts
        given |= {task: most[task] for task in full}
        left -= math.fsum(most[task] for task in full)
        giving = [task for task in giving if task not in full]
    return given


def weight_of(sensitivity: float, gain: float) -> float:
    """1 / (S A): a job that suffers less from less, and improves less at present, gives more."""
    return 1.0 / (sensitivity * gain)


def sensitivity_of(undisturbed_s: float, throttled_s: tuple[float, ...]) -> float:
    """S: the product over levels of throttling of the time to accuracy over the undisturbed one.

    STAR prints (TTA_j - TTA) / TTA, with which one level without an effect makes the product 0, and a division by it
    impossible; its published code has the quotient, as here.
    """
    return math.prod(one_s / undisturbed_s for one_s in throttled_s)


TIMES_S: dict[str, tuple[float, tuple[float, float], tuple[float, float]]] = {
    "resnet20": (600, (1000, 1760), (560, 600)),
    "resnet56": (920, (1320, 2400), (800, 1040)),
    "alexnet": (680, (1240, 2400), (1360, 2400)),
    "mobilenet": (480, (920, 1560), (560, 1080)),
    "googlenet": (480, (720, 1200), (560, 1040)),
    "densenet121": (560, (860, 1400), (920, 1320)),
    "vgg13": (160, (280, 480), (560, 1280)),
    "vgg16": (560, (640, 1120), (760, 4320)),
    "lstm": (260, (380, 720), (1060, 2160)),
    "transformer": (310, (530, 800), (1210, 2620)),
}
UNKNOWN = 1.0
"""S of a model without measurements, in either resource."""


def model_sensitivity(model: str, resource: Resource) -> float:
    """S of a model, named as in the table or with a prefix (``star_vgg16``)."""
    times = TIMES_S.get(model.removeprefix("star_"))
    if times is None:
        return UNKNOWN
    return sensitivity_of(times[0], times[1] if resource == "cpu_cores" else times[2])
