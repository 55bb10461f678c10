"""Jobs that arrive at random, at a constant rate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from injectors.arrivals.base import Arrivals, Submission
from injectors.arrivals.cells import JOB_NAME, MAX_JOBS, in_order
from injectors.arrivals.distributions import Distribution, Exponential
from injectors.arrivals.drawing import Draws, Servers, check_models, check_servers
from injectors.patterns.fields import check_number, one_line

SECONDS_PER_HOUR = 3600.0


@final
@dataclass(frozen=True, kw_only=True)
class Poisson(Arrivals):
    """A Poisson process of jobs whose sizes and durations are independent draws.

    Attributes:
        num_jobs: how many arrive in all.
        rate_per_hour: mean number of arrivals in an hour.
        gpus: distribution of the number of workers; rounded to a whole number, at least 1.
        duration_s: distribution of durations; None: they are not known, and the run's settings say when jobs end.
        servers: of every job, or ``uniform``: from 1 to its workers; None: as the run has it.
        models: every job trains one of them, all equally likely; none: the run's own.
        prefix: the jobs' names are this and their number.
    """

    num_jobs: int
    rate_per_hour: float
    gpus: Distribution
    duration_s: Distribution | None = None
    servers: Servers = None
    models: tuple[str, ...] = field(default=())
    prefix: str = "job"

    def __post_init__(self) -> None:
        check_number("num_jobs", self.num_jobs, least=1, most=MAX_JOBS)
        check_number("rate_per_hour", self.rate_per_hour, above=0)
        for name in ("gpus", "duration_s"):
            value = getattr(self, name)
            if not isinstance(value, Distribution) and (value is not None or name == "gpus"):
                raise ValueError(
                    f"{name}={one_line(value)}: must be a distribution of injectors.arrivals.distributions"
                )
        if not JOB_NAME.fullmatch(f"{self.prefix}{self.num_jobs}"):
            raise ValueError(
                f"prefix={one_line(self.prefix)}: names of jobs are up to 100 letters, digits, '-' and '_' in all"
            )
        check_servers(self.servers)
        check_models(self.models)

    def submissions(self, seed: int) -> list[Submission]:
        draws, t, found = Draws(seed, "poisson"), 0.0, []
        between = Exponential(mean=SECONDS_PER_HOUR / self.rate_per_hour)
        for number in range(self.num_jobs):
            t += between.quantile(draws.uniform("arrivals"))
            gpus = max(1, round(self.gpus.quantile(draws.uniform("gpus"))))
            lasts_s = None if self.duration_s is None else self.duration_s.quantile(draws.uniform("duration_s"))
            one = Submission(
                job=f"{self.prefix}{number}",
                submit_s=t,
                gpus=gpus,
                duration_s=lasts_s,
                servers=draws.servers(self.servers, gpus),
                model=draws.model(self.models),
            )
            found.append((f"job {number}", one))
        return in_order(found)
