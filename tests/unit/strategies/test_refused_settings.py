"""Settings of strategies and their parts that are refused by name (single values of every YAML:
tests/contract/test_strategies.py); and old names of modules, which are found."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, get_type_hints

import pytest
import yaml

import strategies
from runtime.config.instantiate import locate
from runtime.errors import ConfigError
from strategies.antdt.antdt_dd import AntDTDD
from strategies.antdt.antdt_nd import AntDTND
from strategies.antdt.profiling import DeviceSpec
from strategies.basic.dynamic_x import DynamicX
from strategies.cluster.prevention.star import StarPrevention
from strategies.dlrover.strategy import DLRover
from strategies.elastic.optimus import Optimus
from strategies.elastic.or_autoscale import OrAutoscale
from strategies.lgc import LGC
from strategies.mlfabric import MLfabric
from strategies.old_names import full_name, places
from strategies.star import Star
from strategies.star.learned import ModeLearner
from strategies.star.noise import NoiseMeter
from strategies.star.times import ModeTimes
from strategies.sync_switch import SyncSwitch
from tests.paper.test_star_ml_ring import star_ml
from tests.unit.strategies.test_mode_learner import learner

Make = Callable[..., object]
star = partial(Star, phi=300.0)
star_ring = partial(Star, phi=300.0, topology="allreduce")
SPECS = {
    name: DeviceSpec(samples_per_s=300.0, min_batch_samples=32, max_batch_samples=128) for name in ("v100", "p100")
}
VALUES: list[tuple[Make, dict[str, Any]]] = [
    (AntDTDD, {"accum_min": 0, "type_ratio": 1.0}),
    (AntDTND, {"slowness_ratio": 1.0, "report_iters": 0, "mode": "ssp"}),
    (DLRover, {"memory_bytes": 0, "sample_steps": 0, "sample_s": 0.0, "cores_total": 0, "max_shortfall_frac": 1.5}),
    (
        DLRover,
        {"hot_util": 0.0, "idle_util": 1.1, "load_ratio": 1.0, "busy_ratio": 0.5, "min_gain": 2.0, "launch_s": 0.0},
    ),
    (DynamicX, {"regroup_iters": 0, "window_s": 0.0}),
    (learner, {"regressor": "lightgbm", "min_samples": 5, "max_samples": 30, "max_workers": 1, "epochs": 0}),
    (learner, {"refit_samples": 0, "check_every": 0, "hold_updates": 0, "slice_steps": 0, "max_regret_frac": -0.1}),
    (LGC, {"topology": "ring", "k_fastest": 0}),
    (MLfabric, {"order": "random", "parallel_sends": 0, "late_factor": 0.5, "smoothing": 0.0, "lr_rule": "best_case"}),
    (ModeTimes, {"mode_cost": "cheap"}),
    (NoiseMeter, {"every_updates": 0, "smoothing": 0.0}),
    (NoiseMeter, {"smoothing": 1.0}),
    (Optimus, {"add_servers": 0, "worker_cores": 0}),
    (OrAutoscale, {"step_workers": 0, "min_iters": 0, "slow_weight": 0.0, "slow_below": 1.5}),
    (star, {"topology": "ring", "min_gain_frac": 1.0, "pause": "no", "when_calm": "asgd"}),
    (StarPrevention, {"reduce_by": "luck", "floor_frac": 0.0}),
    (StarPrevention, {"floor_frac": 2}),
    (SyncSwitch, {"bsp_frac": 1.5, "straggler_policy": "lazy", "probe_s": 0.0, "switch": "cold"}),
]


@pytest.mark.parametrize(
    ("make", "name", "value"), [(make, name, value) for make, values in VALUES for name, value in values.items()]
)
def test_a_value_out_of_range_is_refused_by_its_name(make: Make, name: str, value: Any) -> None:
    shown = value if isinstance(value, str) else f"{value:g}"
    with pytest.raises(ValueError, match=f"{name}={re.escape(shown)}"):
        make(**{name: value})


TOGETHER: dict[str, tuple[Make, Mapping[str, Any]]] = {
    "accum_max=2: must be a whole number, 3 or more": (AntDTDD, {"accum_min": 3, "accum_max": 2}),
    "accum_max=50: at most 9 above accum_min=1": (AntDTDD, {"accum_max": 50}),
    "profile_sizes=.*: must be a list": (AntDTDD, {"profile_sizes": ()}),
    "profile_sizes=0: must be a whole number, 1 or more": (AntDTDD, {"profile_sizes": (8, 0)}),
    "devices=v100, p100: needs types": (AntDTDD, {"devices": SPECS}),
    "types=.*do not name the same types": (AntDTDD, {"devices": SPECS, "types": ("v100", "a100")}),
    "devices: a.max_batch_samples=8: must be a whole number, 9 or more": (
        AntDTDD,
        {"devices": {"a": DeviceSpec(min_batch_samples=9, max_batch_samples=8)}, "types": ("a",)},
    ),
    r"short_window_s=200.0: must be at least decide_every_s \(300.0 s\)": (AntDTND, {"short_window_s": 200.0}),
    "server_cores=16: above cores_max=8": (DLRover, {"cores_total": 40, "cores_max": 8, "server_cores": 16}),
    "cores_total=18: one worker and one server need 19": (
        Optimus,
        {"cores_total": 18, "server_cores": 16, "worker_cores": 3},
    ),
    "parallel_sends=2: has no effect with order=fair": (MLfabric, {"order": "fair", "parallel_sends": 2}),
    "num_replicas=1: needs an order": (MLfabric, {"order": "fair", "num_replicas": 1, "divergence_max": 1.0}),
    "tau_max=8: has no effect with order=fair": (MLfabric, {"order": "fair", "tau_max": 8}),
    "window_s=0.5: has no effect": (MLfabric, {"order": "fair", "window_s": 0.5}),
    "num_replicas=1: needs a bound on their distance; set divergence_max": (MLfabric, {"num_replicas": 1}),
    "divergence_max=1.0: bounds replicas, and there are none": (MLfabric, {"divergence_max": 1.0}),
    "lr_rule=worst_case: order=fair bounds no delay": (MLfabric, {"lr_rule": "worst_case", "order": "fair"}),
    "blocks=2: a ring sums whole gradients": (LGC, {"topology": "allreduce", "blocks": 2}),
    "reselect_iters=0: must be": (LGC, {"topology": "allreduce", "reselect_iters": 0}),
    "wait_s=0.1: servers have no parents that wait": (LGC, {"wait_s": 0.1}),
    r"modes=\[\]: must be a list of one or more of ssgd, asgd, static, dynamic": (star, {"modes": []}),
    "modes=bsp: no such mode": (star, {"modes": ["ssgd", "bsp"]}),
    "modes=ssgd,ssgd: must be different modes": (star, {"modes": ["ssgd", "ssgd"]}),
    "horizon_iters=50: must be at most history_iters=20": (star, {"horizon_iters": 50, "history_iters": 20}),
    "predictor=guess: no such predictor; there are last_value, ema": (star, {"predictor": "guess"}),
    "predictor=oracle: reads the plan, which no strategy can": (star, {"predictor": "oracle"}),
    "predictor=last_value:alpha=2.0: no such setting": (
        star,
        {"predictor": "last_value", "predictor_settings": {"alpha": 2.0}},
    ),
    "waits_s=.*: must be a list of one or more": (star, {"waits_s": []}),
    "waits_s=.*: must be different numbers": (star, {"waits_s": [0.1, 0.1]}),
    "waits_s=-0.1: must be": (star, {"waits_s": [-0.1]}),
    "modes=ssgd,asgd: is for topology=ps": (star_ring, {"modes": ["ssgd", "asgd"]}),
    "learning.topology=ps: must be the strategy's, allreduce": (star_ring, {"learning": ModeLearner()}),
    "learning.topology=allreduce: must be the strategy's, ps": (star, {"learning": ModeLearner(topology="allreduce")}),
    "mode_cost=published: a model learns pooled or priced or literal; choose": (star_ml, {"mode_cost": "published"}),
    "the model that decides from the start has learnt pooled literal; choose": (
        star,
        {"learning": ModeLearner(use_ml_from_start=True), "mode_cost": "priced"},
    ),
    "prevent=true: is for topology=ps": (star_ring, {"prevent": True}),
    "tree_fanout=2: is for topology=ps; a ring has no server to relieve": (star_ring, {"tree_fanout": 2}),
    "tree_wait_s=1.0: there is no tree; set tree_fanout": (star, {"tree_wait_s": 1.0}),
    "predictor=star: needs to know what sending takes": (star, {"tree_fanout": 2, "predictor": "star"}),
    "phi_model=digits: names a model of phi_table, and there i": (Star, {"phi_model": "digits"}),
    "switch_s=1.0: is what switch=hot takes": (SyncSwitch, {"switch": "restart", "switch_s": 1.0}),
    "weights=some.npz: is used only with use_ml_from_start=true": (learner, {"weights": "some.npz"}),
    "use_ml_from_start=True: files hold networks": (learner, {"use_ml_from_start": True, "regressor": "ridge"}),
    "is a model of 45 features instead of 37, among them 'log time 8": (
        learner,
        {"use_ml_from_start": True, "max_workers": 8},
    ),
}


@pytest.mark.parametrize("line", TOGETHER)
def test_what_does_not_fit_together_is_refused_by_its_name(line: str) -> None:
    make, settings = TOGETHER[line]
    with pytest.raises(ValueError, match=line):
        make(**settings)


def accepted(kind: type) -> list[str]:
    """Settings with a range for which the class takes any text."""
    hints = get_type_hints(kind, include_extras=True)
    return [name for name, hint in hints.items() if hasattr(hint, "__metadata__") and takes(kind, name)]


def takes(kind: type, name: str) -> bool:
    try:
        kind(**{name: "nonsense"})
    except ValueError as error:
        return not str(error).startswith(f"{name}=nonsense: must be ")
    return True


def made() -> list[type]:
    modules = [import_module(one.name) for one in walk_packages(strategies.__path__, "strategies.")]
    kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    return [kind for kind in kinds if is_dataclass(kind) and getattr(kind, "__final__", False)]


def test_every_part_refuses_by_itself_what_is_out_of_its_range() -> None:
    assert len(made()) > 50
    assert {kind.__name__: names for kind in made() if (names := accepted(kind))} == {}


ROOT = Path(__file__).resolve().parents[3]
OLD = {
    ".".join(word for word in ("strategies", folder, module.partition("=")[0]) if word != "."): module.partition("=")[2]
    for folder, modules in yaml.safe_load(Path(__file__).with_name("names_of_0_1_0.yaml").read_text()).items()
    for module in modules.split()
}
PLACES = sorted(places().items())


@pytest.mark.parametrize("module", OLD)
def test_a_module_of_0_1_0_is_found_with_its_names(module: str) -> None:
    for name in OLD[module].split(","):
        found = getattr(import_module(module), name)
        if isinstance(found, type):
            assert found.__name__ == name
            assert locate(f"{module}.{name}") is locate(f"stragglab.{module}.{name}") is found


@pytest.mark.parametrize(("old", "new"), PLACES, ids=[old for old, _ in PLACES])
def test_an_old_name_stands_for_modules_that_exist(old: str, new: tuple[str, ...]) -> None:
    assert [place for place in new if find_spec(full_name(place)) is None] == []
    assert not (ROOT / "strategies" / old.replace(".", "/")).with_suffix(".py").exists()


def test_an_old_module_has_only_the_names_that_it_had() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from strategies.screens.descent import Nothing")
    with pytest.raises(ConfigError, match="has no class Nothing"):
        locate("strategies.screens.descent.Nothing")
    with pytest.raises(ModuleNotFoundError, match=r"strategies\.screens\.ascent"):
        import_module("strategies.screens.ascent")


def test_imports_work_in_new_processes(tmp_path: Path) -> None:
    text = (
        "import strategies.screens.descent as old; from strategies.screens import descent; "
        "import stragglab; from stragglab.strategies.screens.descent import DescentScreen; "
        "assert old is descent and old.DescentScreen is DescentScreen; print(DescentScreen.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "strategies.zeno_pp.strategy\n", done.stderr
    (tmp_path / "gates" / "__pycache__").mkdir(parents=True)
    text = (
        f"import strategies; strategies.__path__.append({str(tmp_path)!r}); "
        "from strategies.gates import AllGate; print(AllGate.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("strategies.parts.gates"), done.stderr
