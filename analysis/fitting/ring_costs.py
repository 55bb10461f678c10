"""Costs of an all-reduce among workers, from the time of its last member, which does not wait for others.

The others wait for their senders, so the shortest pull of an update's members is the time of the 2 (n - 1) steps and of
the update itself.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.fitting.estimates import FLOAT_BYTES, Calibration, put_line, put_median, value_of
from analysis.measures.host_work import wire_s
from analysis.records.load import Run

STEP, PER_BYTE = "ring_step_s", "ring_per_byte_s"
OF_RUN = ("run", "block")


def has_ring(run: Run) -> bool:
    """Whether its workers sum their gradients in a ring of ours, and there are no servers."""
    return run.job.get("topology") == "allreduce" and run.job.get("collective") == "ring"


def updates_of(run: Run, rows: pd.DataFrame, num_parameters: int) -> pd.DataFrame:
    """A row per update in which all workers took part, of which ``rows`` are the iterations that began with it.

    ``reduce_s``: the time of its last member; ``steps`` of its ring; ``part_bytes`` of a message; ``wire_s``: the
    least time for one on the hosts' links; ``run``, ``block`` of its first row.
    """
    members = int(run.job["num_workers"])
    calm = rows[(rows["version_read"] > 0) & ~rows["disturbed"] & (rows["pull_s"] > 0)]
    updates = calm.groupby("version_read").agg(
        reduce_s=("pull_s", "min"), came=("worker", "nunique"), **{name: (name, "first") for name in OF_RUN}
    )
    whole = updates[updates["came"] == members] if members > 1 else updates[:0]
    part_bytes = FLOAT_BYTES * int(np.ceil(num_parameters / max(1, members)))
    sizes = {"part_bytes": part_bytes, "num_bytes": FLOAT_BYTES * num_parameters, "wire_s": wire_s(run, part_bytes)}
    return whole.reset_index(drop=True).assign(steps=2 * (members - 1), **sizes)


def fit_ring(updates: pd.DataFrame, fitted: Calibration, *, on_hosts: bool) -> None:
    """Fit a step's time beyond the update itself; on hosts also beyond its message, as the cost model does.

    There a step does not depend on the size, since carrying does. It contains the wait of a member with a used-up quota
    for the kernel to refill it, which the model spreads evenly.
    """
    own_s = value_of(fitted, "update_base_s") + value_of(fitted, "update_per_byte_s") * updates["num_bytes"]
    rows = updates.assign(hop_s=(updates["reduce_s"] - own_s) / updates["steps"])
    lack = "only runs with topology=allreduce topology.collective=ring have a ring"
    if not on_hosts:
        put_line(fitted, (STEP, PER_BYTE), rows, "part_bytes", "hop_s", "size of messages in a ring", lack)
        return
    fitted.missing[PER_BYTE] = "contained in carry_per_byte_s"
    # a worker is one thread, which sends and receives at the same time
    carried_s = 2 * value_of(fitted, "carry_per_byte_s") * rows["part_bytes"]
    message_s = np.maximum(rows["wire_s"], carried_s) + value_of(fitted, "latency_s")
    rows = rows.assign(over_s=rows["hop_s"] - message_s)
    put_median(fitted, STEP, rows, "over_s", lack)
