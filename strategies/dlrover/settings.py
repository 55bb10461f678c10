"""When the Brain samples, plans and adjusts (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field

from strategies.dlrover.adjust import Rules
from strategies.dlrover.plan import Limits
from strategies.parts.checks import NonNegativeFloat, PositiveFloat, PositiveInt, check_settings


@dataclass(kw_only=True)
class BrainTimes:
    """How long is sampled, and when is looked again.

    Attributes:
        sample_s: seconds after which a sample is complete, or after ``sample_steps`` updates (60 s, 100).
        sample_steps: ... or steps, whichever is earlier ("more than 100 global steps").
        adjust_every_s: seconds between two looks at a running job.
        ps_interval_s: seconds between two changes of servers by these looks; workers are cheaper (section 3.1).
        min_interval_s: seconds from the end of one change to the next (section 6.1: "at least 60s").
    """

    sample_s: PositiveFloat = 60.0
    sample_steps: PositiveInt = 100
    adjust_every_s: PositiveFloat = 180.0
    ps_interval_s: NonNegativeFloat = 600.0
    min_interval_s: NonNegativeFloat = 60.0


@dataclass(kw_only=True)
class BrainSettings(BrainTimes):
    """The paper's values, but for ``adjust_every_s`` and ``ps_interval_s``, which it does not give.

    Attributes:
        limits: what the job may have.
        rules: when a running job is adjusted.
        memory_bytes: of the first nodes (Table 2: 8 GB).
        sample_servers: with which a cold job begins.
        max_samples: samples, with more cores for hot servers each time, or denied plans, before the job continues with
            what it has.
    """

    limits: Limits
    rules: Rules = field(default_factory=Rules)
    memory_bytes: PositiveInt = 8 * 2**30
    sample_servers: PositiveInt = 1
    max_samples: PositiveInt = 3

    def __post_init__(self) -> None:
        check_settings(self)
