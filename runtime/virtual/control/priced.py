"""A recovery on the virtual clock: the automaton, the costs of its effects, and the way of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from runtime.core.recovery import inputs
from runtime.core.recovery.automaton import Recovery
from runtime.virtual.clock import Clock
from runtime.virtual.costs import Costs

Call = Callable[[float], None]


class PricedRecovery(NamedTuple):
    """The common part of the classes that carry effects out."""

    automaton: Recovery
    clock: Clock
    costs: Costs
    tell: Callable[[float, inputs.AnyInput], None]
    """Passes an input at a time, which may be when the coordinator's orders leave it."""
    drive: Callable[[Call], None]
    """Lets the coordinator react to something now, or when it is free."""
