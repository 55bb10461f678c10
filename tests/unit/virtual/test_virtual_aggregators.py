"""Gradients that are summed on their way: fewer bytes into the server, every sample once, whoever is lost."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.cluster.hosts import aggregator_hosts
from runtime.errors import ConfigError
from runtime.virtual.clock import MACHINE
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.machines.sites import PAYLOAD_FRAC
from runtime.virtual.tasks.model_state import ModelState, NoModelState
from strategies.mlfabric import MLfabric
from tests.support.long_tests import long_after
from tests.unit.virtual.test_virtual_session import Tape, finish, ledger, session, unregister, uses, virtual_job
from tests.unit.virtual.test_virtual_transfers import SECOND, hosts_of

NUM_PARAMETERS = 125_000
TRANSFER_S = 4 / PAYLOAD_FRAC
"""Of all parameters over a link of 125,000 bytes/s on the wire."""


def job_of(
    num_aggregators: int, num_workers: int = 6, samples: int = 6, model_state: ModelState | None = None, **changes: Any
) -> tuple[VirtualSession, Tape]:
    strategy = MLfabric(num_aggregators=num_aggregators, lr_rule="batch_linear", tau_max=20)
    job, hosts = virtual_job(num_workers, samples, **changes), hosts_of(num_workers, free=1)
    model_state = model_state or NoModelState(NUM_PARAMETERS, None)
    return session(strategy, job, device=SECOND, model_state=model_state, hosts=hosts)


def after_ready_s(tape: Tape) -> list[float]:
    """Transfers after all were ready at once, when each update was applied."""
    ready_s = tape.received("Ready")[0]["t"]
    return [(t - ready_s) / TRANSFER_S for t in tape.update_times()]


def into_server(run: VirtualSession) -> float:
    """Vectors that have come over the server's link."""
    assert run.machines is not None
    _, inward = run.machines.bytes_of("host:0")
    return inward / (4 * NUM_PARAMETERS)


def test_six_updates_need_five_transfers_into_the_server() -> None:
    """The third and the fourth are summed while the first two travel: 5.0 instead of 6.0 s of 100 MB at 100 MB/s."""
    direct, tape = job_of(0)
    finish(direct, tape)
    assert after_ready_s(tape)[-1] == pytest.approx(6.0)
    assert into_server(direct) == pytest.approx(6.0)
    summed, tape = job_of(1)
    outcome = finish(summed, tape)
    assert after_ready_s(tape) == pytest.approx([1.0, 2.0, 3.0, 4.0, 5.0])
    assert into_server(summed) == pytest.approx(5.0)
    [told] = [event for event in tape.received("Arrived") if event["grad"].get("members")]
    arrived, send_s = told["grad"], told["timings"]["send_s"]
    assert send_s == pytest.approx(3 * TRANSFER_S), "from when it was ordered: two to the aggregator, one from there"
    assert (len(arrived["members"]), arrived["samples"], outcome.samples_applied) == (2, 2, 6)
    assert tape.received("Started")[0]["places"]["aggregator:0"] == "host:7"


@pytest.mark.few(2)
@pytest.mark.parametrize("first", long_after(range(4), always=1))
@pytest.mark.parametrize("lost", ["worker:2", "worker:3", "server:0"])
@pytest.mark.parametrize("restarting", [True, False])
def test_whoever_is_lost_every_sample_counts_once(lost: str, restarting: bool, first: int) -> None:
    """At many moments: while a sum is gathered, while it is added, and while it travels."""
    for moment in range(first, 12, 4):
        strategy = MLfabric(num_aggregators=1, lr_rule="batch_linear")
        job = virtual_job(6, 60, epochs=2, checkpoint_every_s=4.0)
        run, tape = job_of(1, samples=60, epochs=2, checkpoint_every_s=4.0, model_state=ledger(job, strategy))
        run.clock.at(1.0 + 0.0004 * moment, MACHINE, unregister(lost, restarting=restarting), run)
        run.clock.at(3.0 + 0.0005 * moment, MACHINE, unregister(lost, restarting=True), run)
        finish(run, tape)
        assert uses(run) == {2.0}, moment


def test_aggregators_take_free_hosts_first_and_none_of_a_server() -> None:
    assert aggregator_hosts(hosts_of(2, free=1), 2, "free") == {"aggregator:0": "host:3", "aggregator:1": "host:1"}
    with pytest.raises(ConfigError, match=r"has aggregators \(3; .* only 2 of 3 hosts have none"):
        aggregator_hosts(hosts_of(2), 3, "free")


def test_an_aggregator_sends_one_sum_after_the_other() -> None:
    """Eight workers, ten rounds: the next sum is often complete while one travels."""
    run, tape = job_of(1, num_workers=8, samples=80)
    outcome = finish(run, tape)
    assert outcome.samples_applied == 80
    assert into_server(run) == pytest.approx(outcome.version)
    assert outcome.version < 80
