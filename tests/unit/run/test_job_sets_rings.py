"""Sets of jobs in which some have servers and some a ring: they share hosts' links and cores, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.errors import ConfigError
from tests.support.job_sets import checked_set, row, run_rows

QUIET = ("checkpoint_every_s=null",)
HOSTS = (
    "cluster.hosts.count=4",
    "cluster.hosts.gpus=2",
    "cluster.hosts.overrides=null",
    "cluster.hosts.link_mbps=1000",
)
"""Four hosts of two GPUs, with slow links."""


def ring(job: str, **more: Any) -> dict[str, Any]:
    """A job of VGG-16, the model with most parameters, whose workers are a ring."""
    return row(job, servers=None, model="vgg16", settings=["topology=allreduce"], **more)


def closed_s(*words: str, **size: Any) -> float:
    job = checked_set([ring("a", iterations=2, **size)], *words).jobs[0]
    assert job.request.duration_s is not None
    return job.request.duration_s / 2


def test_the_closed_form_is_the_sum_of_what_follows_one_another() -> None:
    """VGG-16 on two hosts: 22 messages of a twelfth of 56.5 MiB at 95.6 % of 1 Gbit/s; step, loading, GPU.

    Of the latencies, 0.2 ms, only the last message's is waited for.
    """
    model_bytes, cores = 4 * 14_811_136, 12
    ring_s = 22 * model_bytes / 12 / (1e9 / 8 * 1448 / 1514) + 0.0002
    step = 4.551e-10 * model_bytes * 96 / cores
    own_s = 128 * (0.0018984 + 0.00095312)
    found = closed_s("cluster.hosts.link_mbps=1000", gpus=12)
    assert found == pytest.approx(ring_s + step + own_s, rel=1e-6)
    with pytest.raises(
        ConfigError, match=r"^jobs=given: job a: topology.num_servers=1: topology=allreduce has no serv"
    ):
        checked_set([row("a")], "topology=allreduce")


def test_two_rings_over_the_same_links_slow_each_other_down(tmp_path: Path) -> None:
    """A GPU on each of two hosts each: all messages cross."""
    words = (*QUIET, *HOSTS, "cluster.hosts.gpus=2", "placement=spread")
    alone = run_rows(tmp_path / "one", [ring("a", gpus=4)], *words).loc["a"].end_s
    both = run_rows(tmp_path / "two", [ring("a", gpus=4), ring("b", gpus=4)], *words)
    assert both.loc["a"].end_s == pytest.approx(both.loc["b"].end_s, rel=0.01)
    assert 1.3 * alone < both.loc["a"].end_s < 2.05 * alone


def test_a_ring_and_a_job_with_servers_run_next_to_each_other(tmp_path: Path) -> None:
    """Each as alone where links are fast, and both slower where they are not."""
    rows = [ring("a", gpus=4), row("b", gpus=4, servers=2, model="vgg16")]
    for kind, words, least, most in (
        ("fast", ("cluster.hosts.link_mbps=null", "cluster.hosts.cpu_cores=null"), 1.0, 1.001),
        ("slow", (), 1.05, 3.0),
    ):
        given = (*QUIET, *HOSTS, "placement=spread", *words)
        together = run_rows(tmp_path / f"{kind} both", rows, *given)
        for one in rows:
            alone = run_rows(tmp_path / f"{kind} {one['job']}", [one], *given).loc[one["job"]]
            slower = together.loc[one["job"]].end_s / alone.end_s
            assert least - 1e-9 <= slower <= most


def test_a_ring_is_preempted_and_continues(tmp_path: Path) -> None:
    rows = [ring("long", gpus=8, iterations=40), ring("short", gpus=8, iterations=4, submit_s=5.0)]
    jobs = run_rows(tmp_path / "set", rows, *HOSTS, "policy=srtf", "replay.restart_s=1")
    assert jobs.status.to_dict() == {"long": "done", "short": "done"}
    assert jobs.loc["long"].starts == 2
    assert jobs.loc["short"].end_s < jobs.loc["long"].end_s


def test_neighbours_of_a_ring_may_reserve_room(tmp_path: Path) -> None:
    """The policy of prevention hears what the replicas need, who have no servers."""
    rows = [
        ring("ring", gpus=4, iterations=60),
        row("asks", gpus=4, servers=1, iterations=60, settings=["strategy=star_h", "strategy.prevent=true"]),
    ]
    jobs = run_rows(tmp_path / "set", rows, *QUIET, *HOSTS, "prevention=star", "placement=spread")
    assert set(jobs.status) == {"done"}


BYTES, DEVICE_S, LATENCY_S = 48_000, 0.01, 0.001
"""Of a model; of an iteration's computing; one way, between a host and the switch."""
CARRY_S, WITHIN_S = 1e-6, 0.25e-6
"""Work for a byte, at either end of a message, between machines and within one."""
RING: dict[str, Any] = {"servers": None, "settings": ["topology=allreduce"]}
SERVER: dict[str, Any] = {"servers": 1}


def model_file(tmp_path: Path) -> str:
    """A table with one model, whose iterations are computing on a device and messages, and nothing else."""
    costs, table = tmp_path / "carry.yaml", tmp_path / "models.yaml"
    costs.write_text(
        f"schema: 1\nvalues: {{carry_per_byte_s: {CARRY_S:.2e}, carry_within_per_byte_s: {WITHIN_S:.2e}}}\n"
    )
    small = f"{{costs: {costs}, device: {{base_s: {DEVICE_S}}}, num_parameters: {BYTES // 4}, batch_samples: 1}}"
    table.write_text(f"schema: 1\nmodels: {{small: {small}}}\n")
    return f"replay.models={table}"


@pytest.mark.few(4)
@pytest.mark.parametrize("link_mbps", [100, 1])
@pytest.mark.parametrize(
    ("topology", "workers", "gpus"),
    [(RING, 3, 1), (RING, 2, 1), (SERVER, 3, 1), (SERVER, 4, 2)],
    ids=["ring of three hosts", "ring of two", "server, three hosts", "server, two of two"],
)
def test_an_iteration_takes_as_long_as_the_closed_form_says(
    tmp_path: Path, topology: dict[str, Any], workers: int, gpus: int, link_mbps: int
) -> None:
    hosts = {"gpus": gpus, "overrides": "null", "link_mbps": link_mbps, "latency_ms": 1e3 * LATENCY_S}
    words = (model_file(tmp_path), "checkpoint_every_s=null", *(f"cluster.hosts.{key}={hosts[key]}" for key in hosts))
    rows = [[row("a", gpus=workers, model="small", iterations=count, **topology)] for count in (3, 8)]
    ends = [run_rows(tmp_path / str(number), one, *words).loc["a"].end_s for number, one in enumerate(rows)]
    found_s = (ends[1] - ends[0]) / 5  # the first iteration has no update
    duration_s = checked_set(rows[0], *words).jobs[0].request.duration_s
    assert duration_s == pytest.approx(3 * found_s, rel=1e-9)
    if topology is RING and link_mbps == 100:  # by hand: sent and received by the same worker, one after another
        messages = 2 * (workers - 1)
        carried_s = 2 * CARRY_S * BYTES / workers
        assert found_s == pytest.approx(DEVICE_S + messages * (2 * LATENCY_S + carried_s), rel=1e-9)


def test_costs_that_a_table_or_the_cluster_changes_are_those_of_the_job(tmp_path: Path) -> None:
    """The closed form knows how long messages take; the cluster's changes come before the table's."""
    words = model_file(tmp_path), "cluster.hosts.gpus=1", "cluster.hosts.overrides=null", "checkpoint_every_s=null"
    table = tmp_path / "models.yaml"
    changed = table.read_text().replace("batch_samples: 1", "batch_samples: 1, cost_changes: {latency_s: 0.5}")
    rows, found_s = [row("a", gpus=3, model="small", iterations=3, **SERVER)], []
    for more in ((), ("cluster.cost_changes={latency_s: 0.25}",)):
        table.write_text(changed)
        found_s.append(checked_set(rows, *words, *more).jobs[0].request.duration_s)
    assert found_s[0] - found_s[1] == pytest.approx(3 * 2 * 0.25)
