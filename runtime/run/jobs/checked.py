"""A set of jobs that can run: the result of its checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from injectors.arrivals.base import Submission
from runtime.api import Needs
from runtime.cluster.hosts import Hosts
from runtime.config.parse import Config
from runtime.run.checks.job import CheckedJob
from strategies.protocol import JobRequest, Machine, Placement, Policy, Prevention


class SetJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a set."""

    submission: Submission
    request: JobRequest
    iterations: int
    """Iterations of every worker."""
    checked: CheckedJob
    """With its tasks anywhere; it runs once. Where nothing trains, jobs that differ in seed and length share it."""


@dataclass(frozen=True, kw_only=True)
class CheckedSet:
    """A set of jobs that can run, with the objects that its configuration names. It runs once."""

    written: Config
    """The configuration as the user wrote it."""
    config: Config
    jobs: tuple[SetJob, ...]
    """In the order of submission."""
    hosts: Hosts
    """The machines, without tasks."""
    machines: tuple[Machine, ...]
    policy: Policy
    placement: Placement
    prevention: Prevention | None
    """None: no job asks for anything."""
    start_cores: Mapping[str, Mapping[str, float]]
    """Cores of the first workers and servers of each job whose strategy asks for nodes while it runs."""
    needs: Needs
    """Requirements of all jobs together, to prepare before they start."""
    real_time: bool
    """Whether it runs in wall-clock time."""

    @property
    def limits(self) -> bool:
        """Whether tasks may be limited to the cores that other jobs leave them."""
        takes = self.prevention is not None and self.prevention.takes
        return takes and any(host.cores is not None for host in self.hosts.hosts)

    @property
    def draws(self) -> bool:
        """Whether its record becomes tables, figures and a report at the end."""
        return self.config.draw
