"""Names that modules had before a method was a folder: imports, records and users' projects may still use them.

``strategies.asp`` is answered with what is in ``strategies.basic.asp``. No name of today's modules is among them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGE = __name__.rpartition(".")[0] + "."
MOVED: dict[str, str] = {
    "antdt": (
        "antdt_dd antdt_nd load.accumulation load.adjust_bs load.device_types load.drifts=profiling "
        "load.micro_batches load.profiling monitoring.detector monitoring.flags monitoring.monitor "
        "monitoring.pace monitoring.windows nodes.kill_restart nodes.restarts"
    ),
    "basic": (
        "asp backup_workers bsp dynamic_x first_k gates.exactly gates.first_fresh modes.regroup "
        "monitoring.own_times ssp static_x"
    ),
    "dlrover": (
        "scaling.brain.adjust scaling.brain.backoff scaling.brain.brain scaling.brain.history "
        "scaling.brain.memory scaling.brain.plan scaling.brain.planner scaling.brain.requests "
        "scaling.brain.sampling scaling.brain.settings scaling.brain.stages scaling.brain.throughput"
    ),
    "elastic.optimus": (
        "optimus=strategy scaling.optimus.greedy scaling.optimus.loss scaling.optimus.planner "
        "scaling.optimus.remaining scaling.optimus.speed scaling.speedometer"
    ),
    "elastic.or_autoscale": "or_autoscale=strategy scaling.autoscale scaling.autoscaling scaling.replacing",
    "gradient_coding": (
        "coding.decoding coding.draws coding.group coding.groups coding.matrices coding.partitions "
        "coding.rounds coding.schemes coding.speeds coding.stragglers coding.terms=shapes"
    ),
    "lb_bsp": "load.by_speed load.by_steps load.leader_straggler load.regaining monitoring.forecast",
    "lgc": "gates.blocks gates.delayed modes.slowest",
    "mlfabric": (
        "sending.bandwidths sending.expected=overdue sending.ordered sending.replicas transfers.aggregate "
        "transfers.fluid transfers.order transfers.replicate transfers.updates"
    ),
    "parts": "checks composed hooks screens.base=screens weights",
    "parts.composition": "composition.composition composition.fitting composition.parts",
    "parts.gates": (
        "gates.all gates.base gates.bounded gates.each gates.groups gates.needed=quorum gates.places=waiting "
        "gates.quorum gates.ring gates.roster gates.timed_quorum"
    ),
    "parts.load": "load.allocation load.base load.newcomers load.round_sizes load.shares",
    "parts.monitoring": "monitoring.base monitoring.clustering monitoring.warmup",
    "parts.nodes": "nodes.controller nodes.pause nodes.timers",
    "parts.scaling": (
        "scaling.brain.changes scaling.brain.usage scaling.fleet scaling.resizing scaling.scaler "
        "scaling.server_changes scaling.worker_changes"
    ),
    "parts.scaling.switching": "scaling.switching.states scaling.switching.switch",
    "parts.sending": "sending.subtrees sending.tree transfers.tree=routes",
    "star": (
        "gates.modal modes.choice modes.chooser modes.costs=choice modes.demands modes.features "
        "modes.first_updates modes.held=measuring modes.kappas=times modes.learned modes.measuring "
        "modes.orders modes.regular modes.reserving modes.ring modes.ring_features modes.ring_modes "
        "modes.ring_overhead modes.ring_question modes.ring_took modes.samples modes.server_question "
        "modes.spacing=deciding modes.times monitoring.fixed_noise monitoring.noise monitoring.predicted "
        "monitoring.tabled_noise"
    ),
    "sync_switch": "gates.switching modes.sync_then_async monitoring.flagged monitoring.slow_lately nodes.relaunch",
    "zeno_pp": "screens.descent",
}
"""By the package in which modules are now: their old names. The last part is kept, or follows after ``=``."""
SCATTERED: dict[str, tuple[str, ...]] = {
    "gates": (
        "parts.gates",
        "basic.exactly",
        "basic.first_fresh",
        "lgc.blocks",
        "lgc.delayed",
        "star.modal",
        "sync_switch.switching",
    ),
    "sending": ("mlfabric.ordered", "parts.sending.tree"),
    "transfers": ("mlfabric.order", "mlfabric.updates"),
    "coding": ("gradient_coding",),
}
"""Old packages whose own names are now in several modules, in the order in which these are searched."""


@cache
def places() -> dict[str, tuple[str, ...]]:
    """Every old name, below ``strategies``, with the modules that have its content; a mere package has none."""
    found: dict[str, tuple[str, ...]] = {}
    for package, words in MOVED.items():
        for word in words.split():
            old, _, name = word.partition("=")
            found[old] = (f"{package}.{name or old.rpartition('.')[2]}",)
            while old := old.rpartition(".")[0]:
                found.setdefault(old, ())
    return found | SCATTERED


class _Forward(Loader):
    """Loads a module without names of its own: each is looked up where it is now."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Python makes the module."""

    def exec_module(self, module: ModuleType) -> None:
        def find(name: str) -> Any:
            for place in places()[module.__name__.removeprefix(PACKAGE)]:
                target = import_module(PACKAGE + place)
                if hasattr(target, name):
                    return getattr(target, name)
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        vars(module)["__getattr__"] = find


class _OldNames(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        old = fullname.removeprefix(PACKAGE)
        if old == fullname or old not in (known := places()):
            return None
        return ModuleSpec(fullname, _Forward(), is_package=any(name.startswith(f"{old}.") for name in known))


def answer_old_names() -> None:
    """Make the old names importable.

    First of all finders: a folder of compiled files that an update has left behind would be taken for a package.
    """
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OldNames())
