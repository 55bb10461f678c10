"""Rules that fix problems of a running job: tested in this order, the first match wins (DLRover 4.2 and 5.4; pure).

hot server, idle servers, worker that hangs, straggling server with load, straggling server without load. A straggling
worker that makes progress is left alone: it draws fewer shards. Loss for want of memory is answered at once
(``used``).

Departures, each because the printed rule does harm. More workers are no answer to servers that idle because they wait
for a slow one among them: then that one is moved (the bare order would give 24 workers behind a server with a quarter
of its speed 72 more). They are none either if the last ones added did not help: ``min_gain`` is the bound of the public
brain. A server that would not get more cores than it has is not replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import ceil, inf, isqrt
from typing import Annotated

import msgspec

from reading.ranges import Number, PositiveFloat, PositiveFrac
from strategies.dlrover.plan import WHOLE, Limits
from strategies.parts.scaling.changes import AddWorkers, Change, Replace, StopWaiting
from strategies.parts.scaling.usage import UsageHistory
from strategies.protocol import NodeId

RECENT = 3
"""Observations by which a server is hot."""
MEMORY_MARGIN_FRAC = 0.2
"""Part by which a new worker's memory exceeds the most that one has used."""


@dataclass(kw_only=True)
class Rules:
    """When nodes are hot, idle, straggling or hanging.

    Attributes:
        hot_util: part of its cores from which on a server is hot (section 4.2: "a predefined threshold like 0.9").
        idle_util: part of all servers' cores below which they are idle; the paper's case is 27.4 of 32 cores.
        load_ratio: a server that uses more than so many times the mean has a load above the others'.
        busy_ratio: a server that is busy at least so many times the mean time is straggling.
        hang_s: seconds without progress after which a worker is not waited for any more.
        min_gain: of workers that were added, the least rise of used server cores in proportion to their number for
            which more are added; 0: the paper's bare rule.
    """

    hot_util: PositiveFrac = 0.9
    idle_util: PositiveFrac = 0.9
    load_ratio: Annotated[float, Number(above=1.0)] = 1.2
    busy_ratio: Annotated[float, Number(above=1.0)] = 1.5
    hang_s: PositiveFloat = 600.0
    min_gain: Annotated[float, Number(0.0, most=1.0)] = 0.2


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """The number of workers, and the servers' total use, before workers were last added."""

    workers: int
    server_cores_used: float


class JobNow(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job that the rules look at.

    Attributes:
        usage: complete observations of the present nodes.
        update_cores: server cores that one worker needs (s_hat).
        limits: what the job may have.
        iterations: steps that the job takes in all (K); None: not known. Asynchronous SGD keeps its linear speed-up
            only below some sqrt(K) workers; the paper does not say what its K is.
        idle_s: seconds since each worker's last progress, as far as it is known.
        growth: when workers were last added by these rules, if ever with these servers.
    """

    usage: UsageHistory
    update_cores: float
    limits: Limits
    iterations: int | None = None
    idle_s: Mapping[NodeId, float] = {}
    growth: Growth | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that matches: its changes, their reason, and the corrected s_hat, if any."""

    rule: str
    changes: tuple[Change, ...]
    numbers: dict[str, float]
    update_cores: float | None = None


def adjust(now: JobNow, rules: Rules, waiting: Collection[str] = ()) -> Finding | None:
    """The first rule that matches and is not ``waiting``; None: the job is as it should, or can, be."""
    found = (finding for rule in ORDER if (finding := rule(now, rules)) is not None)
    return next((finding for finding in found if finding.rule not in waiting), None)


def hot_server(now: JobNow, rules: Rules) -> Finding | None:
    """Servers near all of their cores get as many as their part of the load takes with all workers at full speed.

    ``s = min(s_hot / s_used s_hat N_w, C_max)`` in whole cores, for all hot servers in one change. The paper's own case
    (two servers of 16 cores get 24) exceeds C_total, and this rule may, too; the excess is among the numbers.
    """
    hot = [server for server in now.usage.nodes("server") if _is_hot(now.usage, server, rules)]
    return _more_cores(now, "hot server", hot)


def idle_servers(now: JobNow, rules: Rules) -> Finding | None:
    """Servers that do not use their cores get more workers: ``min(s_total / s_hat, sqrt K) - N_w`` of them.

    s_hat is measured again, and s_total / s_hat rounded up: 32 / (27.4 / 8) = 9.34 became 10 workers in the paper.
    Workers beyond C_total have low priority.
    """
    usage, servers, workers = now.usage, now.usage.nodes("server"), now.usage.nodes("worker")
    used, cores = _used_cores(usage), sum(usage.given[server].cores for server in servers)
    if not workers or not 0 < used < rules.idle_util * cores or not _worth_more(now, used, len(workers), rules):
        return None
    if any(_is_hot(usage, server, rules) or _straggles(usage, server, rules) for server in servers):
        return None
    update_cores = used / len(workers)
    wanted = ceil(cores / update_cores - WHOLE)
    wanted = wanted if now.iterations is None else min(wanted, isqrt(now.iterations))
    wanted = wanted if now.limits.workers_max is None else min(wanted, now.limits.workers_max)
    count = wanted - len(workers)
    if count <= 0:
        return None
    each = max(usage.given[worker].cores for worker in workers)
    free = max(0, now.limits.cores_total - sum(given.cores for given in usage.given.values()))
    change = AddWorkers(
        count=count,
        cores=each,
        memory_bytes=worker_memory(usage),
        low_priority=max(0, count - free // each),
    )
    numbers = {
        "server_cores_used": used,
        "server_cores": cores,
        "util": used / cores,
        "update_cores": update_cores,
        "workers": len(workers),
        "wanted_workers": wanted,
    }
    return Finding(rule="idle servers", changes=(change,), numbers=numbers, update_cores=update_cores)


def hanging_worker(now: JobNow, rules: Rules) -> Finding | None:
    """Workers without any progress for ``hang_s``; one that is merely slow is left alone (section 5.4)."""
    idle_s = {node: now.idle_s.get(node, 0.0) for node in now.usage.nodes("worker")}
    hanging = [node for node, seconds in idle_s.items() if seconds >= rules.hang_s]
    if not hanging:
        return None
    return Finding(
        rule="hanging worker",
        changes=tuple(StopWaiting(node=node) for node in hanging),
        numbers={f"{node} idle_s": idle_s[node] for node in hanging},
    )


def loaded_server(now: JobNow, rules: Rules) -> Finding | None:
    """A server with more load than the others gets more cores, as a hot one does (section 5.4)."""
    servers = now.usage.nodes("server")
    return _more_cores(now, "loaded server", [one for one in servers if _is_loaded(now.usage, one, rules)])


def slow_server(now: JobNow, rules: Rules) -> Finding | None:
    """A server that straggles without more load than the others moves: its machine is slow (section 5.4).

    The mean includes the straggler itself, so of two servers one must be busy three times as long as the other.
    """
    usage, servers = now.usage, now.usage.nodes("server")
    slow = [one for one in servers if _straggles(usage, one, rules)]
    if not slow:
        return None
    given = usage.given
    moves = (
        Replace(node=one, cores=given[one].cores, memory_bytes=given[one].memory_bytes, elsewhere=True) for one in slow
    )
    numbers = {f"{server} busy_frac": usage.busy_frac(server) for server in servers}
    return Finding(rule="slow server", changes=tuple(moves), numbers=numbers)


ORDER: tuple[Callable[[JobNow, Rules], Finding | None], ...] = (
    hot_server,
    idle_servers,
    hanging_worker,
    loaded_server,
    slow_server,
)
"""The rules, in the order in which they are tested."""


def worker_memory(usage: UsageHistory) -> int:
    """Bytes for a new worker: the largest use so far and a margin; if unknown, the present workers' memory."""
    workers = usage.nodes("worker")
    peak = max(usage.memory_bytes(worker) for worker in workers)
    return ceil(peak * (1 + MEMORY_MARGIN_FRAC)) or max(usage.given[worker].memory_bytes for worker in workers)


def _more_cores(now: JobNow, rule: str, servers: list[NodeId]) -> Finding | None:
    """These servers get as many cores as their part of the load needs, if this is more than they have."""
    given, num_workers = now.usage.given, len(now.usage.nodes("worker"))
    used = _used_cores(now.usage, RECENT)
    changes: list[Change] = []
    numbers: dict[str, float] = {"server_cores_used": used, "update_cores": now.update_cores, "workers": num_workers}
    over = sum(one.cores for one in given.values()) - now.limits.cores_total
    for server in servers:
        own = now.usage.cores(server, RECENT)
        needed = own / used * now.update_cores * num_workers if used else 0.0
        cores = min(ceil(needed - WHOLE), now.limits.cores_max)
        if cores > given[server].cores:
            changes.append(Replace(node=server, cores=cores, memory_bytes=given[server].memory_bytes))
            numbers |= {f"{server} used": own, f"{server} needed": needed}
            over += cores - given[server].cores
    numbers["over_total"] = max(0, over)
    return Finding(rule=rule, changes=tuple(changes), numbers=numbers) if changes else None


def _used_cores(usage: UsageHistory, last: int | None = None) -> float:
    """Cores that all servers use together."""
    servers = usage.nodes("server")
    return sum(usage.cores(server) if last is None else usage.cores(server, last) for server in servers)


def _is_hot(usage: UsageHistory, server: NodeId, rules: Rules) -> bool:
    return usage.cores(server, RECENT) >= rules.hot_util * usage.given[server].cores


def _is_loaded(usage: UsageHistory, server: NodeId, rules: Rules) -> bool:
    return usage.cores(server) > rules.load_ratio * _used_cores(usage) / len(usage.nodes("server"))


def _straggles(usage: UsageHistory, server: NodeId, rules: Rules) -> bool:
    """Whether it is busy for longer than the others, and not because it has more to do."""
    times = [usage.busy_frac(one) for one in usage.nodes("server")]
    mean = sum(times) / len(times)
    is_slow = usage.busy_frac(server) >= (rules.busy_ratio * mean if mean else inf)
    return is_slow and not _is_loaded(usage, server, rules)


def _worth_more(now: JobNow, used: float, num_workers: int, rules: Rules) -> bool:
    """Whether the last added workers helped; the servers' use of cores rises with the throughput."""
    before = now.growth
    if before is None or num_workers <= before.workers:
        return True
    rise = used / before.server_cores_used - 1
    return rise >= rules.min_gain * (num_workers / before.workers - 1)
