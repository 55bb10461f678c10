"""Settings of strategies and their parts that are refused by name: single values, and those that do not fit together.

What every YAML shows is tried with nonsense by ``tests/contract/test_strategies.py``; here are bounds and combinations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from strategies.antdt.antdt_dd import AntDTDD
from strategies.antdt.antdt_nd import AntDTND
from strategies.antdt.profiling import DeviceSpec
from strategies.basic.dynamic_x import DynamicX
from strategies.cluster.prevention.star import StarPrevention
from strategies.dlrover.adjust import Rules
from strategies.dlrover.brain import BrainSettings
from strategies.dlrover.history import Margins
from strategies.dlrover.plan import Limits
from strategies.elastic.optimus.planner import Increments
from strategies.elastic.or_autoscale.autoscaling import Autoscaler, SlowWorkers
from strategies.lgc import LGC
from strategies.mlfabric import MLfabric
from strategies.parts.scaling.switching.switch import Switch
from strategies.parts.scaling.usage import Given
from strategies.protocol import NodeId
from strategies.star import Star
from strategies.star.learned import ModeLearner
from strategies.star.noise import NoiseMeter
from strategies.star.times import ModeTimes
from strategies.sync_switch import SyncSwitch
from tests.paper.test_star_ml_ring import star_ml
from tests.support.brain import PAPER
from tests.unit.strategies.test_mode_learner import learner

Make = Callable[..., object]
star = partial(Star, phi=300.0)
star_ring = partial(Star, phi=300.0, topology="allreduce")
increments = partial(Increments, cores_total=64, server_cores=16, worker_cores=3)
SPECS = {
    name: DeviceSpec(samples_per_s=300.0, min_batch_samples=32, max_batch_samples=128) for name in ("v100", "p100")
}

VALUES: list[tuple[Make, dict[str, Any]]] = [
    (AntDTDD, {"accum_min": 0, "type_ratio": 1.0}),
    (AntDTND, {"slowness_ratio": 1.0, "report_iters": 0, "mode": "ssp"}),
    (partial(Autoscaler, workers=4), {"workers": 0, "step_workers": 0, "max_workers": 3, "min_iters": 0}),
    (partial(Autoscaler, workers=4), {"threshold": float("nan")}),
    (
        partial(BrainSettings, limits=PAPER),
        {"memory_bytes": 0, "sample_servers": 0, "sample_steps": 0, "max_samples": 0},
    ),
    (partial(BrainSettings, limits=PAPER), {"sample_s": 0.0, "adjust_every_s": 0.0, "ps_interval_s": -1.0}),
    (partial(BrainSettings, limits=PAPER), {"min_interval_s": -1.0}),
    (DynamicX, {"tolerance_frac": -0.1, "regroup_iters": 0, "window_s": 0.0}),
    (partial(Given, cores=1, memory_bytes=1), {"cores": 0, "memory_bytes": 0}),
    (increments, {"servers": 0, "worker_cores": 0}),
    (learner, {"regressor": "lightgbm", "use_ml_from_start": "yes", "min_samples": 5, "max_samples": 30}),
    (learner, {"max_workers": 1, "epochs": 0, "refit_samples": 0, "refit_epochs": 0, "check_every": 0}),
    (learner, {"hold_updates": 0, "slice_steps": 0, "decision_s": -1.0, "max_regret_frac": -0.1}),
    (LGC, {"topology": "ring"}),
    (partial(Limits, cores_total=40, cores_max=8, server_cores=4), {"cores_total": 0, "cores_max": 0}),
    (partial(Limits, cores_total=40, cores_max=8, server_cores=4), {"max_shortfall_frac": 1.5}),
    (MLfabric, {"order": "random", "tau_max": -1, "window_s": -0.5, "parallel_sends": 0, "late_factor": 0.5}),
    (MLfabric, {"smoothing": 0.0, "lr_rule": "best_case"}),
    (Margins, {"server_cores": 0.9, "memory": 0.9}),
    (ModeTimes, {"mode_cost": "cheap", "kappa": -1.0}),
    (NoiseMeter, {"every_updates": 0, "smoothing": 0.0}),
    (NoiseMeter, {"smoothing": 1.0}),
    (Rules, {"hot_util": 0.0, "idle_util": 1.1, "load_ratio": 1.0, "busy_ratio": 0.5, "hang_s": 0.0}),
    (Rules, {"mem_margin_frac": -0.1, "min_gain": 2.0}),
    (SlowWorkers, {"weight": 0.0, "threshold": 0.0}),
    (SlowWorkers, {"weight": 1.5}),
    (star, {"topology": "ring", "min_gain_frac": 1.0, "phi": -1.0, "decision_s": -1.0, "pause": "no"}),
    (star, {"when_calm": "asgd"}),
    (star_ring, {"min_gain_frac": 1.0, "when_calm": "never", "cluster_frac": -0.1, "mode_cost": "free", "pause": "no"}),
    (StarPrevention, {"reduce_by": "luck", "floor_frac": 0.0}),
    (StarPrevention, {"floor_frac": 2}),
    (partial(Switch, (NodeId.server(0),)), {"launch_s": 0.0, "drain_s": -1.0, "max_moves": 0}),
    (SyncSwitch, {"bsp_frac": 1.5, "straggler_policy": "lazy", "probe_s": 0.0, "switch": "cold", "duration_s": -1.0}),
    (SyncSwitch, {"switch_s": -1.0}),
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
    "devices: a.samples_per_s=0.0: must be": (
        AntDTDD,
        {"devices": {"a": DeviceSpec(samples_per_s=0.0)}, "types": ("a",)},
    ),
    r"short_window_s=200.0: must be at least decide_every_s \(300.0 s\)": (AntDTND, {"short_window_s": 200.0}),
    r"long_window_s=200.0: must be at least short_window_s \(300.0 s\)": (AntDTND, {"long_window_s": 200.0}),
    "server_cores=16: above cores_max=8": (Limits, {"cores_total": 40, "cores_max": 8, "server_cores": 16}),
    "cores_total=18: one worker and one server need 19": (increments, {"cores_total": 18}),
    "tau_max=8: has no effect with order=fair": (MLfabric, {"order": "fair", "tau_max": 8}),
    "idle_tolerance_s=1.0: has no effect with order=shortest": (
        MLfabric,
        {"order": "shortest", "idle_tolerance_s": 1.0},
    ),
    "window_s=0.5: has no effect": (MLfabric, {"order": "fair", "window_s": 0.5}),
    "parallel_sends=2: has no effect with order=fair": (MLfabric, {"order": "fair", "parallel_sends": 2}),
    "num_replicas=1: needs a bound on their distance; set divergence_max": (MLfabric, {"num_replicas": 1}),
    "divergence_max=1.0: bounds replicas, and there are none": (MLfabric, {"divergence_max": 1.0}),
    "divergence_max=0.0: must be above 0": (MLfabric, {"num_replicas": 1, "divergence_max": 0.0}),
    "num_replicas=1: needs an order": (MLfabric, {"num_replicas": 1, "divergence_max": 1.0, "order": "fair"}),
    "late_factor=2.0: has no effect with order=fair": (MLfabric, {"order": "fair", "late_factor": 2.0}),
    "lr_rule=worst_case: order=fair bounds no delay": (MLfabric, {"lr_rule": "worst_case", "order": "fair"}),
    "blocks=2: a ring sums whole gradients": (LGC, {"topology": "allreduce", "blocks": 2}),
    "reselect_iters=0: must be": (LGC, {"topology": "allreduce", "reselect_iters": 0}),
    "wait_s=0.1: servers have no parents that wait": (LGC, {"wait_s": 0.1}),
    r"modes=\[\]: must be a list of one or more of ssgd, asgd, static, dynamic": (star, {"modes": []}),
    "modes=bsp: no such mode; there are ssgd, asgd, static, dynamic": (star, {"modes": ["ssgd", "bsp"]}),
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
    "tree_fanout=3: is for topology=ps": (star_ml, {"tree_fanout": 3}),
    "prevent=true: is for topology=ps": (star_ring, {"prevent": True}),
    "tree_fanout=2: is for topology=ps; a ring has no server to relieve": (star_ring, {"tree_fanout": 2}),
    "tree_wait_s=1.0: there is no tree; set tree_fanout": (star, {"tree_wait_s": 1.0}),
    "predictor=star: needs to know what sending takes": (star, {"tree_fanout": 2, "predictor": "star"}),
    "phi_model=digits: names a model of phi_table, and there i": (Star, {"phi_model": "digits"}),
    "switch_s=1.0: is what switch=hot takes": (SyncSwitch, {"switch": "restart", "switch_s": 1.0}),
    "weights=some.npz: is used only with use_ml_from_start=true": (learner, {"weights": "some.npz"}),
    "use_ml_from_start=True: files hold networks": (learner, {"use_ml_from_start": True, "regressor": "ridge"}),
    "weights=nowhere.npz: no such file": (learner, {"use_ml_from_start": True, "weights": "nowhere.npz"}),
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
