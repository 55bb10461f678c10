"""Patterns: pure, seeded schedules of disturbances, one idea per file. ``conf/straggler/`` is their registry."""

from injectors.patterns.base import Pattern
from injectors.patterns.combined import Combined
from injectors.patterns.none import NoStragglers
from injectors.patterns.persistent import Persistent
from injectors.patterns.slowdown import IterationSlowdown
from injectors.patterns.transient import Transient

__all__ = ["Combined", "IterationSlowdown", "NoStragglers", "Pattern", "Persistent", "Transient"]
