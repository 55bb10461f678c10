"""What conf/workload says is what the papers say, and what docs/workloads.md says of it."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from runtime.config.instantiate import instantiate
from tests.support.cli import ROOT
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


def test_star_has_ten_models() -> None:
    assert len(STAR) == 10


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
    full = [name for name in NAMES if name.endswith(("_cifar10", "_wikitext2", "_imagenet", "_criteo"))]
    assert {f"{name}{LAPTOP}" for name in full} == {name for name in NAMES if name.endswith(LAPTOP)}


@pytest.mark.long(like="test_a_laptop_form_is_the_same_but_smaller")
def test_the_page_tells_every_workload_and_its_parameters() -> None:
    catalogue = (ROOT / "docs" / "workloads.md").read_text().split("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \|[^|]*\|([^|]*)\|", catalogue, re.MULTILINE)
    received: dict[str, str] = {}
    for names, counts in rows:
        shown = re.findall(r"`(\w+)`", names)
        numbers = re.findall(r"\d[\d,]+(?=;| \||$| for| with)", counts.strip())
        received |= dict(zip(shown, numbers or [""] * len(shown), strict=False))
        assert set(shown) <= set(received)
    assert set(received) == {name for name in NAMES if not name.endswith(LAPTOP)}
    for name, number in received.items():
        count = getattr(instantiate(workload(name)["task"]), "num_parameters", None)
        if number and count is not None:
            assert number == f"{count:,}", name


@pytest.mark.few(1)
def test_nothing_of_a_framework_is_imported_to_choose_one() -> None:
    script = (
        "import sys; from runtime.run.preflight import preflight\n"
        "for name in ('densenet121_cifar10', 'transformer_wikitext2', 'xdeepfm_criteo'):\n"
        "    preflight([f'workload={name}'])\n"
        "print([name for name in ('torch', 'tensorflow', 'pandas', 'sklearn', 'scipy', 'PIL') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
