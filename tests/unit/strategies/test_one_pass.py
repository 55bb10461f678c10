"""Parts of a coded round in one pass: what a job decides by its workload and backend, and what that costs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from injectors.plan import build_plan
from runtime.cluster.device import DeviceProfile
from runtime.virtual.costs import Costs
from strategies.gradient_coding import GradientCoding
from strategies.protocol import Partition
from tests.support.cli import run_cli
from tests.support.harness import Puppet, Rig, make_job
from tests.support.virtual_runs import VirtualRun, World
from tests.unit.core.test_parts import BOTH, row

PROFILE = DeviceProfile(base_s=0.5, per_sample_s=1 / 64)


def job_of(**changes: bool) -> dict[str, object]:
    sizes = {"num_workers": 3, "global_batch_samples": 12, "num_samples": 60, "epochs": 1, "metric": "mean_uses"}
    return {**sizes, "max_time_s": 1e4, **changes}


def test_an_order_says_in_how_many_passes_its_parts_are_computed() -> None:
    for weighs, passes in ((True, 1), (False, 2)):
        run = Rig(Puppet(), make_job(**job_of(supports_sample_weights=weighs))).start()
        run.say(Partition(num_samples=12, num_parts=3), row(0, *BOTH))
        assert run.busy()[0].accum == passes
        assert len(run.busy()[0].pieces) == 2


@pytest.mark.parametrize(("weighs", "seconds"), [(True, 0.5 + 8 / 64), (False, 2 * (0.5 + 4 / 64))])
def test_the_virtual_clock_takes_one_pass_for_all_samples(weighs: bool, seconds: float) -> None:
    """Cyclic on three workers: two parts of four samples each. Every sample counts once, to rounding."""
    plan = build_plan("none", 0, 1e4, ())
    world = World(
        job=make_job(**job_of(supports_sample_weights=weighs)),
        costs=Costs(),
        profile=PROFILE,
        transport="tcp",
        plan=plan,
        accidents=(),
    )
    run = VirtualRun(world, GradientCoding(scheme="cyclic", s=1))
    assert run.refused == ""
    assert run.uses() == pytest.approx([1.0] * 60, abs=1e-5)
    assert {line["event"]["timings"]["compute_s"] for line in run.events("Arrived")} == {seconds}


@pytest.mark.long(like="test_the_virtual_clock_takes_one_pass_for_all_samples")
@pytest.mark.parametrize(
    ("workload", "seconds"),
    [
        (("workload=digits", "workload.global_batch_samples=64"), 0.02 + 32 * 0.00125),
        (("workload=imagenet_scale", "backend=none", "workload.task.num_samples=76800"), 2 * (0.02 + 192 * 0.00125)),
    ],
    ids=["torch", "batch normalisation"],
)
def test_a_workload_decides(workload: tuple[str, ...], seconds: float, tmp_path: Path) -> None:
    """Four workers on ``base_s = 0.02, per_sample_s = 0.00125``, two parts each."""
    calm = ("runtime=virtual", "cluster.costs=ideal", "straggler=none", "eval_every_s=null", "checkpoint_every_s=null")
    small = ("workload.epochs=1", "workload.target=null", "draw=false", "view=none", f"hydra.run.dir={tmp_path}/run")
    done = run_cli(*calm, *small, "strategy=coding_cyclic", *workload)
    assert done.exit_code == 0, done.err
    lines = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    received = [line["event"] for line in lines if line["kind"] == "event" and line["event"]["type"] == "Arrived"]
    whole = [event for event in received if event["grad"]["samples"] == event["grad"]["assigned_samples"]]
    assert len(whole) > 8
    assert {round(event["timings"]["compute_s"], 9) for event in whole} == {round(seconds, 9)}
