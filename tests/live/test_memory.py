"""What servers of a large model need: their part of the parameters, the optimizer's state, gradients."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runtime.config.instantiate import instantiate
from tests.support.leaks import Start
from tests.support.runs import QUICK
from tests.unit.run.test_preflight import composed

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

RUN_S = 100.0
PROCESS_BYTES = 25e6
"""Of a task without any parameters: what it has of its own after the fork."""
SERVERS = WORKERS = 2
VECTORS = 2 + WORKERS
"""Parameters, the sums of Adagrad, and a gradient of each worker."""


def words(data_dir: object) -> Sequence[str]:
    """A table of 9 million floats."""
    return (
        "workload=wide_deep_criteo_laptop",
        f"workload.task.data_dir={data_dir}",
        "workload.task.dataset.buckets=100_000",
        "workload.task.dataset.samples=1000",
        "workload.epochs=1",
    )


@pytest.mark.long(like="tests/live/test_record.py::test_notes_tell_the_life_of_the_run")
def test_a_server_has_its_part_of_the_vectors_and_no_other(
    start: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    given = words(tmp_path_factory.mktemp("data"))
    [(_, raw)] = composed(" ".join(given))
    part_bytes = 4 * instantiate(raw["workload"]["task"]).num_parameters / SERVERS
    run = start(
        "run",
        *given,
        *QUICK,
        "strategy=bsp",
        "straggler=none",
        f"cluster.num_workers={WORKERS}",
        f"topology.num_servers={SERVERS}",
    )
    run.finish(RUN_S)
    memory = run.finished["memory"]
    for server in range(SERVERS):
        found = memory[f"server {server}"]
        assert VECTORS * part_bytes < found < VECTORS * part_bytes + PROCESS_BYTES
