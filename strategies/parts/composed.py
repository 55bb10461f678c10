"""A strategy whose parts the configuration names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts, Slots


@final
@dataclass(kw_only=True)
class Composed(Slots, Composition):
    """Any gate with any load policy, detectors, schedule, screen and actions that fit it.

    A system of this package has a file of its own; here a YAML replaces it: each part is named by its class and has its
    own settings. Parts that cannot work together are refused (:mod:`strategies.parts.composition.parts`).

    Attributes:
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
    """

    data: str = "dynamic"

    def compose(self) -> Parts:
        return self.make(Parts, named=True)
