"""Costs of emulated hosts: core-seconds of computing and of carrying messages, and the overhead of their common kernel.

Determined from the processor time of the tasks (:mod:`analysis.measures.host_work`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import hypot

import numpy as np
import pandas as pd

from analysis.fitting.estimates import BLOCK, FEWEST, FLOAT_BYTES, Calibration, put_line, put_median, value_of
from analysis.fitting.robust import Estimate, median
from analysis.measures.host_work import traffic, work
from analysis.measures.neighbours import Neighbours, set_of
from analysis.records.load import Run

MINGLES = 0.5
"""Part of all traffic that is others' while any of the workers computes, at least, where they are not in step."""
COMPUTING = ("compute_base_s", "compute_per_sample_s")
NOTHING = Estimate(0.0, 0.0, 0)
HALVINGS = 40
"""Halvings of the range in which ``interrupt_per_byte_s`` is looked for."""


def observed(number: int, run: Run, num_parameters: int, neighbours: Neighbours) -> pd.DataFrame:
    """Processor time of tasks (:func:`host_work.work`) with ``run``, ``block``; ``bytes`` of the model.

    ``of_others``: bytes per second between hosts of messages of others, of this job (:func:`host_work.traffic`) and of
    its neighbours; ``mingles``: whether workers compute while others of their job send; ``crowded``: whether it is one
    of a set of jobs.
    """
    rows = work(run)
    blocks = number * 10**9 + np.arange(len(rows)) // BLOCK
    num_bytes, num_servers = FLOAT_BYTES * num_parameters, run.job.get("num_servers") or 1
    sent = traffic(run, num_bytes)
    of_others = rows["node"].map(sent.of_others).fillna(0.0)
    mingles = bool(of_others[rows["role"] == "worker"].min() > MINGLES * sent.all_bytes_per_s)
    of_others += neighbours.bytes_per_s(run, rows["t"], rows["period_s"])
    about = {"of_others": of_others, "mingles": mingles, "crowded": set_of(run) is not None}
    return rows.assign(run=number, block=blocks, bytes=num_bytes, num_servers=num_servers, **about)


def fit_wire(rows: pd.DataFrame, fitted: Calibration) -> None:
    """Push time beyond the links' transfer time, for a worker alone on its links; the work at both ends overlaps."""
    lack = "no run of one worker whose tasks have a core each (cluster.hosts.cpu_cores=null)"
    put_median(fitted, "latency_s", rows[~rows["server_disturbed"]], "over_s", lack)
    fitted.missing["transfer_per_byte_s"] = "contained in carry_per_byte_s"


def fit_work(rows: pd.DataFrame, fitted: Calibration) -> None:
    """Core-seconds of carrying, computing and interruptions: processor time of servers and workers.

    A byte costs less where more of them arrive together. So of single jobs only the runs with the most workers are
    used. Sets of jobs, if there are any, determine carrying and interruptions. If interruptions are known, computing is
    fitted to runs without any.
    """
    alone, crowded = rows[~rows["crowded"]], rows[rows["crowded"]]
    alone = alone[alone["num_workers"] == alone["num_workers"].max()]
    servers, workers = _working(alone)
    for name in COMPUTING:
        fitted.estimates.pop(name, None)
        fitted.missing.pop(name, None)
    _fit_carrying(servers, fitted)
    within = workers["crossing_frac"] == 0
    if len(crowded):
        known = _fit_contention(workers[within], crowded, fitted)
    else:
        known = _fit_interruptions(servers, workers, fitted)
    put_line(
        fitted, COMPUTING, _computing(workers[within] if known else workers, fitted), "samples", "real_s", "batch size"
    )


def _working(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Servers that had messages, and workers that ended an iteration."""
    servers, workers = (rows[rows["role"] == role] for role in ("server", "worker"))
    return servers[servers["messages"] > 0], workers[workers["iterations"] > 0]


def _computing(workers: pd.DataFrame, fitted: Calibration) -> pd.DataFrame:
    """Return the time that computing an iteration's ``samples`` took (``real_s``): the rest after the other terms."""
    samples = workers["samples"] / workers["iterations"]
    others_s = value_of(fitted, "data_base_s") + value_of(fitted, "data_per_sample_s") * samples
    carried = 2 * workers["bytes"] * workers["crossing_frac"]
    others_s += carried * value_of(fitted, "carry_per_byte_s")
    others_s += (2 * workers["bytes"] - carried) * _within(fitted)
    real_s = _uninterrupted_s(workers, fitted) / workers["iterations"] - others_s
    return workers.assign(samples=samples, real_s=real_s)


def _uninterrupted_s(rows: pd.DataFrame, fitted: Calibration) -> pd.Series:
    """Processor time without the interruptions by messages between hosts that were charged to it."""
    charged = 1 - rows["of_others"] * value_of(fitted, "interrupt_per_byte_s")
    uninterrupted: pd.Series = rows["cpu_s"] * charged
    return uninterrupted


def _fit_carrying(servers: pd.DataFrame, fitted: Calibration) -> None:
    """Fit messages that stay on their host, from servers with no others; then those that leave it, from all."""
    lack = "no run whose tasks are all on one host (cluster.hosts.count=1); at carry_per_byte_s"
    put_median(
        fitted, "carry_within_per_byte_s", _fit_serving(servers[servers["crossing_frac"] == 0], fitted), "carry", lack
    )
    rows = _leaving(_fit_serving(servers[servers["crossing_frac"] > 0], fitted), fitted)
    put_median(fitted, "carry_per_byte_s", rows, "carry", "no server was observed that has messages of other hosts")


def _fit_serving(servers: pd.DataFrame, fitted: Calibration) -> pd.DataFrame:
    """Return a server's cost per byte (``carry``): the part that updates leave."""
    part_bytes = servers["bytes"] / servers["num_servers"]
    updates_s = servers["updates"] * value_of(fitted, "update_base_s")
    updates_s += servers["grads"] * part_bytes * value_of(fitted, "update_per_byte_s")
    carried_s = _uninterrupted_s(servers, fitted) - updates_s
    return servers.assign(carry=carried_s / (servers["messages"] * part_bytes))


def _leaving(rows: pd.DataFrame, fitted: Calibration) -> pd.DataFrame:
    """Return the part of ``carry`` that a byte costs when it leaves the host, if the cost of staying is known."""
    if "carry_within_per_byte_s" not in fitted.estimates:
        return rows
    stays = (1 - rows["crossing_frac"]) * value_of(fitted, "carry_within_per_byte_s")
    return rows.assign(carry=(rows["carry"] - stays) / rows["crossing_frac"])


def _fit_contention(alone: pd.DataFrame, crowded: pd.DataFrame, fitted: Calibration) -> bool:
    """Interruptions by neighbours, of workers whose own messages stay on their host; then carrying, at both ends.

    ``alone``: workers without interruptions. Returns whether interruptions are determined.
    """
    servers, workers = _working(crowded)
    stay = workers[workers["crossing_frac"] == 0]
    if len(alone) < FEWEST or len(stay) < FEWEST:
        lack = "no worker of a set of jobs had its server on its host, or there is no run on one host"
        fitted.missing["interrupt_per_byte_s"] = lack
        return False
    put_line(fitted, COMPUTING, _computing(alone, fitted), "samples", "real_s", "batch size")

    def longer(interrupt_s: float) -> pd.DataFrame:
        tried = Calibration(dict(fitted.estimates))
        tried.estimates["interrupt_per_byte_s"] = Estimate(interrupt_s, 0.0, len(stay))
        return _longer(_computing(stay, tried), fitted)

    fitted.estimates["interrupt_per_byte_s"] = _halve(longer, stay)
    leave = workers[workers["crossing_frac"] > 0]
    received = _longer(_computing(leave, Calibration(fitted.estimates | {"carry_per_byte_s": NOTHING})), fitted)
    received["carry"] = received["longer_s"] / (2 * received["bytes"] * received["crossing_frac"])
    served = _leaving(_fit_serving(servers[servers["crossing_frac"] > 0], fitted), fitted)
    if min(len(received), len(served)) >= FEWEST:
        ends = median(received, "carry"), median(served, "carry")
        value, error = sum(end.value for end in ends) / 2, hypot(*(end.error for end in ends)) / 2
        note = f"of workers {ends[0].value:.2g}, of servers {ends[1].value:.2g}"
        fitted.estimates["carry_per_byte_s"] = Estimate(max(0.0, value), error, len(received) + len(served), note)
        fitted.missing.pop("carry_per_byte_s", None)
    return True


def _longer(rows: pd.DataFrame, fitted: Calibration) -> pd.DataFrame:
    """Return how much longer (``longer_s``) an iteration's ``real_s`` is than computing by the estimates."""
    base_s, each_s = (value_of(fitted, name) for name in COMPUTING)
    return rows.assign(longer_s=rows["real_s"] - (base_s + each_s * rows["samples"]))


def _fit_interruptions(servers: pd.DataFrame, workers: pd.DataFrame, fitted: Calibration) -> bool:
    """The time for which a byte interrupts: so long that computing takes as long between hosts as within one.

    Only runs whose workers compute while others send show it. Returns whether these runs determine it.
    """
    within, apart = workers[workers["crossing_frac"] == 0], workers[(workers["crossing_frac"] > 0) & workers["mingles"]]
    if len(within) < FEWEST or len(apart) < FEWEST:
        lack = "no runs on one host and, with an asynchronous strategy, on several"
        fitted.missing["interrupt_per_byte_s"] = lack
        return False
    alone = Calibration(dict(fitted.estimates))
    put_line(alone, COMPUTING, _computing(within, alone), "samples", "real_s", "batch size")

    def longer(interrupt_s: float) -> pd.DataFrame:
        tried = Calibration(dict(alone.estimates))
        tried.estimates["interrupt_per_byte_s"] = Estimate(interrupt_s, 0.0, len(apart))
        _fit_carrying(servers, tried)
        return _longer(_computing(apart, tried), alone)

    fitted.estimates["interrupt_per_byte_s"] = _halve(longer, apart)
    _fit_carrying(servers, fitted)
    return True


def _halve(longer: Callable[[float], pd.DataFrame], rows: pd.DataFrame) -> Estimate:
    """Find, by halving, the interruptions with which ``rows`` take no longer than they should.

    With more of them, less of the processor time is left for carrying, and then for computing.
    """
    low, high = 0.0, 1 / float(rows["of_others"].max())
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if longer(middle)["longer_s"].median() > 0 else (low, middle)
    left = longer(low)
    slope = float((left["cpu_s"] / left["iterations"] * left["of_others"]).median())
    return Estimate(low, median(left, "longer_s").error / slope, len(left))


def _within(fitted: Calibration) -> float:
    known = "carry_within_per_byte_s" in fitted.estimates
    return value_of(fitted, "carry_within_per_byte_s" if known else "carry_per_byte_s")
