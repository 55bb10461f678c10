"""Draw the data that a source of jobs lacks: sizes, servers, models (pure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from injectors.arrivals.distributions import uniform_whole
from injectors.patterns.fields import one_line
from injectors.patterns.streams import stream

Servers = int | Literal["uniform"] | None
"""Number of parameter servers of a job; ``uniform``: from 1 to the number of its workers; None: as the run has it."""
MAX_SERVERS = 100_000
"""Most servers of a job, as of ``topology.num_servers``."""


class Draws:
    """One stream per property, so that more jobs, or another list of models, change nothing else."""

    def __init__(self, seed: int, source: str) -> None:
        self._seed, self._source = seed, source
        self._streams: dict[str, Callable[[], float]] = {}

    def uniform(self, what: str) -> float:
        """The next draw for a property, 0 or more and below 1."""
        if what not in self._streams:
            self._streams[what] = stream(self._seed, f"jobs/{self._source}", what).random
        return self._streams[what]()

    def gpus(self, low: int, high: int) -> int:
        """A number of workers from ``low`` to ``high``."""
        return uniform_whole(self.uniform("gpus"), low, high)

    def servers(self, rule: Servers, gpus: int) -> int | None:
        """The number of servers of a job with so many workers."""
        return uniform_whole(self.uniform("servers"), 1, gpus) if rule == "uniform" else rule

    def model(self, models: Sequence[str]) -> str:
        """One of the models; none: empty."""
        return models[uniform_whole(self.uniform("model"), 0, len(models) - 1)] if models else ""

    def sample(self, number: int, of: int) -> list[int]:
        """So many different positions below ``of``, ascending; every set is equally likely."""
        keys = [self.uniform("sample") for _ in range(of)]
        return sorted(sorted(range(of), key=keys.__getitem__)[:number])


def check_servers(servers: Servers) -> None:
    """Raise ``ValueError`` unless it is a rule for numbers of servers."""
    if servers is None or servers == "uniform":
        return
    if not isinstance(servers, int) or isinstance(servers, bool) or not 0 <= servers <= MAX_SERVERS:
        raise ValueError(
            f"servers={one_line(servers)}: must be a whole number up to {MAX_SERVERS}, uniform (from 1 to the workers) "
            "or null"
        )


def check_range(name: str, bounds: tuple[int, int] | None) -> None:
    """Raise ``ValueError`` unless it is None or [least, most] numbers of workers."""
    if bounds is None:
        return
    wrong = len(bounds) != 2 or any(not isinstance(one, int) or isinstance(one, bool) for one in bounds)
    if wrong or not 1 <= bounds[0] <= bounds[1]:
        raise ValueError(f"{name}={list(bounds)}: must be [least, most], whole numbers of 1 or more, or null")


def check_models(models: Sequence[str]) -> None:
    """Raise ``ValueError`` unless it is a list of names."""
    if isinstance(models, str) or any(not isinstance(one, str) or not one for one in models):
        raise ValueError(f"models={one_line(models)}: must be a list of names of models")
