"""Workers that are replicas with pipeline stages and tensor ranks, as devices and on the virtual clock."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from runtime.cluster.device import DeviceProfile
from runtime.cluster.replica import ReplicaProfile, as_replicas, parse_replica
from runtime.core.layout import Layout
from runtime.core.membership import Membership
from runtime.errors import ConfigError
from runtime.live.runtime import LiveRuntime
from runtime.virtual import VirtualRuntime
from runtime.virtual.clock import Clock
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.replicas import Replicas
from strategies.basic.bsp import BSP
from tests.support.clusters import cluster_of
from tests.support.labs import run_alone
from tests.support.runs import ROOT
from tests.unit.virtual.test_virtual_session import session, slow, virtual_job

GPU = DeviceProfile(base_s=0.013, per_sample_s=0.0071, saturation_s=0.05)
ONE: dict[str, Any] = {
    "pipeline": 1,
    "tensor": 1,
    "layers": 8,
    "schedule": "1f1b",
    "micro_batches": 1,
    "chunks": 1,
    "sends": "free",
    "parts": [1.0, 1.0, 1.0],
    "message_s": 0.0,
    "slow": [],
}
"""A worker of one rank."""


def replica(profile: DeviceProfile = GPU, worker: int = 0, workers: int = 4, **changes: Any) -> ReplicaProfile:
    found = as_replicas((profile,) * workers, parse_replica({**ONE, **changes}, workers))[worker]
    assert isinstance(found, ReplicaProfile)
    return found


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zb"])
@pytest.mark.parametrize("parts", [[1.0, 1.0, 1.0], [9.0, 10.0, 6.0], [0.3, 0.1, 0.7]])
def test_a_replica_of_one_rank_takes_its_devices_time_to_the_bit(schedule: str, parts: list[float]) -> None:
    for micro_batches in (1, 3, 8):
        mine = replica(schedule=schedule, parts=parts, micro_batches=micro_batches, message_s=0.2)
        for samples in (1, 7, 8, 33, 500):
            for accum in (1, 2):
                assert mine.seconds(samples, accum) == GPU.seconds(samples, accum * micro_batches)


LINEAR = DeviceProfile(per_sample_s=0.25)


@pytest.mark.parametrize(("stages", "tensor", "micro_batches"), [(2, 1, 4), (4, 2, 8), (8, 4, 16)])
def test_stages_and_tensor_ranks_share_the_work_and_stages_have_a_bubble(
    stages: int, tensor: int, micro_batches: int
) -> None:
    """(m + p - 1) / m of the ideal time: Huang et al. 2019."""
    mine = replica(LINEAR, pipeline=stages, tensor=tensor, micro_batches=micro_batches)
    ideal_s = LINEAR.seconds(64) / (stages * tensor)
    assert mine.seconds(64) == pytest.approx(ideal_s * (micro_batches + stages - 1) / micro_batches)


@pytest.mark.parametrize(("schedule", "hidden"), [("gpipe", 0), ("1f1b", 1)])
def test_a_slow_stage_slows_its_replica_by_a_part_of_its_own_slow_down(schedule: str, hidden: int) -> None:
    """By hand: the slow stage is busy all the time, and the others add one micro-batch each: (m f + p - 1) / m.

    With 1F1B, what it takes longer for the forward passes ahead, one for each later stage, fits into its bubble.
    """
    slow_ranks = [{"stage": 2, "factor": 1.5, "worker": 1}]
    fields: dict[str, Any] = {"pipeline": 4, "micro_batches": 8, "schedule": schedule}
    usual = replica(LINEAR, **fields)
    other, slowed = (replica(LINEAR, worker, **fields, slow=slow_ranks) for worker in range(2))
    assert other.seconds(64) == usual.seconds(64)
    assert slowed.seconds(64) / usual.seconds(64) == pytest.approx((8 * 1.5 + 3 - hidden * 0.5) / (8 + 3))


def test_workers_with_equal_ranks_are_equal_and_share_the_time_of_a_step() -> None:
    slow_ranks = [{"stage": 0, "factor": 1.5, "worker": 1}, {"stage": 0, "factor": 2.0}]
    first, slowed, third = (replica(LINEAR, worker, slow=slow_ranks) for worker in range(3))
    assert first == third != slowed
    assert slowed.seconds(8) == pytest.approx(1.5 * first.seconds(8))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"pipeline": 3},
            "cluster.replica.layers=8: cluster.replica.pipeline=3 does not divide it; use a multiple of 3, such as 9",
        ),
        (
            {"pipeline": 4, "chunks": 2, "schedule": "interleaved", "micro_batches": 2},
            "cluster.replica.micro_batches=2: schedule=interleaved needs a multiple of pipeline=4, such as 4",
        ),
        ({"schedule": "other"}, "cluster.replica.schedule=other: must be gpipe, 1f1b, interleaved or zb"),
        ({"tensor": 0}, "cluster.replica.tensor=0: must be at least 1"),
        ({"slow": [{"stage": 0, "factor": 2.0, "worker": 4}]}, "cluster.replica.slow[0].worker=4: must be from 0 to 3"),
        ({"slow": [{"stage": 1, "factor": 2.0}]}, "cluster.replica.slow[0].stage=1: must be from 0 to 0"),
        (
            {"micro_batches": 100_000},
            "cluster.replica.micro_batches=100000: a step would have 300,000 passes, more than 200,000; use fewer",
        ),
        (
            {"tensor": 10**15},
            f"cluster.replica.tensor={10**15}: a worker would have 1,000,000,000,000,000 ranks, more than 100,000; use",
        ),
        ({"parts": [1.0, "a", 1.0]}, "cluster.replica.parts[1]=a: must be a number"),
    ],
)
def test_a_replica_that_cannot_be_is_refused_in_one_line(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        VirtualRuntime(cluster=cluster_of(num_workers=4, device={"base_s": 1.0}, replica={**ONE, **changes}))
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_other_clusters_in_which_replicas_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"^runtime=live: cluster\.replica is only modelled; choose runtime=virtual"):
        LiveRuntime(cluster=cluster_of(num_workers=4, device={"base_s": 1.0}, replica=ONE))
    with pytest.raises(ConfigError, match=r"^cluster\.replica: the cost model antdt_cluster_a has times of one rank"):
        VirtualRuntime(cluster=cluster_of(num_workers=4, costs="antdt_cluster_a", replica=ONE))
    with pytest.raises(ConfigError, match=r"^cluster\.device=null: .* give a device profile"):
        VirtualRuntime(cluster=cluster_of(num_workers=4, costs="local_tcp", replica=ONE))
    hosts = yaml.safe_load((ROOT / "conf/cluster/hosts.yaml").read_text())["hosts"]
    with pytest.raises(ConfigError, match=r"^cluster\.replica: .* leave it or cluster\.hosts out$"):
        VirtualRuntime(cluster=cluster_of(num_workers=4, device={"base_s": 1.0}, hosts=hosts, replica=ONE))


def events(device: Any, plan: Any, **costs: float) -> list[Any]:
    job = virtual_job(4, 320, global_batch_samples=32)
    timed = Costs(jitter_sigma=0.2, jitter_rho=0.5, sleep_overshoot_s=1e-4, control_s=1e-3, latency_s=2e-3, **costs)
    run, tape = session(BSP(), job, timed, device=device, actuator=plan)
    run_alone(run)
    return [{name: value for name, value in line.items() if name != "decide_us"} for line in tape.plain()]


@pytest.mark.parametrize("real_s", [0.0, 0.06], ids=["paced", "longer than its device says"])
@pytest.mark.parametrize("plan", [slow(), slow(w1=0.7)], ids=["calm", "slowed"])
def test_bsp_with_replicas_of_one_rank_is_bsp_to_the_bit(real_s: float, plan: Any) -> None:
    ours = events(as_replicas((GPU,) * 4, parse_replica(ONE, 4)), plan, compute_base_s=real_s)
    assert ours == events(GPU, plan, compute_base_s=real_s)
    assert len(ours) > 40
    other = as_replicas((GPU,) * 4, parse_replica({**ONE, "pipeline": 2, "micro_batches": 4}, 4))
    assert ours != events(other, plan, compute_base_s=real_s)


def test_each_rank_sums_its_part_of_the_parameters_with_its_peers() -> None:
    costs = Costs(ring_per_byte_s=1e-6, update_per_byte_s=1e-7)
    members = Membership(Layout.initial(4, 0))
    whole, shared = (Replicas(Clock(), costs, 1000, members, ranks=ranks) for ranks in (1, 8))
    assert whole.update_takes_s(4) == (costs.ring_s(4000, 4), costs.update_s(4000, 1))
    assert shared.update_takes_s(4) == (costs.ring_s(500, 4), costs.update_s(500, 1))
    assert replica(pipeline=4, tensor=2).ranks == 8
    assert GPU.ranks == 1
