"""The default grids of ``python run.py fidelity``: jobs that are short but informative.

Iterations take 36 ms; patterns, and the monitoring windows of strategies, have a quarter of their length in ``conf``.
The target is a held-out loss, which decreases steadily, and not an accuracy, which moves in steps of one image and
crosses its target back and forth; it is reached after more than twenty evaluations.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import NamedTuple

from analysis.about import ABOUT, STEADY
from analysis.measures.agreement import TOLERANCE_FRAC
from stragglab.grids.choices import choices
from stragglab.terminal.lists import names_of


class Part(NamedTuple):
    """All combinations of strategies and patterns; ``twice`` lists the cases that are also run a second time live."""

    strategies: str
    stragglers: str
    twice: str = ""


class Grid(NamedTuple):
    """The runs of one page.

    ``settings`` apply to all jobs, ``of_strategy`` and ``of_straggler`` to some; ``slower`` makes devices or cores 1 %
    slower. The first ``repeats`` seeds have second live runs, and virtual ones on slower devices. ``speed``: the
    setting by which virtual processors are made as fast as live; empty where they matter little.
    """

    cluster: str
    parts: tuple[Part, ...]
    costs: str
    title: str
    out: str
    settings: tuple[str, ...]
    of_strategy: dict[str, tuple[str, ...]]
    of_straggler: dict[str, tuple[str, ...]]
    slower: tuple[str, ...]
    note: str
    tolerance_frac: float = TOLERANCE_FRAC
    seeds: str = "0,1,2,3,4"
    repeats: int = 3
    speed: str = ""

    def listed(self, kind: str) -> str:
        """``strategies`` or ``stragglers`` of all parts, without duplicates."""
        return ",".join(dict.fromkeys(name for part in self.parts for name in getattr(part, kind).split(",")))


CORE = "bsp,asp_even,ssp,backup_workers"
DECIDING = ",".join(name for name, one in ABOUT.items() if one.monitors)
"""Strategies that monitor, so that their decisions may depend on noise."""
ALL = ",".join(STEADY)
SYNCHRONOUS = "bsp,lb_bsp,lb_bsp_gpu,lb_bsp_star,antdt_dd"
_TARGET = ("workload.metric=loss", "workload.higher_is_better=false")
_JOB = (
    "workload.epochs=6",
    "workload.optimizer.lr=0.022",
    *_TARGET,
    "workload.target=0.9",
    "eval_every_s=0.05",
    "checkpoint_every_s=2.5",
)
_DEVICE = ("cluster.device.base_s=0.012", "cluster.device.per_sample_s=0.00075")
_SLOWER_DEVICE = ("cluster.device.base_s=0.01212", "cluster.device.per_sample_s=0.0007575")
_QUARTER = ("period_s=1.5", "duration_s=0.75")
_ND = ("short_window_s=1.5", "long_window_s=3.0", "decide_every_s=0.75", "cooldown_s=3.0")
_COMPOSED = (
    "detectors.stragglers.short_window_s=1.5",
    "detectors.stragglers.long_window_s=3.0",
    "decide_every_s=0.75",
    "actions.kill_restart.cooldown_s=3.0",
)
_WATCHING = {
    "antdt_nd": _ND,
    "antdt_nd_asp": _ND,
    "composed": _COMPOSED,
    "dynamic_x": ("window_s=1.5",),
    "sync_switch": ("duration_s=0.25",),
    "sync_switch_elastic": ("duration_s=0.25", "probe_s=0.5"),
    "sync_switch_restart": ("duration_s=0.5",),
}
OF_STRATEGY = {name: tuple(f"strategy.{one}" for one in settings) for name, settings in _WATCHING.items()}
_MIXED = tuple(f"straggler.patterns.transient.{one}" for one in (*_QUARTER, "sleep_iters=2.5"))
OF_STRAGGLER = {
    "transient": tuple(f"straggler.{one}" for one in (*_QUARTER, "sleep_iters=2.5")),
    "persistent": ("straggler.sleep_iters=1.5",),
    "transient_and_persistent": (*_MIXED, "straggler.patterns.persistent.sleep_iters=1.5"),
}

_NOTE_LOCAL = """\
Every strategy faces one pattern, transient and persistent stragglers together; four of them also face each of the two
alone and none. Not compared: other patterns, clusters and batch sizes than these, losses of servers, other backends
than torch, and jobs that last for hours."""
_NOTE_ALLREDUCE = """\
The synchronous strategies, which replicas and a ring are meant for, and LGC-AR, whose ring is that of the fastest. Not
compared: asynchronous ones over replicas."""
_NOTE_HOSTS = """\
Here times depend on the processor's speed, which on a shared machine changes from hour to hour: fit the cost model in
the hour of the live runs, better before, between and after them, and choose it with `--costs`. docs/virtual.md says
where the two differ, and why.

Processors and links are really throttled. Not compared: strategies that are not in the tables, and throttling over the
whole length of a job, except for one worker's."""

_LOCAL = Grid(
    cluster="local",
    parts=(
        Part(ALL, "transient_and_persistent", twice=f"ssp,zeno_pp,{DECIDING}"),
        Part(CORE, "none,transient,persistent"),
    ),
    costs="local_tcp",
    title="Live against virtual",
    out="out/fidelity",
    settings=(*_JOB, *_DEVICE),
    of_strategy=OF_STRATEGY,
    of_straggler=OF_STRAGGLER,
    slower=_SLOWER_DEVICE,
    note=_NOTE_LOCAL,
    repeats=2,
)
GRIDS = {
    "local": _LOCAL,
    "allreduce": _LOCAL._replace(
        parts=(Part(f"{SYNCHRONOUS},lgc", "transient_and_persistent", twice="lb_bsp,lb_bsp_star"),),
        title="Live against virtual, replicas and a ring",
        out="out/fidelity_allreduce",
        settings=(*_LOCAL.settings, "topology=allreduce"),
        of_strategy={**OF_STRATEGY, "lgc": ("strategy.topology=allreduce",)},
        note=_NOTE_ALLREDUCE,
    ),
    "hosts": Grid(
        cluster="hosts",
        parts=(
            Part(CORE, "cpu_transient", twice="ssp"),
            Part("sync_switch,dynamic_x,zeno_pp", "cpu_transient", twice="sync_switch,dynamic_x"),
            Part("bsp,lb_bsp,antdt_nd,coding_heter_aware", "cpu_throttle", twice="lb_bsp,antdt_nd"),
            Part(f"{CORE},sync_switch,dynamic_x,antdt_nd,lb_bsp", "link_transient", twice="ssp,sync_switch"),
        ),
        costs="hosts_quarter",
        title="Live against virtual, on emulated hosts",
        out="out/fidelity_hosts",
        settings=(
            # A quarter of a core each, so that four hosts leave coordinators and the network room on two cores.
            "cluster.hosts.real_cores_per_core=0.0625",
            "workload=digits_cnn",
            "workload.epochs=10",
            "workload.optimizer.lr=0.003",
            *_TARGET,
            "workload.target=0.8",
            "eval_every_s=0.1",
            "checkpoint_every_s=2.5",
        ),
        of_strategy=OF_STRATEGY,
        of_straggler={
            "cpu_transient": tuple(f"straggler.{one}" for one in _QUARTER),
            "link_transient": tuple(f"straggler.{one}" for one in _QUARTER),
            "cpu_throttle": ("straggler.left_frac=0.4",),
        },
        slower=("cluster.hosts.real_cores_per_core=0.061875",),
        speed="cluster.hosts.real_cores_per_core",
        note=_NOTE_HOSTS,
        tolerance_frac=0.10,
        repeats=2,
    ),
}


def cases_of(asked: argparse.Namespace) -> list[tuple[str, str, bool]]:
    """(straggler, strategy, whether to repeat it live): the grid's parts, or all combinations of what was named."""
    grid, chosen = asked.grid, asked.strategies is not None or asked.stragglers is not None
    twice = {name for part in grid.parts for name in part.twice.split(",")}
    if chosen:
        names = [
            names_of(kind, grid.listed(kind) if text is None else text, choices(group))
            for kind, group, text in (
                ("stragglers", "straggler", asked.stragglers),
                ("strategies", "strategy", asked.strategies),
            )
        ]
        return [(straggler, strategy, strategy in twice) for straggler, strategy in product(*names)]
    found = {
        (straggler, strategy): strategy in part.twice.split(",")
        for part in grid.parts
        for straggler, strategy in product(part.stragglers.split(","), part.strategies.split(","))
    }
    return [(*case, again) for case, again in found.items()]
