"""conf/straggler: every file gives a plan, the plan is the one that it always was, and does what the comment says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from omegaconf import OmegaConf

from injectors.plan import NO_HOSTS, RULES, ClusterShape, parse_plan, plan_json, plan_sha256, validate_plan
from injectors.schedule import Schedule
from runtime.config.instantiate import instantiate

CONF = Path(__file__).parents[3] / "conf" / "straggler"
DOCS = Path(__file__).parents[3] / "docs" / "stragglers.md"
CLUSTER = ClusterShape(num_workers=4, num_servers=2, base_iter_s=0.06)
HOSTS = ClusterShape(num_workers=4, num_servers=2, base_iter_s=0.06, num_hosts=4)
NAMES = sorted(path.stem for path in CONF.glob("*.yaml"))
NEED_HOSTS = ("disrupted_host", "link_throttle", "link_transient")
FIXED = (
    "bytedance",
    "iterations",
    "none",
    "on_off",
    "persistent",
    "persistent_server",
    "cpu_throttle",
    "gpu_hog",
    "link_throttle",
    "trace",
)
"""Those in which nothing is random."""
FEW = {"quarter": 3, "random_workers": 2, "slow_loader": 2, "heterogeneity": 5, "antdt_worker": 5, "antdt_server": 5}
"""Plans of ten seeds that differ at least, where few are possible: one of six targets, an order of three or four."""

SHA256 = {
    ("none", 0): "24bebaa96c6ecfe1757c580f71736de40f610ea4926820e384432a5e4a7fc7b8",
    ("persistent", 0): "cdced0b07cb959dce56adfe4f25adda1ee6bf596233967a553e235eeec679312",
    ("persistent_server", 0): "b8728ee0933ee6f9001fe82826c32794f9727b892ff6477b8e346336b0ef36b2",
    ("slowdown", 0): "b6a9210872a569f3a8f9d028ad1d7d3914fb5c9734b4950d9d9cd69d1958fb3c",
    ("transient", 0): "ea2d8b6937137110b197d344ef5e75063c1ba7112b14f2b94a7c4d4c186e5a1e",
    ("transient_and_persistent", 0): "25ce4d503ac8db9e841523824dccf7e706013d9440f13f7737cdfa7774d25df4",
}
"""Of the plans on CLUSTER for 120 s as the first release made them: published ones must stay the same forever."""


def load(name: str) -> dict[str, Any]:
    loaded = OmegaConf.to_container(
        OmegaConf.create({"straggler": OmegaConf.load(CONF / f"{name}.yaml")}), resolve=True
    )
    assert isinstance(loaded, dict)
    return {str(key): value for key, value in loaded["straggler"].items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_gives_every_field_and_a_plan_that_reads_back(name: str) -> None:
    fields = load(name)
    pattern = instantiate(fields, "straggler")
    assert {"_target_", *vars(pattern)} == set(fields)
    plan = pattern.plan(HOSTS, 120.0, 0)
    validate_plan(plan, HOSTS)
    assert plan.pattern == name
    assert bool(plan.disturbances) == (name != "none")
    assert parse_plan(plan_json(plan)) == plan
    assert pattern.plan(HOSTS, 120.0, 0) == plan


@pytest.mark.parametrize(("name", "seed"), SHA256)
def test_a_plan_of_the_first_release_is_still_the_same(name: str, seed: int) -> None:
    """But for what it says of machines, which strategies of that release could not leave."""
    plan = instantiate(load(name)).plan(CLUSTER, 120.0, seed)
    as_then = [msgspec.structs.replace(one, of_machine=False) for one in plan.disturbances]
    assert plan_sha256(msgspec.structs.replace(plan, disturbances=tuple(as_then))) == SHA256[name, seed]


@pytest.mark.parametrize("name", NAMES)
def test_without_hosts_a_file_works_or_says_what_it_needs(name: str) -> None:
    pattern = instantiate(load(name))
    if name not in NEED_HOSTS:
        return validate_plan(pattern.plan(CLUSTER, 120.0, 0), CLUSTER)
    with pytest.raises(ValueError, match=rf"^targets=(host|link):.: {re.escape(NO_HOSTS)}$"):
        pattern.plan(CLUSTER, 120.0, 0)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NAMES)
def test_another_seed_gives_another_plan_where_something_is_random(name: str) -> None:
    pattern = instantiate(load(name))
    plans = {pattern.plan(HOSTS, 120.0, seed).disturbances for seed in range(10)}
    assert len(plans) == 1 if name in FIXED else len(plans) > FEW.get(name, 9)


def test_the_documentation_names_every_file_and_no_other() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", DOCS.read_text(), flags=re.MULTILINE)
    assert sorted(rows) == sorted([*RULES, *NAMES])


def mean_slowdown(name: str, seeds: Iterable[int]) -> list[float]:
    """By which factor each seed's plan stretches 281 BSP rounds of 0.06 s, neglecting the network."""
    found = []
    for seed in seeds:
        ask, t = Schedule(instantiate(load(name)).plan(CLUSTER, 120.0, seed)), 0.0
        for _ in range(281):
            asked = [ask.delay_for(f"worker:{worker}", t) for worker in range(CLUSTER.num_workers)]
            t += 0.06 + max(delay_s + slowdown_frac * 0.06 for delay_s, slowdown_frac in asked)
            t += max(ask.delay_for(f"server:{server}", t)[0] for server in range(CLUSTER.num_servers))
        found.append(t / (281 * 0.06))
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "seeds", "low", "high"),
    [
        ("none", 1, 1.0, 1.0),
        ("transient", 60, 1.5, 1.75),
        ("slowdown", 60, 1.6, 1.8),
        ("random_workers", 3, 2.0, 2.0),
        ("persistent", 1, 2.43, 2.45),
        ("persistent_server", 1, 1.53, 1.55),
        ("transient_and_persistent", 60, 3.1, 3.5),
        ("power_law", 20, 2.15, 2.25),
        ("pauses", 60, 1.21, 1.27),
        ("sequence_lengths", 5, 2.6, 2.75),
        ("slow_loader", 3, 1.45, 1.47),
        ("bytedance", 1, 1.35, 1.4),
        ("trace", 1, 2.05, 2.15),
    ],
)
def test_bsp_is_slowed_as_the_comments_say(name: str, seeds: int, low: float, high: float) -> None:
    slowdowns = mean_slowdown(name, range(seeds))
    assert low - 1e-9 <= np.mean(slowdowns) <= high + 1e-9


@pytest.mark.long(like="test_bsp_is_slowed_as_the_comments_say")
def test_the_spread_over_seeds_is_as_the_comment_says() -> None:
    slowdowns = mean_slowdown("transient", range(120))
    assert 1.1 <= np.quantile(slowdowns, 0.05) <= 1.25
    assert 1.9 <= np.quantile(slowdowns, 0.95) <= 2.2
    assert slowdowns[0] > 1.2, "the default run of the default seed must show something"
