"""The cluster and the ten models of STAR's evaluation, from the numbers that its paper and its public code give."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from runtime.cluster.hosts import parse_machines
from runtime.run.jobs.models import Models
from runtime.virtual.costs import load_costs
from runtime.virtual.machines.sites import PAYLOAD_FRAC

ROOT = Path(__file__).resolve().parents[2]
TABLE = {
    "alexnet": (110, 200, 55, 94.4, 241, 8.8),
    "resnet20": (191, 261, 79, 54.0, 476, 1.1),
    "resnet56": (447, 567, 88, 27.0, 994, 3.6),
    "vgg13": (238, 308, 103, 53.2, 548, 33.8),
    "vgg16": (295, 365, 122, 46.6, 747, 56.5),
    "densenet121": (1460, 900, 168, 10.3, 3017, 24.5),
    "googlenet": (865, 1175, 147, 8.8, 2806, 22.3),
    "mobilenet": (459, 609, 131, 25.5, 1095, 8.9),
    "lstm": (205, 475, 143, 53.2, 510, 45.3),
    "transformer": (170, 480, 164, 56.9, 495, 44.6),
}
"""STAR's public code: ps_active, wrk_active, gpu_active (ms), use of the server's processor (%), length of a step
(ms), MiB per worker and direction; 8 workers and 1 parameter server."""


def test_the_cluster_is_that_of_the_experiment_settings() -> None:
    """Section V, experiment settings: 5 p4d.24xlarge with 8 GPUs and 96 vCPUs, 3 m4.16xlarge with 64 vCPUs."""
    fields = yaml.safe_load((ROOT / "conf" / "cluster" / "star_servers.yaml").read_text())["hosts"]
    hosts = parse_machines(fields | {"latency_ms": 0.0}).hosts
    assert [(host.gpus, host.cores) for host in hosts] == [(8, 96)] * 5 + [(0, 64)] * 3


@pytest.mark.parametrize("model", TABLE)
def test_a_cost_model_adds_up_to_the_active_times(model: str) -> None:
    """Published code, packing table: a worker is active for wrk_active, the server for ps_active with transfers."""
    ps_ms, worker_ms, gpu_ms, use_percent, step_ms, mib = TABLE[model]
    entry = Models("star", ROOT).find(model)
    assert entry is not None
    costs, gpu_s = load_costs(entry.costs).values, (entry.device or {})["per_sample_s"] * 128
    assert entry.num_parameters * 4 == pytest.approx(mib * 2**20, rel=1e-5)
    assert gpu_s * 1e3 == pytest.approx(gpu_ms, rel=1e-3)
    assert (costs.data_s(128) + gpu_s) * 1e3 == pytest.approx(worker_ms, rel=1e-3)
    transfers_s = 16 * mib * 2**20 / (100e9 / 8 * PAYLOAD_FRAC)
    update_s = costs.update_s(entry.num_parameters * 4, 8)
    assert (update_s + transfers_s) * 1e3 == pytest.approx(ps_ms, rel=1e-3)
    busy_s = use_percent / 100 * 96 * step_ms / 1e3
    assert costs.server_cores == pytest.approx(min(96, busy_s / update_s), rel=5e-3)


@pytest.mark.parametrize("model", TABLE)
def test_messages_as_work_leave_a_worker_as_active_as_published(model: str) -> None:
    """Published code, wrk_active: pre-processing, GPU, and the work of receiving and sending all parameters."""
    entry = Models("star_messages", ROOT).find(model)
    assert entry is not None
    costs = load_costs(entry.costs, changes=entry.cost_changes).values
    gpu_s, carry_s = (entry.device or {})["per_sample_s"] * 128, costs.carry_s(entry.num_parameters * 4).between_s
    assert (costs.data_s(128) + gpu_s + 2 * carry_s) * 1e3 == pytest.approx(TABLE[model][1], rel=1e-3)
