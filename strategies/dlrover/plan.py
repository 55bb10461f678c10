"""How many workers and servers of how many cores: Eq. 7 to 11 of DLRover in whole numbers (pure).

The paper solves for real numbers and prints whole ones. This reading gives both rows of its Table 1: workers get whole
cores, servers ``server_cores`` each, and cores that do not fill another server stay free. Inequalities (3), (5) and (8)
are strict in print; Table 1 uses all 200 cores and samples with all 32 of a machine, so equality is allowed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Annotated

import msgspec

from reading.ranges import Number, OneOf, PositiveInt

WHOLE = 1e-9
"""How far from a whole number a quotient of measured numbers is still whole."""


@dataclass(kw_only=True)
class Limits:
    """The resources that a job may have.

    Attributes:
        cores_total: of all workers and servers together (C_total).
        cores_max: of one node (C_max: 32).
        server_cores: of a planned server (s); the paper's 16 balances transfers against pending time.
        max_shortfall_frac: part of ``N_w s_hat`` that the planned servers may lack. Constraint (4) allows none, which
            the paper's own plan for Wide & Deep does not keep (128 of 136.8 cores). Workers rounded up to whole cores
            take the servers' share: without a bound 1.1 cores per worker and 1.0 per update would give 92 workers a
            single server of 16 cores. 1: the bare rule of Eq. 10 and 11.
        workers_by: the number of workers in the second step. ``sample`` (section 4.2): N_w = s_total / s_hat, where
            Eq. 11 gives s_total, so N_w stays as planned, and w_hat measured again gives the cores of each worker;
            ``room``: Eq. 10 and 11 again with the new w_hat, so N_w rises if workers use fewer cores.
        workers_max: workers of normal and low priority together that the rules add; None: no bound but sqrt(K). Where
            servers hardly compute, K alone would let a job have hundreds of them.
    """

    cores_total: PositiveInt = 200
    cores_max: PositiveInt = 32
    server_cores: PositiveInt = 16
    max_shortfall_frac: Annotated[float, Number(0.0, most=1.0)] = 0.1
    workers_by: Annotated[str, OneOf("sample", "room")] = "sample"
    workers_max: PositiveInt | None = None


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Cores that one worker really uses (w_hat), and that all servers together use for one worker (s_hat)."""

    worker_cores: float
    update_cores: float


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """So many workers and servers, with so many cores each."""

    workers: int
    worker_cores: int
    servers: int
    server_cores: int

    @property
    def cores(self) -> int:
        """All cores of the job together."""
        return self.workers * self.worker_cores + self.servers * self.server_cores


def optimal_plan(need: Need, limits: Limits) -> Plan:
    """As many workers as Eq. 10 allows, and whole servers for them in the cores that are left (Eq. 11).

    Fewer workers are planned until one server fits and servers lack at most ``max_shortfall_frac`` of what the workers
    need; a single worker is planned in any case.

    Raises:
        ValueError: not even one worker and one server fit; the message names the setting.
    """
    cores = whole_cores(need, limits)
    if cores + limits.server_cores > limits.cores_total:
        raise ValueError(
            f"cores_total={limits.cores_total}: one worker of {cores} cores and one server of "
            f"{limits.server_cores} need {cores + limits.server_cores}"
        )
    most = floor(limits.cores_total / (need.worker_cores + need.update_cores) + WHOLE)
    most = max(1, min(most, (limits.cores_total - limits.server_cores) // cores))
    wanted = (1.0 - limits.max_shortfall_frac) * need.update_cores
    workers = next((count for count in range(most, 1, -1) if _server_cores(count * cores, limits) >= count * wanted), 1)
    return Plan(
        workers=workers,
        worker_cores=cores,
        servers=_server_cores(workers * cores, limits) // limits.server_cores,
        server_cores=limits.server_cores,
    )


def planned_workers(need: Need, planned: int, server_cores: int, limits: Limits) -> int:
    """How many workers suit servers of ``server_cores`` cores in all, once w_hat was measured with them (4.2).

    Args:
        need: w_hat measured again; s_hat of the sample.
        planned: workers of the plan that these servers are for.
        server_cores: cores of all servers together, as they are now.
        limits: what the job may have.

    Raises:
        ValueError: not even one worker fits next to these servers; the message names the setting.
    """
    cores = whole_cores(need, limits)
    room = (limits.cores_total - server_cores) // cores
    if room < 1:
        raise ValueError(
            f"cores_total={limits.cores_total}: servers have {server_cores} cores, and one worker needs {cores}"
        )
    if limits.workers_by == "sample":
        return min(planned, room)
    share = floor((limits.cores_total - planned * need.worker_cores) / need.update_cores + WHOLE)
    return max(1, min(share, room))


def is_enough(plan: Plan, server_cores: Sequence[int], limits: Limits) -> bool:
    """Whether present servers may stay although the plan has others: moving parameters stops the job (section 3.1).

    They have the planned size, are no fewer, and leave cores for all planned workers but ``max_shortfall_frac``.
    """
    if set(server_cores) != {plan.server_cores} or len(server_cores) < plan.servers:
        return False
    room = (limits.cores_total - sum(server_cores)) // plan.worker_cores
    return room >= (1.0 - limits.max_shortfall_frac) * plan.workers


def whole_cores(need: Need, limits: Limits) -> int:
    """Cores of one worker (w).

    Raises:
        ValueError: they are more than one node may have.
    """
    cores = ceil(need.worker_cores - WHOLE)
    if cores > limits.cores_max:
        raise ValueError(f"cores_max={limits.cores_max}: one worker uses {need.worker_cores:g} cores")
    return cores


def _server_cores(taken: int, limits: Limits) -> int:
    """Cores of as many whole servers as fit next to ``taken`` cores of workers."""
    return (limits.cores_total - taken) // limits.server_cores * limits.server_cores
