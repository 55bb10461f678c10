"""What an iteration takes, and uses, while nobody disturbs the job: a closed form (pure)."""

from __future__ import annotations

from math import inf

import msgspec

from runtime.cluster.device import DeviceProfile
from runtime.cluster.hosts import Host
from runtime.core.vectors import PARAMETER_BYTES
from runtime.virtual.costs import Costs
from runtime.virtual.machines.sites import PAYLOAD_FRAC
from strategies.protocol import TaskDemand


class Undisturbed(msgspec.Struct, frozen=True, kw_only=True):
    """One iteration of a synchronous job."""

    iteration_s: float
    worker: TaskDemand
    server: TaskDemand


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
    """A round of a synchronous job whose workers are on ``host``, as far as it has GPUs, and its servers on its like.

    All workers pull at once, load meanwhile, compute, and push at once; then every server updates its range. It leaves
    out what overlaps by chance and what the strategy's decisions cost. ``batch_samples``: of one worker.
    """
    cores = inf if host.cores is None else host.cores
    link = costs.link_bytes_per_s or inf
    if host.link_bytes_per_s is not None:
        link = host.link_bytes_per_s * PAYLOAD_FRAC
    model_bytes = PARAMETER_BYTES * num_parameters
    together = min(num_workers, host.gpus or num_workers)
    stretch = max(1.0, together * costs.worker_cores / cores)
    transfer_s = costs.latency_s + 2 * host.latency_s + num_workers * model_bytes / link
    copy_s = costs.transfer_per_byte_s * model_bytes
    data_s = costs.data_s(batch_samples) * stretch
    real_s = costs.compute_s(batch_samples) * stretch
    gpu_s = device.seconds(batch_samples) if device is not None else 0.0
    update_s = costs.update_s(model_bytes // max(1, num_servers), num_workers)
    update_s *= max(1.0, num_servers * costs.server_cores / cores)
    pull_s = max(data_s + costs.control_s, transfer_s + costs.control_s) + copy_s
    iteration_s = pull_s + max(real_s, gpu_s) + copy_s + transfer_s + update_s + costs.control_s
    worker_s = (costs.data_s(batch_samples) + costs.compute_s(batch_samples)) * costs.worker_cores + 2 * copy_s
    server_s = costs.update_s(model_bytes // max(1, num_servers), num_workers) * costs.server_cores
    carry_s = costs.carry_per_byte_s * 2 * model_bytes
    each = num_workers / max(1, num_servers)
    return Undisturbed(
        iteration_s=iteration_s,
        worker=_demand(worker_s + carry_s, model_bytes, iteration_s, gpu_s or real_s),
        server=_demand(server_s + carry_s * each, model_bytes * each, iteration_s),
    )


def _demand(cpu_s: float, num_bytes: float, iteration_s: float, gpu_s: float = 0.0) -> TaskDemand:
    """On average over an iteration, in which so many bytes travel each way."""
    return TaskDemand(
        cpu_cores=cpu_s / iteration_s if iteration_s else 0.0,
        link_bytes_per_s=num_bytes / iteration_s if iteration_s else 0.0,
        cpu_s=cpu_s,
        gpu_s=gpu_s,
    )
