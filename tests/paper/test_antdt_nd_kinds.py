"""AntDT-ND detects a straggler of each kind: a slow processor, a slow link, a paused process, a slow server."""

from __future__ import annotations

from typing import Any

import pytest

from injectors.plan import Disturbance, Kind, build_plan
from runtime.cluster.hosts import parse_hosts
from runtime.virtual.costs import Costs
from strategies.antdt.antdt_nd import AntDTND
from tests.paper.test_antdt_nd_equal_work import SHIPPED
from tests.support.harness import make_job
from tests.support.virtual_runs import VirtualRun, World

HOSTS: dict[str, Any] = {
    "count": 8,
    "cpu_cores": 1.0,
    "real_cores_per_core": 1.0,
    "link_mbps": 100.0,
    "latency_ms": 0.0,
    "placement": "spread",
}


def killed(target: str, kind: Kind, magnitude: float, every_s: float = 1e9, **settings: Any) -> str | None:
    """The first node that is restarted, of 4 workers and 2 servers; windows are open for 3/4 of ``every_s``."""
    job = make_job(
        num_servers=2,
        global_batch_samples=128,
        num_samples=25_000,
        max_time_s=60.0,
        metric="mean_uses",
        batches_per_shard=4,
    )
    times = [start * every_s for start in range(int(60 / every_s) + 1)]
    windows = [
        Disturbance(start_s=t, end_s=t + 0.75 * every_s, target=target, kind=kind, magnitude=magnitude) for t in times
    ]
    world = World(
        job=job,
        costs=Costs(compute_base_s=0.02, compute_per_sample_s=0.00125, update_base_s=0.001, link_bytes_per_s=None),
        profile=None,
        transport="tcp",
        plan=build_plan("one", 0, 60.0, windows),
        accidents=(),
        hosts=parse_hosts(HOSTS, 4, 2),
    )
    run = VirtualRun(world, AntDTND(**SHIPPED, **settings))
    assert not run.refused
    return next((c["node"] for line in run.lines for c in line.get("commands", ()) if c["type"] == "Restart"), None)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("target", "kind", "magnitude", "every_s", "settings", "node"),
    [
        ("worker:1", "cpu", 0.2, 1e9, {}, "worker:1"),
        ("link:1", "bandwidth", 0.02, 1e9, {}, "worker:1"),
        ("worker:1", "pause", 1.0, 0.2, {}, "worker:1"),
        ("server:1", "delay", 0.1, 1e9, {}, "server:1"),
        ("link:1", "bandwidth", 0.02, 1e9, {"times": "bpt"}, None),
        ("worker:1", "delay", 1e-6, 1e9, {}, None),
    ],
)
def test_a_straggler_of_each_kind_is_detected(
    target: str, kind: Kind, magnitude: float, every_s: float, settings: dict[str, str], node: str | None
) -> None:
    """Sections III and VII-A4: stragglers by processor, link, pause and server; the paper's T_i^w, computing alone,
    does not see a link, and nobody is restarted where none is slow."""
    assert killed(target, kind, magnitude, every_s, **settings) == node
