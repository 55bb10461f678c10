"""The measurements of a GPU that several workers share (pure): the jobs, and the figures of papers and goals.

All jobs train ResNet-20 on random images in the form of CIFAR-10, since a machine with a GPU may have no data. On a GPU
it is four times as wide, so that kernels use the whole device.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from analysis.experiments.measures import idle_frac
from analysis.measures.work import STRAGGLER_FRAC, with_samples
from analysis.records.load import Run
from stragglab.grids.grid import QUIET, quote

FIDELITY, SATURATION, SHARES = PARTS = ("fidelity", "saturation", "shares")
"""Parts that can be measured by themselves, most wanted first."""
_PARTS = {"fit": FIDELITY, "live": FIDELITY, "alone": SATURATION, "graphs": SATURATION, "shares": SHARES}
NUM_WORKERS = 4
PERCENT = (60, 60, 20, 20)
"""Percent of the multiprocessors by worker: two fast ones and two slow ones, three to one (AntDT section VI-B)."""
CALM = "straggler=none"
FIDELITY_FRAC = 0.05
LEFT_FRAC = 0.5
SYSTEMS = {
    "bsp": ("strategy=bsp",),
    "lb_bsp_gpu": ("strategy=lb_bsp_gpu",),
    "antdt_dd": ("strategy=antdt_dd", "topology=allreduce"),
}
"""AntDT figure 9: idle time falls in this order."""


class Size(NamedTuple):
    """How large the jobs are on a kind of device."""

    width: float
    samples: int
    batches: tuple[int, ...]
    """Batches of one worker alone."""
    each: tuple[int, int, int]
    """Samples of a worker of four: smallest, largest, and the one whose time is predicted."""
    epochs: int


SIZES = {
    "cuda": Size(4.0, 5120, (8, 32, 64, 128, 256), (64, 128, 96), 8),
    "fake": Size(0.25, 640, (2, 8, 32), (8, 16, 12), 4),
}


class Row(NamedTuple):
    """One result; ``holds`` is None where it is only reported."""

    what: str
    wanted: str
    found: str
    holds: bool | None


def common(device: str, data: Path) -> list[str]:
    """Settings of all jobs; ``data``: where the images are."""
    size = SIZES[device]
    task = "workload.task"
    return [
        *("workload=resnet20_cifar10", f"{task}.data_dir={quote(data)}", f"{task}.width={size.width:g}"),
        *(f"+{task}.dataset.verify=false", f"{task}.dataset.augment=false", "workload.optimizer.lr=0.01"),
        *("workload.target=null", "workload.convergence=null", "eval_every_s=null", "checkpoint_every_s=null"),
        *("cluster.device=null", "topology.num_servers=1", "topology.transport=shm", "max_time_s=120", *QUIET),
    ]


def live_jobs(device: str, data: Path) -> dict[str, list[str]]:
    """All jobs with real processes, by name."""
    size, on_device = SIZES[device], [f"backend.device={device}", "cluster.gpus.devices=[0]"]
    base = [*common(device, data), *on_device]
    found = {
        f"alone_{batch}": [*base, CALM, "cluster.num_workers=1", f"workload.global_batch_samples={batch}", *_epochs(1)]
        for batch in size.batches
    }
    found["graphs"] = [*found[f"alone_{min(size.batches)}"], "backend.graphs=true"]
    shares = ["cluster.gpus.share=mps", f"cluster.gpus.mps_percent=[{','.join(map(str, PERCENT))}]"]
    for name, words in SYSTEMS.items():
        others = [word for word in base if not (name == "antdt_dd" and word.startswith("topology."))]
        found[f"shares_{name}"] = [*others, CALM, *shares, *words, *_batch(size.each[1]), *_epochs(2 * size.epochs)]
    for each in size.each[:2]:
        found[f"fit_{each}"] = [*base, CALM, "strategy=bsp", *_batch(each), *_epochs(size.epochs)]
    for name, job in predicted_jobs(device, live=True).items():
        found[f"live_{name}"] = [*base, *job]
    return found


def part_of(name: str) -> str:
    """The part to which a live job belongs."""
    return _PARTS[name.partition("_")[0]]


def virtual_jobs(device: str, data: Path, costs: Path) -> dict[str, list[str]]:
    """The same jobs on a virtual clock, by the cost model of this device."""
    base = [*common(device, data), "runtime=virtual", "backend=none", f"cluster.costs={quote(costs)}"]
    return {f"virtual_{name}": [*base, *words] for name, words in predicted_jobs(device, live=False).items()}


def predicted_jobs(device: str, *, live: bool) -> dict[str, list[str]]:
    """Jobs whose time is predicted: of another batch size, asynchronous, and next to other work on the device."""
    size = SIZES[device]
    job = [*_batch(size.each[2]), *_epochs(size.epochs)]
    target = "device:0" if live else "worker:*"  # all workers use that device; virtual ones have one each
    hog = ["straggler=gpu_hog", f"straggler.left_frac={LEFT_FRAC}", f"straggler.targets=[{quote(target)}]"]
    return {
        "bsp": ["strategy=bsp", *job, CALM],
        "asp": ["strategy=asp_even", *job, CALM],
        "bsp_hog": ["strategy=bsp", *job, *hog],
    }


def _batch(each: int) -> list[str]:
    return [f"cluster.num_workers={NUM_WORKERS}", f"workload.global_batch_samples={NUM_WORKERS * each}"]


def _epochs(count: int) -> list[str]:
    return [f"workload.epochs={count}"]


# ---- what they say --------------------------------------------------------------------------------------------------


def rows(device: str, runs: Mapping[str, Run]) -> Iterator[Row]:
    """All results of these runs: the papers', then the virtual clock's; incomplete ones are left out."""
    alone = {batch: f"alone_{batch}" for batch in SIZES[device].batches}
    if runs.keys() >= set(alone.values()):
        yield from saturation({batch: runs[name] for batch, name in alone.items()})
    if {smallest := alone[min(alone)], "graphs"} <= runs.keys():
        yield launches(runs[smallest], runs["graphs"])
    shared = {name: f"shares_{name}" for name in SYSTEMS}
    if runs.keys() >= set(shared.values()):
        yield idle_order({name: runs[job] for name, job in shared.items()})
    if (largest := f"fit_{SIZES[device].each[1]}") in runs:
        yield gpu_stragglers(runs[largest])
        yield iteration_parts(runs[largest])
    pairs = {name: (f"live_{name}", f"virtual_{name}") for name in predicted_jobs(device, live=True)}
    yield from fidelity(
        {name: (runs[live], runs[virtual]) for name, (live, virtual) in pairs.items() if {live, virtual} <= runs.keys()}
    )


SPENT = {"waiting": "wait_s", "loading": "data_s", "pulling": "pull_s", "computing": "compute_s", "sending": "send_s"}


def iteration_parts(run: Run) -> Row:
    """Where an iteration goes; copies are part of computing."""
    times = with_samples(run.tables.iterations)[[*SPENT.values(), "stage_s"]].median()
    parts = ", ".join(f"{word} {1e3 * times[name]:.2f}" for word, name in SPENT.items())
    found = f"{parts} (of it copies {1e3 * times['stage_s']:.2f})"
    return Row(f"an iteration of {NUM_WORKERS} workers, medians, ms", "", found, None)


def launches(alone: Run, at_once: Run) -> Row:
    """Return the cost of launching the kernels of the smallest batch one by one."""
    times = [1e3 * float(with_samples(run.tables.iterations)["compute_s"].median()) for run in (alone, at_once)]
    found = "one by one {:.2f} ms, at once {:.2f} ms".format(*times)
    return Row("kernels of the smallest batch, one worker", "", found, None)


def saturation(alone: Mapping[int, Run]) -> Iterator[Row]:
    """AntDT figure 8: the time of a batch is flat for small batches, and grows with the batch for large ones."""
    times = {batch: float(with_samples(run.tables.iterations)["compute_s"].median()) for batch, run in alone.items()}
    text = ", ".join(f"{batch}: {1e3 * seconds:.2f} ms" for batch, seconds in times.items())
    (small, first_s), (large, last_s) = min(times.items()), max(times.items())
    per_sample = (last_s / large) / (first_s / small)
    holds = per_sample < 0.5
    yield Row(
        "antdt.fig8: time of a batch, one worker", "a sample costs less than half in the largest batch", text, holds
    )


def idle_order(shared: Mapping[str, Run]) -> Row:
    """AntDT figure 9: idle time, AntDT-DD least, then LB-BSP, then BSP."""
    idle = {name: idle_frac(run) for name, run in shared.items()}
    text = ", ".join(f"{name} {value:.1%}" for name, value in idle.items())
    holds = all(idle[one] > idle[other] for one, other in zip(list(SYSTEMS), list(SYSTEMS)[1:], strict=False))
    return Row(f"antdt.fig9: idle time, MPS shares {PERCENT}", "bsp > lb_bsp_gpu > antdt_dd", text, holds)


def gpu_stragglers(run: Run) -> Row:
    """STAR figure 1b: no job has stragglers by the GPU's time, where no other job shares it; here four workers do."""
    full = with_samples(run.tables.iterations)
    full = full[full["samples"] == full["assigned_samples"]]
    times = full.groupby("iteration")["compute_s"]
    slow = times.max() / times.min() - 1.0 > STRAGGLER_FRAC
    found = f"{slow.mean():.1%} of {len(slow)} iterations"
    return Row(
        "star.fig1.b_gpu: iterations with a straggler by computing", "0 % (a GPU each); here shared", found, None
    )


def fidelity(pairs: Mapping[str, tuple[Run, Run]]) -> Iterator[Row]:
    """The virtual clock against the device."""
    for name, (live, virtual) in pairs.items():
        error = virtual.end_s / live.end_s - 1.0
        found = f"live {live.end_s:.2f} s, virtual {virtual.end_s:.2f} s ({error:+.1%})"
        holds = not math.isnan(error) and abs(error) <= FIDELITY_FRAC
        yield Row(f"fidelity of JCT, {name}", f"within {FIDELITY_FRAC:.0%}", found, holds)


def verdict(row: Row) -> str:
    """Return the report's verdict on a row."""
    return "" if row.holds is None else "yes" if row.holds else "NO"


def cells(found: Sequence[Row]) -> list[list[str]]:
    """The rows as lines of a table, with their verdicts."""
    return [[row.what, row.wanted, row.found, verdict(row)] for row in found]
