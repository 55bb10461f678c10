"""The closed form of an undisturbed iteration, against the model of hosts and what STAR's code measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.cluster.hosts import Host
from runtime.virtual.cluster.undisturbed import Busy, both, undisturbed
from runtime.virtual.costs import Costs
from tests.support.job_sets import checked_set, row, run_rows
from tests.support.long_tests import long_after
from tests.unit.run.test_job_sets_preempted import plain

MEASURED_MS = {
    "alexnet": 241,
    "resnet20": 476,
    "resnet56": 994,
    "vgg13": 548,
    "vgg16": 747,
    "densenet121": 3017,
    "googlenet": 2806,
    "mobilenet": 1095,
    "lstm": 510,
    "transformer": 495,
}
"""Length of a step of 8 workers and 1 parameter server under SSGD in the logs of STAR's public code."""


@pytest.mark.parametrize("model", long_after(sorted(MEASURED_MS, key="densenet121".__ne__), 1))
def test_a_job_alone_takes_as_long_as_the_closed_form_says(tmp_path: Path, model: str) -> None:
    """Servers on the workers' host: densenet121's two update for as long as its workers load, on the same cores."""
    assert step_s(tmp_path, gpus=8, servers=2, model=model) == pytest.approx(closed_s(8, 2, model), rel=0.04)


def step_s(tmp_path: Path, **size: Any) -> float:
    """What an iteration takes on the model of hosts, from two lengths: the first one has no update."""
    ends = [
        run_rows(tmp_path / str(count), [row("a", iterations=count, **size)], "checkpoint_every_s=null").loc["a"].end_s
        for count in (3, 8)
    ]
    return float(ends[1] - ends[0]) / 5


def closed_s(gpus: int, servers: int, model: str) -> float:
    job = checked_set([row("a", gpus=gpus, servers=servers, model=model, iterations=2)]).jobs[0]
    assert job.request.duration_s is not None
    return job.request.duration_s / 2


@pytest.mark.parametrize("real_s", [0.06, 0.16])
def test_a_processor_works_while_a_device_computes(tmp_path: Path, real_s: float) -> None:
    """On the model of hosts as in the closed form; the device needs 0.1 s for 8 samples, and the slower one decides."""
    path = tmp_path / "work.yaml"
    path.write_text(f"schema: 1\nvalues: {{compute_per_sample_s: {real_s / 8}}}\n")
    words = [word for word in plain(tmp_path) if not word.startswith("cluster.costs")]
    table = run_rows(tmp_path / "run", [row("a", gpus=4, iterations=10, model="")], *words, f"cluster.costs={path}")
    assert table.loc["a"].end_s == pytest.approx(10 * max(real_s, 0.1))
    job = checked_set([row("a", gpus=4, iterations=10, model="")], *words, f"cluster.costs={path}").jobs[0]
    assert job.request.duration_s == pytest.approx(10 * max(real_s, 0.1))


@pytest.mark.parametrize("model", long_after(MEASURED_MS, 2))
def test_a_step_is_about_as_long_as_it_was_measured(model: str) -> None:
    """The models are made of active times, not of this length, which differs from their sum by up to 33 %.

    Here workers load while servers update, so those with long updates are too fast (googlenet by 39 %).
    """
    assert closed_s(8, 1, model) == pytest.approx(MEASURED_MS[model] / 1e3, rel=0.4)


@pytest.mark.parametrize(
    ("one", "other", "ends"),
    [
        (Busy(2, 4, 1.0), Busy(1, 8, 1.0), (1.0, 1.0)),  # all have what they can use
        (Busy(4, 4, 1.0), Busy(1, 8, 0.0), (1.0, 0.0)),
        (Busy(8, 4, 1.0), Busy(1, 8, 0.0), (2.0, 0.0)),
        (Busy(4, 4, 1.0), Busy(1, 8, 1.0), (1.25, 1.75)),  # 3.2 each until 1.25, when 4 of 8 are done; then 8
        (Busy(1, 8, 1.0), Busy(4, 4, 1.0), (1.75, 1.25)),
        (Busy(2, 2, 1.0), Busy(2, 16, 1.0), (1.0, 2.25)),  # 2 and 6 each; then 8 each for the other 10 of 16
    ],
)
def test_two_groups_share_sixteen_cores(one: Busy, other: Busy, ends: tuple[float, float]) -> None:
    """Worked out by hand: the task that can use fewer cores has what it can use, or an equal part."""
    assert both(one, other, 16.0) == pytest.approx(ends)


@pytest.mark.parametrize("servers", [0, 1])
def test_copies_to_a_device_and_back_are_a_part_of_computing(servers: int) -> None:
    """0.1 s for a batch of any size, and 0.1 us for each of a million bytes."""
    costs = Costs(compute_base_s=0.1, stage_per_byte_s=1e-7)
    host = Host(number=0, cores=None, link_bytes_per_s=None, latency_s=0.0, memory_bytes=None, device=None, tasks=())
    size = {"num_workers": 2, "num_servers": servers, "num_parameters": 250_000, "batch_samples": 8}
    assert undisturbed(costs, None, host, **size).iteration_s == pytest.approx(0.2)
