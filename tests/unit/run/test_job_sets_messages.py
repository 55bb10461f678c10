"""Messages between machines, on the model of hosts and in the closed form of a job's length, which know nothing of each
other: their latency, their way over a link, and the work of carrying them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.job_sets import checked_set, row, run_rows

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
