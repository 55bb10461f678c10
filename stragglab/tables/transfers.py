"""The consequences of MLfabric's plans, by arithmetic and by simulating one server: no job runs.

``python run.py experiment`` takes the rows of an experiment with ``table: transfers`` (orders of pending updates),
``delays`` (three ways to treat a late update), ``groups`` (aggregation) and ``replicas`` (replication) from here; those
with ``table: delayed_sgd`` are in ``stragglab/tables/delayed_sgd.py``. Sizes are in MB, rates in MB/s, and the server
takes in 100 MB/s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.experiments.spec import Cell, Spec, cells
from stragglab.tables.coding import row_of_cell
from strategies.mlfabric.fluid import Update, fair_finishes
from strategies.mlfabric.order import Aggregator, group, plan
from strategies.mlfabric.replicas import Lag, to_replicate

INTO = 100.0
PENDING = 8
PRESENT, TAU_MAX = 20, 8
"""Version of the server, and the bound, in random cases: no update is older than the bound allows."""
WORKED = 10, 4
"""The same in the cases that are worked by hand."""


class Case(NamedTuple):
    """Pending updates, all links, the present version and the bound on delays."""

    pending: list[Update]
    links: dict[str, float]
    version: int
    tau_max: int


# ---- orders (slides 10 to 13) -------------------------------------------------------------------------------------


def transfers(spec: Spec) -> pd.DataFrame:
    """Rows for the axes ``case`` (of :func:`case_of`) and ``system`` (of :func:`commits`).

    ``mean_s`` and ``last_s`` of what is applied; ``max_delay``, ``violations`` of the bound, ``dropped``; ``idle_s``,
    seconds of the server's link that nothing used before the last update.
    """
    return pd.DataFrame([row_of_cell(cell, transfers_row(cell)) for cell in cells(spec)])


def transfers_row(cell: Cell) -> dict[str, object]:
    """The measures of one cell of :func:`transfers`."""
    case = case_of(cell.levels["case"], cell.seed)
    found = commits(case, cell.levels["system"])
    times, delays = [at for _, at, _ in found], [delay for *_, delay in found]
    sent = sum(update.size_bytes for update, *_ in found)
    return {
        **{"mean_s": float(np.mean(times)), "last_s": max(times), "max_delay": max(delays)},
        "violations": sum(delay > case.tau_max for delay in delays),
        **{"dropped": len(case.pending) - len(found), "idle_s": max(times) - sent / case.links["in"]},
    }


def case_of(name: str, seed: int) -> Case:
    """Updates of as many workers.

    ``sizes``: unequal updates on equal links; ``uplinks``: equal updates on links of a tenth to all of the server's;
    ``worked``, ``due``: four of unequal size, and four of which one has a quarter of the bandwidth and is due.
    """
    if name in ("worked", "due"):
        given = ((50, 80, 100, 120), (100,) * 4) if name == "worked" else ((100,) * 4, (100, 100, 100, 25))
        return _case(*given, (9, 8, 10, 7), WORKED)
    chance = np.random.default_rng([2020, seed, *name.encode()])
    sizes = chance.uniform(20, 200, PENDING) if name == "sizes" else np.full(PENDING, 100.0)
    uplinks = np.full(PENDING, INTO) if name == "sizes" else INTO * 10 ** chance.uniform(-1, 0, PENDING)
    versions = (PRESENT - chance.integers(0, TAU_MAX, PENDING)).tolist()
    return _case(sizes.tolist(), uplinks.tolist(), versions, (PRESENT, TAU_MAX))


def _case(sizes: Sequence[float], uplinks: Sequence[float], versions: Sequence[int], at: tuple[int, int]) -> Case:
    pending = [
        Update(id=k, worker=k, version=int(version), size_bytes=size, ready_s=0.0, path=(f"up{k}", "in"))
        for k, (size, version) in enumerate(zip(sizes, versions, strict=True))
    ]
    return Case(pending, {"in": INTO} | {f"up{k}": float(rate) for k, rate in enumerate(uplinks)}, *at)


def commits(case: Case, system: str) -> list[tuple[Update, float, int]]:
    """(update, when it is applied, its delay) in order.

    ``fair``: all at once, applied as they arrive; ``shortest``: shortest first; ``deadline``: with deadlines, without
    drops of updates that would leave the server idle; ``drop``: with both, as MLfabric does.
    """
    if system == "fair":
        ends = fair_finishes(case.pending, case.links)
        order = sorted(range(len(ends)), key=lambda k: (ends[k], k))
        late = enumerate(order, start=case.version)
        return [(case.pending[k], ends[k], version - case.pending[k].version) for version, k in late]
    tau_max = math.inf if system == "shortest" else case.tau_max
    tolerance = None if system == "drop" else math.inf
    found = plan(case.pending, case.links, now_s=0.0, version=case.version, tau_max=tau_max, idle_tolerance_s=tolerance)
    return [(slot.update, slot.commit_s, slot.delay) for slot in found.slots]


# ---- a late update (slides 7 to 9) ---------------------------------------------------------------------------------


def delays(spec: Spec) -> pd.DataFrame:
    """Rows for the axes ``u`` and ``system`` (``unordered``, ``buffered``, ``ordered``).

    N' = 8 fresh updates of 100 MB, and one of 120 MB of the version that allows u others before it. ``beyond``, its
    delay minus the bound; ``beyond_off``, that minus the slide's N' - u; ``others_more``, by how much the delay of the
    updates that wait for it grows; ``frozen_s``, the longest time in which the server has no newer version.
    """
    return pd.DataFrame([row_of_cell(cell, delays_row(cell)) for cell in cells(spec)])


def delays_row(cell: Cell) -> dict[str, object]:
    """The measures of one cell of :func:`delays`."""
    u, system = int(cell.levels["u"]), cell.levels["system"]
    late = PRESENT - (TAU_MAX - u)
    case = _case((100,) * PENDING + (120,), (INTO,) * (PENDING + 1), (PRESENT,) * PENDING + (late,), (PRESENT, TAU_MAX))
    arrived = commits(case, "deadline" if system == "ordered" else "fair")
    order = [update.id for update, *_ in arrived]
    times = [at for _, at, _ in arrived]
    if system == "buffered":  # from the u-th on nothing is applied until the late one has arrived
        order = [*order[:u], PENDING, *order[u:PENDING]]
        times = [*times[:u], *[times[-1]] * (len(times) - u)]
    place = {update: at for at, update in enumerate(order)}
    versions = {update.id: update.version for update in case.pending}
    beyond = PRESENT + place[PENDING] - versions[PENDING] - TAU_MAX
    without = [update.id for update, *_ in commits(case, "fair")]
    more = [place[update] - at for at, update in enumerate(without) if update != PENDING and at >= u]
    return {
        **{"beyond": beyond, "beyond_off": beyond - (PENDING - u), "mean_s": float(np.mean(times))},
        "others_more": float(np.mean(more)) if more else math.nan,
        "frozen_s": float(np.max(np.diff([0.0, *times]))),
    }


# ---- aggregation (slide 14) -----------------------------------------------------------------------------------------


def groups(spec: Spec) -> pd.DataFrame:
    """Rows for the axes ``workers`` and ``aggregators`` (0: all go directly).

    Updates of 100 MB, ready within two seconds, on links as fast as the server's. ``last_s``; ``bytes_frac``, bytes
    into the server over those without aggregators; ``waits``, groups that the server waits for although all earlier
    ones have arrived: those gathered later than that.
    """
    return pd.DataFrame([row_of_cell(cell, groups_row(cell)) for cell in cells(spec)])


def groups_row(cell: Cell) -> dict[str, object]:
    """The measures of one cell of :func:`groups`."""
    count, summing = int(cell.levels["workers"]), int(cell.levels["aggregators"])
    ready = np.sort(np.random.default_rng([15, cell.seed]).uniform(0, 2, count))
    order = [
        Update(id=k, worker=k, version=0, size_bytes=100.0, ready_s=float(at), path=(f"up{k}", "in"))
        for k, at in enumerate(ready)
    ]
    ways = [Aggregator(name=f"a{k}", inward=(f"in{k}",), outward=(f"out{k}", "in")) for k in range(summing)]
    names = ["in", *(f"up{k}" for k in range(count)), *(name for way in ways for name in (*way.inward, way.outward[0]))]
    found = group(order, dict.fromkeys(names, INTO), now_s=0.0, server=("in",), aggregators=ways)
    delivered = [0.0, *(one.arrived_s for one in found)]
    waits = sum(one.via is not None and one.gathered_s > before for one, before in zip(found, delivered, strict=False))
    return {"last_s": delivered[-1], "bytes_frac": len(found) / count, "waits": waits}


# ---- replication (slide 15) -----------------------------------------------------------------------------------------


STEPS = 300
MOMENTUM = 0.9
DIV_MAX = 3.0


def replicas(spec: Spec) -> pd.DataFrame:
    """Rows for the axis ``system``: how the replica receives the server's updates.

    Momentum SGD on a random least-squares problem of ten dimensions. ``never``: not at all; ``bounded``: in order, just
    as many as the bound needs; ``swapped``: all, but neighbours in the other order. ``largest``, the greatest distance
    of the two over the bound; ``end``, their distance when the replica has all; ``mean_lag``, how many updates
    the replica lacks on average; ``swap``, the distance after two swapped unit updates.
    """
    return pd.DataFrame([row_of_cell(cell, replicas_row(cell)) for cell in cells(spec)])


def replicas_row(cell: Cell) -> dict[str, object]:
    """The measures of one cell of :func:`replicas`."""
    system, chance = cell.levels["system"], np.random.default_rng([17, cell.seed])
    matrix, goal = chance.standard_normal((10, 10)) / 3, chance.standard_normal(10)
    server, replica = Momentum(10), Momentum(10)
    lag, missing, largest, lacks = Lag(momentum=MOMENTUM), list[Any](), 0.0, 0
    for step in range(STEPS):
        noise = chance.standard_normal(10) * 0.3
        change = -0.05 * (matrix.T @ (matrix @ server.w - goal) + noise) / math.sqrt(1 + step / 50)
        if system == "bounded":
            wanted = to_replicate(lag, float(np.linalg.norm(change)), DIV_MAX)
            for _ in range(min(wanted, len(missing))):
                replica.apply(missing.pop(0))
                lag = lag.after_replication()
        server.apply(change)
        missing.append(change)
        lag = lag.after_update(float(np.linalg.norm(change)))
        if system == "swapped" and len(missing) == 2:
            replica.apply(missing.pop(1))
            replica.apply(missing.pop(0))
        lacks += len(missing)
        largest = max(largest, float(np.linalg.norm(server.w - replica.w)))
    for change in missing:
        replica.apply(change)
    return {
        **{"largest": largest / DIV_MAX, "end": float(np.linalg.norm(server.w - replica.w))},
        **{"mean_lag": lacks / STEPS, "swap": swap()},
    }


class Momentum:
    """Slide 6, equation 2: ``w <- w + u + gamma (w - w_before)``."""

    def __init__(self, size: int) -> None:
        self.w, self.h = np.zeros(size), np.zeros(size)

    def apply(self, change: Any) -> None:
        self.h = MOMENTUM * self.h + change
        self.w = self.w + self.h


def swap() -> float:
    """Distance of two servers after (1, 0) and (0, 1) in opposite orders, from the same start."""
    ends = []
    for order in ((0, 1), (1, 0)):
        one = Momentum(2)
        for k in order:
            one.apply(np.eye(2)[k])
        ends.append(one.w)
    return float(np.linalg.norm(ends[0] - ends[1]))
