"""AntDT's shards of M batches, and its slow server (ICDE 2024, sections V-C, VII-A4, VII-A5, VII-B1 and VII-D)."""

from __future__ import annotations

from math import ceil
from pathlib import Path

import pytest

from injectors.patterns.persistent import Persistent
from injectors.plan import ClusterShape
from injectors.schedule import Schedule
from runtime.record.recorder import Recorder
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.model_state import NoModelState
from runtime.virtual.tasks.servers import Servers
from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.protocol import Strategy
from tests.support.faults import Crash
from tests.support.harness import HeapRun, make_job, make_run_spec
from tests.support.labs import run_alone

M, BATCH, BATCHES = 100, 4, 800
"""Section VII-A5: M = 100 batches of a worker make a shard. Eight shards."""


def killed_after(seconds: float, failover: str) -> HeapRun:
    """Four workers with a batch a second; worker 2 dies and is back a second later."""
    job = make_job(
        num_samples=BATCH * BATCHES,
        global_batch_samples=4 * BATCH,
        batches_per_shard=M,
        epochs=1,
        max_time_s=1000.0,
        failover=failover,
    )
    return HeapRun(ASP(), job, [1.0] * 4, [Crash(seconds, 2, 1.0)]).run()


@pytest.mark.parametrize("seconds", [30.5, 60.5, 130.5])
def test_the_shard_of_a_killed_worker_is_computed_again(seconds: float) -> None:
    """Section VII-D2: "the total number of DONE shards is equal to" ceil(N / (B M)); VII-D3: the delay "mainly comes
    from re-computing the data shards allocated to the crashed node". With ``shards`` only the batch in progress is."""
    kept, whole = (killed_after(seconds, failover).core.shards for failover in ("shards", "whole_shards"))
    assert kept.finished
    assert whole.finished
    assert kept.shards_done == whole.shards_done == ceil(BATCHES / M)
    assert (kept.samples_repeated, kept.samples_applied) == (0, BATCH * BATCHES)
    done = int(seconds) % M  # of its hundred batches
    assert whole.samples_repeated == BATCH * done
    assert whole.samples_applied == BATCH * (BATCHES + done)


SLEEP_S = 3.2
"""4 s at intensity 0.8 (section VII-A4)."""
ITERS, WORKERS = 10, 4


def jct_s(run_dir: Path, strategy: Strategy, *, concurrent: bool) -> float:
    """Of a job whose iterations take 1 s and whose server 0 sleeps in every update."""
    run_dir.mkdir()
    samples = {"num_samples": ITERS * WORKERS, "global_batch_samples": WORKERS, "epochs": 1}
    job = make_job(num_workers=WORKERS, num_servers=2, max_time_s=1000.0, **samples)
    spec = make_run_spec(job, strategy, Recorder(run_dir), run_dir)
    pattern = Persistent(name="server", targets=("server:0",), start_s=0.0, sleep_s=SLEEP_S)
    shape = ClusterShape(num_workers=WORKERS, num_servers=2, base_iter_s=1.0)
    costs = Costs(compute_base_s=1.0, concurrent_delays=concurrent)
    plan = Schedule(pattern.plan(shape, 1000.0, 0))
    outcome = run_alone(VirtualSession(spec, plan, NoModelState(64, None), costs, None))
    return outcome.t


def test_with_a_thread_for_each_request_workers_do_not_wait_for_each_others_delays(tmp_path: Path) -> None:
    """Section VII-B1: with a slow server ASP takes about as long as BSP, and AntDT-ND is two times as fast as ASP.

    BSP has ten updates of 1 + 3.2 s, and so has each asynchronous worker; the last one is not waited for. Of a server
    with one thread ASP asks for 40 updates of 3.2 s."""
    rounds_s = ITERS * 1.0 + (ITERS - 1) * SLEEP_S
    assert jct_s(tmp_path / "bsp", BSP(), concurrent=True) == pytest.approx(rounds_s)
    assert jct_s(tmp_path / "asp", ASP(data="even"), concurrent=True) == pytest.approx(rounds_s)
    assert jct_s(tmp_path / "one", ASP(data="even"), concurrent=False) > 36 * SLEEP_S


def test_a_delay_holds_up_the_parameters_of_its_own_update() -> None:
    """Section VII-A4, by hand: two updates of 0.5 s at once on a server that sleeps 3.2 s in each."""
    for concurrent, free_s, held_s in ((False, 7.4, 0.0), (True, 1.0, 4.2)):
        costs = Costs(update_base_s=0.5, concurrent_delays=concurrent)
        servers = Servers(costs, 64, 1, lambda name, t: (SLEEP_S, 0.0))
        servers.schedule_update(0.0, 1)
        servers.schedule_update(0.0, 1)
        assert servers.idle_s == pytest.approx(free_s)
        assert servers.held_s == pytest.approx(held_s)
        servers.begin_again(9.0)
        assert (servers.idle_s, servers.held_s) == (9.0, 0.0)
