"""An iteration as straggler predictors observe it."""

from __future__ import annotations

from math import isnan, nan

from predictors.stragglers import Observation
from strategies.protocol import Arrived, Ready


def observe(event: Arrived | Ready, model_bytes: float, iter_s: float) -> Observation:
    """An iteration of ``iter_s`` with what it received.

    That is processor seconds per second awake, and bytes per second of sending; NaN where unknown, as ``model_bytes``
    may be.
    """
    grad, timings = event.grad, event.timings
    awake_s = timings.iter_s - timings.injected_s
    cpu_frac = timings.cpu_s / awake_s if timings.cpu_s and awake_s > 0 else nan
    return Observation(
        t=event.t,
        worker=grad.worker,
        iteration=grad.iteration,
        iter_s=iter_s,
        cpu_frac=nan if isnan(cpu_frac) else min(1.0, cpu_frac),
        bytes_per_s=model_bytes / timings.send_s if timings.send_s > 0 else nan,
        samples=float(grad.samples),
        data_s=timings.data_s,
        send_s=timings.send_s,
    )
