"""Patterns: pure, seeded schedules of disturbances, one idea per file. ``conf/straggler/`` is their registry."""

from injectors.patterns.base import Pattern
from injectors.patterns.combined import Combined
from injectors.patterns.elastic import Elastic
from injectors.patterns.heterogeneity import Heterogeneity
from injectors.patterns.iteration_times import IterationTimes
from injectors.patterns.markov import Markov
from injectors.patterns.none import NoStragglers
from injectors.patterns.on_off import OnOff
from injectors.patterns.operator_trace import OperatorTrace
from injectors.patterns.pauses import Pauses
from injectors.patterns.persistent import Persistent
from injectors.patterns.poisson import Poisson
from injectors.patterns.power_law import PowerLaw
from injectors.patterns.random_workers import RandomWorkers
from injectors.patterns.sequence_lengths import SequenceLengths
from injectors.patterns.slow_loader import SlowLoader
from injectors.patterns.slowdown import IterationSlowdown
from injectors.patterns.throttle import Throttle
from injectors.patterns.trace import Trace
from injectors.patterns.transient import Transient
from injectors.patterns.transient_throttle import TransientThrottle

__all__ = [
    "Combined",
    "Elastic",
    "Heterogeneity",
    "IterationSlowdown",
    "IterationTimes",
    "Markov",
    "NoStragglers",
    "OnOff",
    "OperatorTrace",
    "Pattern",
    "Pauses",
    "Persistent",
    "Poisson",
    "PowerLaw",
    "RandomWorkers",
    "SequenceLengths",
    "SlowLoader",
    "Throttle",
    "Trace",
    "Transient",
    "TransientThrottle",
]
