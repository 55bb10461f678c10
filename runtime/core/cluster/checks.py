"""Whether a job could ever run on a cluster, said before it is submitted."""

from __future__ import annotations

import math

from strategies.protocol import JobRequest, Placement, Policy, Room


def problem_of(request: JobRequest, empty: Room, policy: Policy, placement: Placement) -> str | None:
    """Why the job cannot be submitted, in one line that names it; None: it can. ``empty``: nobody runs there."""
    job, seconds = f"job {request.job}", request.duration_s
    if request.gpus < 1:
        return f"{job}: gpus={request.gpus}: must be 1 or more"
    if request.servers < 0:
        return f"{job}: servers={request.servers}: must be 0 or more"
    if not math.isfinite(request.submit_s) or request.submit_s < 0:
        return f"{job}: submit_s={request.submit_s}: must be a finite number, 0 or more"
    if seconds is not None and not 0 <= seconds < math.inf:
        return f"{job}: duration_s={seconds}: must be a finite number, 0 or more"
    if seconds is None and policy.needs_durations:
        return f"{job}: its duration is unknown, and the policy goes by durations; give one, or use policy=fifo or las"
    if request.gpus > empty.total_gpus:
        return f"{job}: gpus={request.gpus}: the cluster has {empty.total_gpus} GPUs; use more or larger hosts"
    if placement.place(request, empty) is None:
        return f"{job}: gpus={request.gpus}: has no place even on the empty cluster by this placement's rules"
    return None
