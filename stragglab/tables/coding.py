"""Properties of gradient codes that follow from arithmetic alone: nothing is run, on neither a clock nor machines.

``python run.py experiment`` takes the rows of an experiment with ``table: coding`` from here. Times follow Wang et al.
(ICDCS 2019, Eq. 3): a worker's time is its share of the data over its throughput, here its vCPUs, and the iteration
ends when the available rows can be decoded; there is neither network nor chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from math import comb, inf

import numpy as np
import pandas as pd
import yaml

from analysis.experiments.spec import Cell, Spec, cells
from runtime.house import ROOT
from strategies.gradient_coding import Code, build
from strategies.gradient_coding.decoding import RESIDUAL, Floats, Indices

CLUSTERS = ("A", "B", "C", "D")
"""Wang et al., Table II."""
SYSTEMS = {
    "coding_naive": "naive",
    "coding_cyclic": "cyclic",
    "coding_heter_aware": "heter_aware",
    "coding_group_based": "group_based",
}
"""Coding schemes by the names of their strategies."""
DRAWS = 20
"""Seed of random matrices; times do not depend on it."""


def coding(spec: Spec) -> pd.DataFrame:
    """One row per ``cluster`` (A to D), ``s`` and ``system``, with the columns of :func:`row`."""
    return pd.DataFrame([row_of_cell(cell, row(cell)) for cell in cells(spec)])


def row_of_cell(cell: Cell, measures: dict[str, object]) -> dict[str, object]:
    """The row of a cell of which nothing was run."""
    about = {"seed": cell.seed, "runtime": "arithmetic", "calibration": "", "plan_sha256": None, "completed": True}
    return {**cell.levels, **about, **measures}


def row(cell: Cell) -> dict[str, object]:
    """The row of one cell.

    ``workers``, ``vcpus``; ``parts``, k; ``no_fault``, ``mean_fault``, ``worst_fault``, the time of an iteration over
    the optimum (s + 1) / sum of throughputs, without a fault and with s, as mean and maximum over all sets of s
    workers; ``decoded``, the share of those sets that can be decoded; ``copies_off``, the largest difference between
    the number of copies of a part and s + 1 (naive: 1); ``decode_from``, the smallest sufficient number of workers.
    """
    speeds, s, system = speeds_of(cell.levels["cluster"]), int(cell.levels["s"]), cell.levels["system"]
    code, optimum = code_of(SYSTEMS[system], speeds, s), (s + 1) / sum(speeds)
    faults = decoding_times(code, speeds, every_set(len(speeds), s)) / optimum
    held = (code.matrix != 0).sum(axis=0)
    tolerated = 0 if system == "coding_naive" else s
    return {
        **{"workers": len(speeds), "vcpus": sum(speeds), "parts": code.matrix.shape[1]},
        "no_fault": float(decoding_times(code, speeds, every_set(len(speeds), 0))[0] / optimum),
        **{"mean_fault": float(faults.mean()), "worst_fault": float(faults.max())},
        "decoded": float(np.isfinite(faults).mean()),
        "copies_off": int(np.abs(held - tolerated - 1).max()),
        "decode_from": min([len(speeds) - tolerated, *map(len, code.groups)]),
    }


def speeds_of(cluster: str) -> tuple[int, ...]:
    """Throughput of every worker of Cluster-A to Cluster-D, from the type names in ``conf/cluster/gc_?.yaml``."""
    devices = yaml.safe_load((ROOT / "conf" / "cluster" / f"gc_{cluster.lower()}.yaml").read_bytes())["devices"]
    found = {worker: int(name.removeprefix("vcpu")) for name, each in devices.items() for worker in each["workers"]}
    return tuple(found[worker] for worker in sorted(found))


@cache
def code_of(scheme: str, speeds: tuple[int, ...], s: int) -> Code:
    """The code of a scheme for workers with these throughputs, even if rounding makes it useless in float32."""
    tolerated = 0 if scheme == "naive" else s
    chance = np.random.default_rng(2019)
    return build(scheme, speeds, tolerated, chance, draws=DRAWS, max_amplification=1e12).code


def every_set(m: int, size: int) -> Indices:
    """All sets of this size of ``m`` workers, int [sets, size]."""
    return np.array(list(combinations(range(m), size)), dtype=np.intp).reshape(comb(m, size), size)


def decoding_times(code: Code, speeds: Sequence[float], dead: Indices) -> Floats:
    """Time at which the gradient can be decoded without each ``dead`` set, [sets]; infinite if it never can be.

    1 / c is the time that a worker of throughput c needs for all parts.
    """
    m, k = code.matrix.shape
    done = np.round((code.matrix != 0).sum(axis=1) / (k * np.asarray(speeds, dtype=np.float64)), 12)
    latest = [[worker for worker in np.argsort(-done, kind="stable") if worker not in gone] for gone in dead.tolist()]
    alive = np.array(latest, dtype=np.intp).reshape(len(dead), m - dead.shape[1])
    found, left = np.full(len(dead), inf), np.arange(len(dead))
    for waived in range(alive.shape[1]):  # more rows never hurt: drop the latest until decoding fails
        missing = np.column_stack([dead[left], alive[left, :waived]])
        residual = np.abs(code.weights(missing) @ code.matrix - 1).max(axis=1)
        left = left[residual <= RESIDUAL]
        if not len(left):
            break
        found[left] = done[alive[left, waived]]
    return found
