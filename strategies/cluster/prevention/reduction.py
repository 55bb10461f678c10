"""How much each task gives of what is still missing (STAR, section IV-D1; pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from strategies.cluster.prevention.shares import Task


def reductions(missing: float, weights: Mapping[Task, float], most: Mapping[Task, float]) -> dict[Task, float]:
    """``missing`` divided in proportion to ``weights``, nobody more than ``most``; what is cut off is divided again.

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
