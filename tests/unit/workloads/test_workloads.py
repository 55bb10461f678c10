"""What conf/workload says is what the papers say, and what docs/workloads.md says of it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from runtime.config.instantiate import instantiate
from tests.unit.run.test_preflight import CONF, composed

NAMES = [path.stem for path in sorted((CONF / "workload").glob("*.yaml"))]
STAR = [name for name in NAMES if name.endswith(("_cifar10", "_wikitext2"))]
LAPTOP = "_laptop"


@cache
def workload(name: str) -> dict[str, Any]:
    """Composed once, for all tests."""
    [(_, raw)] = composed(f"workload={name}")
    found = raw["workload"]
    assert isinstance(found, dict)
    return found


@pytest.mark.few(3)
@pytest.mark.parametrize("name", STAR)
def test_star_s_batch_rate_steps_and_convergence(name: str) -> None:
    """Section V-A: 128 samples a worker; 0.1 for ResNets, else 0.01; to 0.01 and 0.001 at steps 32,000 and 48,000
    (rates are absolute, a step is one gradient); converged at less than 0.001 over five evaluations 40 s apart."""
    found = workload(name)
    assert found["global_batch_samples"] == 4 * 128
    rate = found["optimizer"]["lr"]
    assert rate == (0.1 if name.startswith("resnet") else 0.01)
    drops = [step * 128 for step, to in ((32_000, 0.01), (48_000, 0.001)) if to < rate]
    assert (found["lr_schedule"]["milestones"], found["lr_schedule"]["gamma"]) == (drops, 0.1)
    assert (found["eval_every_s"], found["convergence"]) == (40, {"evaluations": 5, "max_change": 0.001})
    samples = instantiate(found["task"]).num_samples
    assert found["epochs"] == round(64_000 * 128 / samples)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", [name for name in NAMES if "_" in name and f"{name}{LAPTOP}" in NAMES])
def test_a_laptop_form_is_the_same_but_smaller(name: str) -> None:
    full, small = workload(name), workload(f"{name}{LAPTOP}")
    tasks = instantiate(full["task"]), instantiate(small["task"])
    assert type(tasks[0]) is type(tasks[1])
    assert tasks[1].num_parameters < tasks[0].num_parameters
    assert small["metric"] == full["metric"]
    samples = [
        (task.train_samples or task.num_samples) * found["epochs"]
        for task, found in zip(tasks, (full, small), strict=True)
    ]
    assert samples[1] < samples[0] / 10


def test_every_paper_s_workload_has_one() -> None:
    assert len(STAR) == 10
    full = [name for name in NAMES if name.endswith(("_cifar10", "_wikitext2", "_imagenet", "_criteo"))]
    assert {f"{name}{LAPTOP}" for name in full} == {name for name in NAMES if name.endswith(LAPTOP)}
