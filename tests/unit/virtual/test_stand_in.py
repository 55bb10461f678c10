"""A small task that represents a larger model: times of the one, gradients of the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.records.cluster import load_cluster
from analysis.records.load import load_run
from runtime.cluster.device import DeviceProfile
from runtime.errors import ConfigError
from runtime.virtual.costs import Costs
from runtime.virtual.stand_in import StandIn, parse_stand_in
from tests.support.job_sets import checked_set, row, run_rows

ROUNDS = 25
DIGITS = ("workload=digits", "backend=torch", "workload.global_batch_samples=128", "replay.max_iterations=null")
"""16 images for each of the eight workers of the run's own template."""
STANDING = (*DIGITS, "replay.stand_in=true", "eval_every_s=2", "checkpoint_every_s=null")


def test_a_sample_counts_for_several_and_everything_else_stays() -> None:
    stand_in = StandIn(samples=8.0, parameters=100)
    costs = Costs(data_base_s=0.1, data_per_sample_s=0.01, compute_base_s=0.2, compute_per_sample_s=0.02, latency_s=0.3)
    scaled = stand_in.costs(costs)
    assert scaled.data_s(16) == costs.data_s(128)
    assert scaled.compute_s(16) == costs.compute_s(128)
    assert (scaled.latency_s, scaled.data_base_s) == (0.3, 0.1)
    device = DeviceProfile(base_s=0.1, per_sample_s=0.01, saturation_s=0.2)
    (paced, none) = stand_in.devices([device, None])
    assert none is None
    assert paced is not None
    assert paced.seconds(16) == device.seconds(128)


@pytest.mark.parametrize(("fields", "said"), [({"parameters": 0}, "parameters=0"), ({"samples": 2.0}, "parameters")])
def test_what_it_stands_for_must_be_said(fields: dict[str, float], said: str) -> None:
    assert parse_stand_in(None) is None
    with pytest.raises(ConfigError, match=f"runtime.stand_in.*{said}"):
        parse_stand_in(fields)


def test_a_job_with_gradients_takes_the_times_of_its_model_and_learns_the_workload(tmp_path: Path) -> None:
    """As long as without gradients, with every iteration of every worker at the same time; and its accuracy rises."""
    rows = [row("a", gpus=4, iterations=ROUNDS, model="vgg13")]
    run_rows(tmp_path / "trains", rows, *STANDING, "workload.optimizer.lr=0.2")
    run_rows(tmp_path / "counts", rows, "workload.global_batch_samples=128", "replay.max_iterations=null")
    trains, counts = (load_cluster(tmp_path / name).jobs.set_index("job") for name in ("trains", "counts"))
    run, other = (load_run(tmp_path / name / "jobs" / "a") for name in ("trains", "counts"))
    assert run.meta["job"]["workload"] == "digits"
    columns = ["worker", "iteration", "pull_s", "data_s", "compute_s", "send_s"]
    whole = run.tables.iterations[columns].query("iteration < 15").sort_values(["worker", "iteration"])
    same = other.tables.iterations[columns].query("iteration < 15").sort_values(["worker", "iteration"])
    assert len(whole) == 15 * 4
    assert whole.to_numpy() == pytest.approx(same.to_numpy(), rel=1e-9, abs=1e-9)
    assert run.tables.evaluations["accuracy"].iloc[-1] > 0.6 > 0.3 > run.tables.evaluations["accuracy"].iloc[0]
    assert counts["duration_s"].to_dict() == pytest.approx(trains["duration_s"].to_dict(), rel=0.15)  # whole epochs


@pytest.mark.parametrize(
    ("words", "model", "said"),
    [
        (DIGITS, "vgg13", "only times are known; choose backend=none, replay.models=null, or replay.stand_in=true"),
        (("replay.stand_in=true",), "vgg13", "replay.stand_in=true: backend=none computes no gradients"),
        (STANDING, "", "replay.stand_in=true: the job names no model"),
    ],
)
def test_what_represents_nothing_is_refused(words: tuple[str, ...], model: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        checked_set([row("a", model=model)], *words)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_hosts_with_devices_of_their_own_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"runtime\.stand_in: times of hosts with devices of their own are not known"):
        checked_set([row("a")], *STANDING, "cluster.hosts.device={base_s: 0.1, per_sample_s: 0.001}")
