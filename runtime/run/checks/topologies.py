"""Rules of topologies: servers hold the parameters (``ps``), or replicas sum their gradients (``allreduce``)."""

from __future__ import annotations

from pathlib import Path

from runtime.cluster.sum_traces import read_trace
from runtime.config.abilities import divides_again
from runtime.config.checking import show
from runtime.config.rules import Rule
from runtime.core.collectives.known import MODELLED, SCHEDULES, TRACE
from runtime.run.checks.facts import Facts

PS, ALLREDUCE = "ps", "allreduce"
BOUNDED = ("transpose", 1)
"""Collective and blocks of a sum that can be bounded."""
EXACT_BITS = 32
EXACTLY = f"or topology.transfer_bits={EXACT_BITS}"


def _on(name: str, facts: Facts) -> bool:
    return facts.topology.name == name


def _shares(facts: Facts) -> dict[str, object]:
    """Empty: none are given."""
    shares = facts.topology.server_shares
    return {} if shares is None else {"shares": show(list(shares)), "count": len(shares)}


def _do_not_fit(facts: Facts) -> dict[str, object]:
    """Shares are used wherever there are as many servers; without another number of these ever, they must fit."""
    shares = _shares(facts)
    fits = not shares or shares["count"] == facts.topology.num_servers or divides_again(facts.strategy)
    return {} if fits else shares


def _others(facts: Facts) -> dict[str, object]:
    """The topologies on which the strategy works, if the chosen one is not among them."""
    able = facts.strategy.topologies
    return {} if facts.topology.name in able else {"able": " or ".join(f"topology={name}" for name in sorted(able))}


def _empty(facts: Facts) -> dict[str, object]:
    """More micro-batches than an even batch has samples: some would be computed without any."""
    micro_batches = (facts.config.cluster.replica or {}).get("micro_batches")
    if not isinstance(micro_batches, int):  # the runtime refuses what is no number
        return {}
    samples = facts.workload.global_batch_samples // facts.config.num_workers
    return {"micro_batches": micro_batches, "samples": samples} if micro_batches > samples else {}


def _rounds(facts: Facts) -> bool:
    return facts.topology.transfer_bits != EXACT_BITS


def _not_of_torch(facts: Facts, collective: str) -> bool:
    return facts.topology.collective == collective and facts.backend.framework != "torch"


def _late(facts: Facts) -> bool:
    return facts.topology.collective == "stragglar"


def _does_not_fit(facts: Facts) -> bool:
    """A number of workers for which the collective has no schedule."""
    known = SCHEDULES.get(facts.topology.collective or "")
    return known is not None and not known.fits(facts.config.num_workers)


def _cuts_in_vain(facts: Facts) -> bool:
    """Blocks for what has no schedule here."""
    known = {*SCHEDULES, TRACE}
    return facts.topology.blocks > 1 and (facts.runtime.real_time or facts.topology.collective not in known)


def _models_a_bound(facts: Facts) -> bool:
    return facts.topology.bound_s is not None and not facts.runtime.real_time


def _trace_of_others(facts: Facts) -> dict[str, object]:
    """Traces of another number of ranks; raises ``ConfigError`` for what is no trace of a sum."""
    if facts.topology.collective != TRACE or facts.topology.trace_dir is None:
        return {}
    ranks = read_trace(Path(facts.topology.trace_dir)).ranks
    return {} if ranks == facts.config.num_workers else {"ranks": ranks}


TOPOLOGIES: tuple[Rule[Facts], ...] = (
    Rule(
        "parameter servers without a server",
        lambda job: _on(PS, job) and job.topology.num_servers < 1,
        "topology.num_servers=0: topology=ps needs at least 1",
        "topology=allreduce has none",
    ),
    Rule(
        "parameter servers and a collective",
        lambda job: _on(PS, job) and job.topology.collective is not None,
        "topology.collective={topology.collective}: topology=ps has servers for that",
        "choose topology=allreduce, or topology.collective=null",
    ),
    Rule(
        "shares for another number of servers",
        lambda job: _on(PS, job) and _do_not_fit(job),
        "topology.server_shares={shares}: has {count} shares, and strategy={names.strategy} keeps "
        "topology.num_servers={topology.num_servers}",
        "give every server one, or leave it out",
    ),
    Rule(
        "replicas and shares of servers",
        lambda job: _on(ALLREDUCE, job) and _shares(job),
        "topology.server_shares={shares}: topology=allreduce has no servers",
        "leave it out, or choose topology=ps",
    ),
    Rule(
        "replicas and servers",
        lambda job: _on(ALLREDUCE, job) and job.topology.num_servers > 0,
        "topology.num_servers={topology.num_servers}: topology=allreduce has no servers",
        "use topology.num_servers=0, or topology=ps",
    ),
    Rule(
        "replicas without a collective",
        lambda job: _on(ALLREDUCE, job) and job.topology.collective is None,
        "topology.collective=null: topology=allreduce needs one",
        "use ring, tree, halving_doubling, transpose, gloo, nccl or ddp",
    ),
    Rule(
        "modelled collectives and processes",
        lambda job: job.topology.collective in MODELLED and job.runtime.real_time,
        "topology.collective={topology.collective}: is a schedule for the virtual clock",
        "use runtime=virtual, or topology.collective=ring, tree, halving_doubling or transpose",
    ),
    Rule(
        "a collective for another number of workers",
        _does_not_fit,
        "topology.collective={topology.collective}: has no schedule for cluster.num_workers={config.num_workers}",
        "use 2, 4, 8 ... workers, or topology.collective=tree, transpose or ring",
    ),
    Rule(
        "blocks without a schedule",
        _cuts_in_vain,
        "topology.blocks={topology.blocks}: nothing of topology={topology.name} topology.collective="
        "{topology.collective} runtime={names.runtime} is cut",
        "use topology.blocks=1, or runtime=virtual topology=allreduce topology.collective=ring, tree, "
        "halving_doubling, transpose or stragglar",
    ),
    Rule(
        "a traced sum without traces, or traces without one",
        lambda job: (job.topology.collective == TRACE) != (job.topology.trace_dir is not None),
        "topology.collective={topology.collective} topology.trace_dir={topology.trace_dir}: one needs the other",
        "use topology.collective=trace and the folder with the traces, or topology.trace_dir=null",
    ),
    Rule(
        "traces of another number of ranks",
        _trace_of_others,
        "topology.trace_dir={topology.trace_dir}: is a sum over {ranks} ranks, and there are "
        "cluster.num_workers={config.num_workers}",
        "use as many workers, or another trace",
    ),
    Rule(
        "StragglAR without a late worker",
        lambda job: _late(job) and job.topology.late_worker is None,
        "topology.late_worker=null: topology.collective=stragglar needs the worker that may be late",
        "give its number, 0 to one less than cluster.num_workers",
    ),
    Rule(
        "a late worker that does not exist",
        lambda job: _late(job) and (job.topology.late_worker or 0) >= job.config.num_workers,
        "topology.late_worker={topology.late_worker}: there are cluster.num_workers={config.num_workers}, numbered "
        "from 0",
        "give the number of one of them",
    ),
    Rule(
        "a late worker and another collective",
        lambda job: not _late(job) and job.topology.late_worker is not None,
        "topology.late_worker={topology.late_worker}: the others wait for every worker",
        "use topology.collective=stragglar, or topology.late_worker=null",
    ),
    Rule(
        "a bound on another sum",
        lambda job: job.topology.bound_s is not None and (job.topology.collective, job.topology.blocks) != BOUNDED,
        "topology.bound_s={topology.bound_s}: is of topology.collective=transpose topology.blocks=1",
        "use these, or topology.bound_s=null",
    ),
    Rule(
        "a bound without messages",
        lambda job: _models_a_bound(job) and job.config.cluster.hosts is None,
        "topology.bound_s={topology.bound_s}: only messages of hosts are late on the virtual clock",
        "use cluster=hosts, runtime=live, or topology.bound_s=null",
    ),
    Rule(
        "a bound and parameters",
        lambda job: _models_a_bound(job) and job.backend.computes,
        "topology.bound_s={topology.bound_s}: the virtual clock only counts what is lost, and backend={names.backend} "
        "would train with it",
        "use backend=none, runtime=live, or topology.bound_s=null",
    ),
    Rule(
        "replicas and shared memory",
        lambda job: _on(ALLREDUCE, job) and job.topology.transport != "tcp",
        "topology.transport={topology.transport}: replicas share no memory",
        "use topology.transport=tcp",
    ),
    Rule(
        "workers with pipeline stages and parameter servers",
        lambda job: _on(PS, job) and job.config.cluster.replica is not None,
        "topology=ps: ranks of cluster.replica sum their gradients with the other replicas",
        "choose topology=allreduce, or leave cluster.replica out",
    ),
    Rule(
        "micro-batches without samples",
        _empty,
        "cluster.replica.micro_batches={micro_batches}: a worker's batch has only {samples} samples",
        "use fewer, or a larger workload.global_batch_samples",
    ),
    Rule(
        "strategy and topology",
        _others,
        "topology={topology.name}: strategy={names.strategy} does not work on it",
        "choose {able}, or another strategy (docs/topologies.md lists them)",
    ),
    Rule(
        "DDP and another framework",
        lambda job: _not_of_torch(job, "ddp"),
        "topology.collective=ddp: is PyTorch's, and backend={names.backend} is not",
        "use backend=torch, or topology.collective=ring",
    ),
    Rule(
        "NCCL and another framework",
        lambda job: _not_of_torch(job, "nccl"),
        "topology.collective=nccl: sums vectors of PyTorch, and backend={names.backend} has none",
        "use backend=torch, or topology.collective=ring",
    ),
    Rule(
        "rounded transfers on the virtual clock",
        lambda job: _rounds(job) and not job.runtime.real_time,
        "topology.transfer_bits={topology.transfer_bits}: runtime={names.runtime} models transfers of 32 bits",
        f"use runtime=live, {EXACTLY}",
    ),
    Rule(
        "rounded transfers and replicas",
        lambda job: _rounds(job) and not _on(PS, job),
        "topology.transfer_bits={topology.transfer_bits}: topology={topology.name} has no servers",
        f"use topology=ps, {EXACTLY}",
    ),
    Rule(
        "rounded transfers and shared memory",
        lambda job: _rounds(job) and job.topology.transport != "tcp",
        "topology.transfer_bits={topology.transfer_bits}: topology.transport={topology.transport} sends nothing",
        f"use topology.transport=tcp, {EXACTLY}",
    ),
    Rule(
        "rounded transfers and replicas of the server",
        lambda job: _rounds(job) and job.strategy.replicas,
        "topology.transfer_bits={topology.transfer_bits}: strategy.num_replicas={strategy.replicas} bounds steps by "
        "norms of gradients that are not rounded",
        f"use strategy.num_replicas=0, {EXACTLY}",
    ),
)
"""In the order in which they are looked at."""
