"""The time and use of an iteration while nobody disturbs the job: a closed form (pure)."""

from __future__ import annotations

from math import ceil, inf
from typing import NamedTuple

import msgspec

from runtime.cluster.device import DeviceProfile
from runtime.cluster.hosts import Host
from runtime.core.vectors import PARAMETER_BYTES
from runtime.virtual.cluster.ring_time import ring_s
from runtime.virtual.costs import Costs
from runtime.virtual.machines.sites import PAYLOAD_FRAC
from strategies.protocol import TaskDemand


class Undisturbed(msgspec.Struct, frozen=True, kw_only=True):
    """One iteration of a synchronous job."""

    iteration_s: float
    worker: TaskDemand
    server: TaskDemand


class Busy(NamedTuple):
    """Tasks of one host that do the same work at the same time."""

    tasks: int
    cores: float
    """That each of them uses at full speed."""
    seconds: float
    """Of work at full speed."""

    def alone_s(self, cores: float) -> float:
        """How long it takes them where nobody else works on as many cores."""
        return self.seconds * max(1.0, self.tasks * self.cores / cores)


class Gang(NamedTuple):
    """The workers and servers of a job on each of its machines."""

    workers: tuple[int, ...]
    servers: tuple[int, ...]

    @classmethod
    def packed(cls, workers: int, servers: int, gpus: int | None) -> Gang:
        """On as few machines as the GPUs of each allow (None: on one), servers in turns."""
        most = min(workers, gpus or workers)
        machines = ceil(workers / most)
        held = [min(most, workers - most * number) for number in range(machines)]
        return cls(tuple(held), tuple(len(range(number, servers, machines)) for number in range(machines)))

    def carry_per_byte_s(self, costs: Costs) -> float:
        """Work of carrying a byte between a worker and a server of the job, at either end, on average."""
        pairs = sum(self.workers) * sum(self.servers)
        within = sum(w * s for w, s in zip(self.workers, self.servers, strict=True))
        return (costs.carry_per_byte_s * (pairs - within) + costs.within_per_byte_s * within) / pairs


def undisturbed(
    costs: Costs,
    device: DeviceProfile | None,
    host: Host,
    *,
    num_workers: int,
    num_servers: int,
    num_parameters: int,
    batch_samples: int,
) -> Undisturbed:
    """A round of a synchronous job on as few machines like ``host`` as its GPUs allow, servers next to the workers.

    With an order to apply, all servers begin to update and all workers to load, on the same cores; servers then send,
    workers compute, and push at once. Wherever a placement really puts the tasks, the same job has the same length. It
    leaves out what the strategy's decisions and interruptions cost. ``batch_samples``: of one worker. Without servers:
    :func:`in_ring`.
    """
    cores = inf if host.cores is None else host.cores
    servers, model_bytes = num_servers, PARAMETER_BYTES * num_parameters
    costs = costs.of_model(model_bytes)
    gang = Gang.packed(num_workers, servers, host.gpus)
    if not servers:
        return in_ring(costs, device, host, gang, model_bytes=model_bytes, batch_samples=batch_samples)
    loading = Busy(max(gang.workers), costs.worker_cores, costs.data_s(batch_samples))
    updating = Busy(max(gang.servers), costs.server_cores, costs.update_s(model_bytes // servers, num_workers))
    data_s, update_s = both(loading, updating, cores)
    transfer_s = costs.latency_s + _transfer_s(costs, host, gang, model_bytes / servers)
    copy_s = costs.transfer_per_byte_s * model_bytes
    real_s = loading._replace(seconds=costs.compute_s(batch_samples)).alone_s(cores)
    gpu_s = device.seconds(batch_samples) if device is not None else 0.0
    pull_s = max(data_s, update_s + transfer_s) + copy_s
    push_s = copy_s + transfer_s
    iteration_s = costs.control_s + pull_s + max(real_s, gpu_s) + push_s + costs.control_s
    worker_s = (costs.data_s(batch_samples) + costs.compute_s(batch_samples)) * costs.worker_cores + 2 * copy_s
    carry_s = gang.carry_per_byte_s(costs) * 2 * model_bytes
    each = num_workers / servers
    return Undisturbed(
        iteration_s=iteration_s,
        worker=_demand(worker_s + carry_s, model_bytes, iteration_s, gpu_s or real_s),
        server=_demand(updating.seconds * costs.server_cores + carry_s * each, model_bytes * each, iteration_s),
    )


def in_ring(
    costs: Costs, device: DeviceProfile | None, host: Host, gang: Gang, *, model_bytes: int, batch_samples: int
) -> Undisturbed:
    """A round of replicas: with an order to apply all sum around the ring, then step, load and compute."""
    cores = inf if host.cores is None else host.cores
    workers, most = sum(gang.workers), max(gang.workers)

    def work_s(seconds: float) -> float:
        return Busy(most, costs.worker_cores, seconds).alone_s(cores)

    part_bytes, messages = model_bytes / workers, 2 * (workers - 1)
    summing_s = ring_s(costs, host, gang.workers, part_bytes, link_bytes_per_s=_link_bytes_per_s(costs, host))
    step_s = costs.replica_step_s(model_bytes)
    data_s, compute_s = costs.data_s(batch_samples), costs.compute_s(batch_samples)
    gpu_s = device.seconds(batch_samples) if device is not None else 0.0
    computing_s = max(work_s(compute_s), gpu_s)
    iteration_s = 2 * costs.control_s + summing_s + work_s(step_s) + work_s(data_s) + computing_s
    sent_bytes = messages * part_bytes
    added_s = (costs.ring_per_byte_s + 2 * costs.carry_per_byte_s) * sent_bytes
    worker_s = (step_s + data_s + compute_s) * costs.worker_cores + added_s
    return Undisturbed(
        iteration_s=iteration_s,
        worker=_demand(worker_s, sent_bytes, iteration_s, gpu_s or work_s(compute_s)),
        server=_demand(0.0, 0.0, iteration_s),
    )


def both(one: Busy, other: Busy, cores: float) -> tuple[float, float]:
    """When each is done if they begin together and share so many cores max-min fairly."""
    rates = _rates(one, other, cores)
    ends = [
        busy.seconds * busy.cores / rate if busy.seconds else 0.0
        for busy, rate in zip((one, other), rates, strict=True)
    ]
    first = 0 if ends[0] <= ends[1] else 1
    rest, rate = (one, other)[1 - first], rates[1 - first]
    left = rest._replace(seconds=rest.seconds - ends[first] * rate / rest.cores)
    ends[1 - first] = ends[first] + left.alone_s(cores)
    return ends[0], ends[1]


def _rates(one: Busy, other: Busy, cores: float) -> tuple[float, float]:
    """The cores of each task while both work."""
    if one.cores > other.cores:
        return _rates(other, one, cores)[::-1]
    low = min(one.cores, cores / (one.tasks + other.tasks))
    return low, min(other.cores, (cores - one.tasks * low) / other.tasks) if cores < inf else other.cores


def _transfer_s(costs: Costs, host: Host, gang: Gang, part_bytes: float) -> float:
    """Seconds in which every server exchanges its part with every worker, one way, without the latency of a message.

    The busiest link decides, or the work of the network stack: of a server, of a worker, of a whole machine. Between
    tasks of one machine no link is used.
    """
    workers, servers = sum(gang.workers), sum(gang.servers)
    there = list(zip(gang.workers, gang.servers, strict=True))
    crossing = max(max(w * (servers - s), s * (workers - w)) for w, s in there)
    leaves, stays = costs.carry_per_byte_s, costs.within_per_byte_s
    of_worker = [leaves * (servers - s) + stays * s for _, s in there]
    of_server = [leaves * (workers - w) + stays * w for w, _ in there]
    of_machine = [w * one + s * other for (w, s), one, other in zip(there, of_worker, of_server, strict=True)]
    carry_s = part_bytes * max(max(of_machine) / (host.cores or inf), *of_worker, *of_server)
    latency_s = 2 * host.latency_s if crossing else 0.0
    return latency_s + max(crossing * part_bytes / _link_bytes_per_s(costs, host), carry_s)


def _link_bytes_per_s(costs: Costs, host: Host) -> float:
    """Return a link's rate of payload: the host's own, or the cost model's."""
    return costs.link_bytes_per_s or inf if host.link_bytes_per_s is None else host.link_bytes_per_s * PAYLOAD_FRAC


def _demand(cpu_s: float, num_bytes: float, iteration_s: float, gpu_s: float = 0.0) -> TaskDemand:
    """On average over an iteration, in which so many bytes travel each way."""
    return TaskDemand(
        cpu_cores=cpu_s / iteration_s if iteration_s else 0.0,
        link_bytes_per_s=num_bytes / iteration_s if iteration_s else 0.0,
        cpu_s=cpu_s,
        gpu_s=gpu_s,
    )
