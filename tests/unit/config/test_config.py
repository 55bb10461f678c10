"""The schema: what is refused, and in which words."""

from __future__ import annotations

import copy
import re
from functools import cache, reduce
from operator import getitem
from typing import Any

import msgspec
import pytest

from runtime.config.parse import MAX_SEED, Config, parse
from runtime.errors import ConfigError
from tests.unit.run.test_preflight import composed


@cache
def raw() -> dict[str, Any]:
    """A small job, as ``conf/`` has it."""
    [(_, found)] = composed("workload=ledger backend=numpy cluster.device=null straggler=none")
    return found


def changed(path: str, value: Any) -> dict[str, Any]:
    whole = copy.deepcopy(raw())
    *parents, last = path.split(".")
    reduce(getitem, parents, whole)[last] = value
    return whole


def without(path: str) -> dict[str, Any]:
    whole = changed(path, None)
    *parents, last = path.split(".")
    del reduce(getitem, parents, whole)[last]
    return whole


def test_a_complete_configuration_is_accepted_and_immutable() -> None:
    config = parse(raw())
    assert isinstance(config, Config)
    assert config.num_workers == 4
    assert config.workload.optimizer == {"name": "tally", "lr": 1.0}
    with pytest.raises(AttributeError):
        config.seed = 1  # type: ignore[misc]


def test_accepted() -> None:
    """An integer is welcome where a number is wanted; an unreachable target is a miss in the table, not an error."""
    changes = {
        **dict.fromkeys(("eval_every_s", "checkpoint_every_s", "stuck_after_s", "workload.epochs"), None),
        **{"seed": MAX_SEED, "max_time_s": 1, "workload.target": 2.0, "workload.global_batch_samples": 4},
        **{"workload.convergence": {"evaluations": 5, "max_change": 0.001}, "workload.eval_every_s": None},
        **{"topology.transport": "shm", "view": "none", "runtime.anything": "is the class's own affair"},
    }
    for path, value in changes.items():
        parse(changed(path, value))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("cluster.num_workers", 0, "cluster.num_workers=0: must be at least 1"),
        ("cluster.num_workers", "1e3", "cluster.num_workers=1e3: must be a whole number, at least 1"),
        ("cluster.num_workers", True, "cluster.num_workers=true: must be a whole number"),
        ("topology.num_servers", -1, "topology.num_servers=-1: must be at least 0"),
        ("topology.transport", "rdma", "topology.transport=rdma: must be one of shm, tcp"),
        ("topology.transports", "tcp", "topology.transports: no such setting; did you mean topology.transport?"),
        ("topology", None, "topology=null: must be settings"),
        ("workload.global_batch_samples", 3, "workload.global_batch_samples=3: smaller than cluster.num_workers=4"),
        ("workload.epochs", 1.5, "workload.epochs=1.5: must be a whole number, at least 1 or null"),
        ("workload.optimizer.lr", 0, "workload.optimizer.lr=0: must be more than 0"),
        ("workload.optimizer.lr", "fast", "workload.optimizer.lr=fast: must be a number"),
        ("workload.optimizer.name", 3, "workload.optimizer.name=3: must be text"),
        ("workload.optimizer", "sgd", "workload.optimizer=sgd: must be settings"),
        ("workload.target", float("nan"), "workload.target=nan: must be a finite number"),
        ("workload.convergence", {"evaluations": 1, "max_change": 1}, "workload.convergence.evaluations=1: must be at"),
        ("workload.convergence", {"evaluations": 5}, "workload.convergence.max_change: missing"),
        ("stop_at_convergence", True, "stop_at_convergence=true: workload=ledger has no rule; set workload."),
        ("cluster.devices", {0: {}}, "cluster.devices={0: {}}: 0 must be a name"),
        (
            "strategy",
            {"_target_": "strategies.basic.ssp.SSP", "bound": float("inf")},
            "strategy.bound=inf: must be a fi",
        ),
        ("seed", -1, "seed=-1: must be at least 0"),
        ("seed", MAX_SEED + 1, "must be at most"),
        ("max_time_s", 0, "max_time_s=0: must be more than 0"),
        ("max_time_s", 1e12, "max_time_s=1000000000000.0: must be at most 604800"),
        ("max_time_s", float("inf"), "max_time_s=inf: must be a finite number"),
        ("max_time_s", "12:30", "max_time_s=12:30: must be a number of seconds"),
        ("checkpoint_every_s", -1, "checkpoint_every_s=-1: must be at least 0.001"),
        ("stuck_after_s", 0, "stuck_after_s=0: must be more than 0"),
        ("failover", "hope", "failover=hope: must be one of"),
        ("draw", "yes", "draw=yes: must be true or false"),
        ("view", "lives", "view=lives: must be one of auto, live, none, plain"),
        ("sede", 1, "sede: no such setting; did you mean seed?"),
    ],
)
def test_refused(path: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        parse(changed(path, value))
    assert "\n" not in str(caught.value)


def test_missing() -> None:
    for path in ("seed", "strategy", "topology.num_servers", "workload.task"):
        with pytest.raises(ConfigError, match=f"^{path}: missing$"):
            parse(without(path))


def test_no_setting_has_a_default_in_code() -> None:
    for section in Config, *(field.type for field in msgspec.structs.fields(Config)):
        if isinstance(section, type) and issubclass(section, msgspec.Struct):
            for field in msgspec.structs.fields(section):
                assert field.required, f"{section.__name__}.{field.name}: tuned numbers live in conf/ only"
