"""Sensitivity of STAR's ten models to throttled processors and links (pure).

Source: constants in STAR's published code (github.com/pcl-projects/Training-Sync-Mode): seconds to accuracy without
throttling, under two levels of throttled processors, and under two of throttled links.
"""

from __future__ import annotations

from strategies.cluster.prevention.reduction import sensitivity_of
from strategies.protocol import Resource

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
"""Of a model that nobody has measured, in either resource."""


def model_sensitivity(model: str, resource: Resource) -> float:
    """S of a model, named as in the table or with a prefix (``star_vgg16``)."""
    times = TIMES_S.get(model.removeprefix("star_"))
    if times is None:
        return UNKNOWN
    return sensitivity_of(times[0], times[1] if resource == "cpu_cores" else times[2])
