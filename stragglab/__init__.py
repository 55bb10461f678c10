"""Stragglab as a library: ``load_run``, ``run``, and all that a strategy of your own needs.

The parts of strategies are below ``stragglab.strategies`` (``stragglab.strategies.parts.gates`` ...), records and what
is measured of them below ``stragglab.analysis``. Nothing is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from runtime.house import module_name
from stragglab.names import reach_folders

if TYPE_CHECKING:
    from analysis.records.load import Run as Run
    from analysis.records.load import load_run as load_run
    from injectors.patterns.base import Pattern as Pattern
    from injectors.plan import ClusterShape as ClusterShape
    from injectors.plan import Disturbance as Disturbance
    from injectors.plan import Plan as Plan
    from injectors.plan import build_plan as build_plan
    from runtime.training.optimizers import Block as Block
    from runtime.training.optimizers import Rule as Rule
    from stragglab.running import RunFailed as RunFailed
    from stragglab.running import check as check
    from stragglab.running import run as run
    from strategies.parts.composition.composition import Composition as Composition
    from strategies.parts.composition.parts import Parts as Parts
    from strategies.protocol import *  # noqa: F403
    from workloads.data import Split as Split
    from workloads.own import ClassificationTask as ClassificationTask
    from workloads.own import split_table as split_table

PLACES = {
    "Run": "analysis.records.load",
    "load_run": "analysis.records.load",
    "Block": "runtime.training.optimizers",
    "Rule": "runtime.training.optimizers",
    "Composition": "strategies.parts.composition.composition",
    "Parts": "strategies.parts.composition.parts",
    "Pattern": "injectors.patterns.base",
    "ClusterShape": "injectors.plan",
    "Disturbance": "injectors.plan",
    "Plan": "injectors.plan",
    "build_plan": "injectors.plan",
    "Split": "workloads.data",
    "ClassificationTask": "workloads.own",
    "split_table": "workloads.own",
    "RunFailed": "stragglab.running",
    "check": "stragglab.running",
    "run": "stragglab.running",
}
"""Where the names are defined that are not of ``strategies.protocol``."""

reach_folders()


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    if name in PLACES:
        return getattr(import_module(module_name(PLACES[name])), name)
    if name not in (vocabulary := _vocabulary()):
        raise AttributeError(f"module 'stragglab' has no attribute {name!r}")
    return vocabulary[name]


def _vocabulary() -> dict[str, Any]:
    """Everything in ``strategies.protocol`` besides its modules, by name."""
    found = vars(import_module(module_name("strategies.protocol")))
    return {name: one for name, one in found.items() if not name.startswith("_") and not isinstance(one, ModuleType)}


def __dir__() -> list[str]:
    return sorted([*PLACES, *_vocabulary()])
