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
        "antdt_dd antdt_nd load.accumulation=antdt_dd load.adjust_bs load.device_types=profiling "
        "load.drifts=profiling load.micro_batches load.profiling monitoring.detector "
        "monitoring.flags=detector monitoring.monitor monitoring.pace=detector monitoring.windows=monitor "
        "nodes.kill_restart nodes.restarts=kill_restart"
    ),
    "basic": (
        "asp backup_workers bsp dynamic_x first_k gates.exactly=static_x gates.first_fresh "
        "modes.regroup=dynamic_x monitoring.own_times=dynamic_x ssp static_x"
    ),
    "dlrover": (
        "scaling.brain.adjust scaling.brain.backoff=brain scaling.brain.brain scaling.brain.history "
        "scaling.brain.memory=used scaling.brain.plan scaling.brain.planner scaling.brain.requests=used "
        "scaling.brain.sampling=used scaling.brain.settings=brain scaling.brain.stages=brain"
    ),
    "elastic.optimus": (
        "optimus=strategy scaling.optimus.greedy=planner scaling.optimus.loss=remaining "
        "scaling.optimus.planner scaling.optimus.remaining scaling.optimus.speed scaling.speedometer=speed"
    ),
    "elastic.or_autoscale": (
        "or_autoscale=strategy scaling.autoscale=autoscaling scaling.autoscaling scaling.replacing=autoscaling"
    ),
    "gradient_coding": (
        "coding.decoding coding.draws coding.group coding.groups=matrices coding.matrices coding.partitions "
        "coding.rounds coding.schemes coding.speeds coding.stragglers=schemes"
    ),
    "lb_bsp": (
        "load.by_speed load.by_steps load.leader_straggler=by_steps load.regaining=by_speed monitoring.forecast"
    ),
    "lgc": "gates.blocks=delayed gates.delayed modes.slowest",
    "mlfabric": (
        "sending.bandwidths sending.expected=bandwidths sending.ordered sending.replicas "
        "transfers.aggregate=order transfers.fluid transfers.order transfers.replicate=replicas "
        "transfers.updates=fluid"
    ),
    "parts": "composed hooks nodes.controller=nodes nodes.pause=nodes nodes.timers=nodes screens.base=hooks weights",
    "parts.composition": "composition.composition composition.fitting=parts composition.parts",
    "parts.gates": (
        "gates.all gates.base gates.bounded gates.each gates.groups gates.needed=quorum gates.places=groups "
        "gates.quorum gates.ring gates.roster=base gates.timed_quorum=quorum"
    ),
    "parts.load": "load.allocation load.base=shares load.newcomers=allocation load.round_sizes=allocation load.shares",
    "parts.monitoring": "monitoring.base monitoring.clustering=base monitoring.warmup=base",
    "parts.scaling": (
        "scaling.brain.changes scaling.brain.usage scaling.fleet scaling.resizing scaling.scaler "
        "scaling.server_changes=node_changes scaling.switching.states scaling.switching.switch "
        "scaling.worker_changes=node_changes"
    ),
    "parts.sending": "sending.subtrees sending.tree transfers.tree=subtrees",
    "star": (
        "gates.modal modes.choice modes.chooser modes.demands modes.features "
        "modes.first_updates=estimates modes.held=measuring modes.kappas=times modes.learned "
        "modes.measuring modes.orders modes.regular=estimates modes.reserving=demands modes.ring "
        "modes.ring_features=ring_question modes.ring_modes modes.ring_overhead=ring_modes "
        "modes.ring_question modes.ring_took=measuring modes.samples modes.server_question modes.spacing=deciding "
        "modes.times monitoring.fixed_noise=noise monitoring.noise monitoring.predicted "
        "monitoring.tabled_noise=noise"
    ),
    "sync_switch": (
        "gates.switching modes.sync_then_async monitoring.flagged monitoring.slow_lately=flagged "
        "nodes.relaunch=sync_then_async"
    ),
    "zeno_pp": "screens.descent=strategy",
}
"""Old names of modules, by the package in which they are now. The last part is kept, or follows after ``=``."""
SCATTERED: dict[str, tuple[str, ...]] = {
    "gates": (
        "parts.gates",
        "basic.static_x",
        "basic.first_fresh",
        "lgc.delayed",
        "star.modal",
        "sync_switch.switching",
    ),
    "sending": ("mlfabric.ordered", "parts.sending.tree"),
    "transfers": ("mlfabric.order", "mlfabric.fluid"),
    "coding": ("gradient_coding",),
    "coding.terms": ("gradient_coding.decoding", "gradient_coding.draws"),
    "checks": ("reading.ranges",),
    "parts.checks": ("reading.ranges",),
}
"""Old names whose content is now in several modules, in the order in which these are searched, or in ``reading``."""
RENAMED = {
    **{"assigned": "assign_aggregators", "costed_as": "mode_among_costs", "costed_rows": "sample_of_rows"},
    **{"fitted": "fit_pace", "held_by_time": "counts_by_time", "moved": "has_moved", "packed": "pack_groups"},
    **{"placed": "to_places", "pruned": "prune_groups", "relaxed": "relax", "shown": "decision_text"},
    "simulated": "simulate",
}
"""Functions by the names that they had in such modules."""


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


def full_name(place: str) -> str:
    """The name by which a module of :func:`places` is imported; ``reading`` lies next to ``strategies``."""
    return (PACKAGE.removesuffix("strategies.") if place.startswith("reading.") else PACKAGE) + place


class _Forward(Loader):
    """Loads a module without names of its own: each is looked up where it is now."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Python makes the module."""

    def exec_module(self, module: ModuleType) -> None:
        def find(old: str) -> Any:
            name = RENAMED.get(old, old)
            for place in places()[module.__name__.removeprefix(PACKAGE)]:
                target = import_module(full_name(place))
                if hasattr(target, name):
                    return getattr(target, name)
            raise AttributeError(f"module {module.__name__!r} has no attribute {old!r}")

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
