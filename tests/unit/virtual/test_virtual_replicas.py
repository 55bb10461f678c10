"""All-reduce on the virtual clock: what a ring costs, and that nothing applied is lost with a replica."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import pytest

from runtime.cluster.device import DeviceProfile
from runtime.core.job import FragmentOrder, Job, PushOrder
from runtime.virtual.clock import MESSAGE
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs, load_costs
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.tasks.model_state import NoModelState
from runtime.virtual.tasks.replicas import Replicas
from strategies.basic.bsp import BSP
from strategies.protocol import AnyCommand, AnyEvent, Apply, NodeId, Restart, Strategy
from tests.support.harness import make_run_spec
from tests.support.members import ring_of
from tests.support.virtual_runs import lose
from tests.unit.virtual.test_virtual_session import QUARTER, Tape, finish, ledger, slow, uses, virtual_job
from tests.unit.virtual.test_virtual_session import session as virtual_session

RING = Costs(ring_step_s=1 / 64, ring_per_byte_s=1 / 1024, update_base_s=1 / 16, update_per_byte_s=1 / 4096)
PARAMETERS = 64
"""256 bytes: a quarter of the vector is a step of 5/64 s, the whole a step of its own of 1/16 s."""
RING_OF_4_S = 6 * (1 / 64 + 64 / 1024)
STEP_S = 1 / 16 + 256 / 4096


def test_a_ring_costs_by_its_members_and_not_by_gradients() -> None:
    replicas = Replicas(new_clock(), RING, PARAMETERS, ring_of(4))
    replicas.schedule_update(1.0, num_grads=4)
    assert replicas.idle_s == 1.0 + RING_OF_4_S + STEP_S
    replicas.members.ring = replicas.members.ring[:2]
    replicas.schedule_update(2.0, num_grads=1)
    assert replicas.idle_s == 2.0 + 2 * (1 / 64 + 128 / 1024) + STEP_S


def test_a_copy_of_the_state_is_ordered_and_takes_a_hop() -> None:
    costs = msgspec.structs.replace(RING, control_s=0.5)
    assert Replicas(new_clock(), costs, PARAMETERS, ring_of(4)).copy_s == 0.5 + 1 / 64 + 256 / 1024


def test_a_step_alone_delays_its_worker_and_the_next_sum() -> None:
    replicas = Replicas(new_clock(), RING, PARAMETERS, ring_of(4))
    replicas.step_alone(1, 1.0)
    replicas.step_alone(1, 1.0)
    replicas.step_alone(2, 1.0)
    assert [replicas.idle_of(worker) for worker in range(3)] == [0.0, 1.0 + 2 * STEP_S, 1.0 + STEP_S]
    replicas.schedule_update(1.0, num_grads=5)
    assert replicas.idle_s == 1.0 + 2 * STEP_S + RING_OF_4_S + STEP_S
    assert {replicas.idle_of(worker) for worker in range(4)} == {replicas.idle_s}
    replicas.step_alone(3, 9.0)
    replicas.begin_again(9.0)
    assert replicas.idle_of(3) == 9.0, "a step in progress is void with everything else"


def test_an_average_takes_a_ring_of_its_group_and_delays_nobody_else() -> None:
    """Workers 0 and 1 begin when worker 1 has stepped, 2 and 3 at once; the next sum begins when all are done."""
    replicas = Replicas(new_clock(), RING, PARAMETERS, ring_of(4))
    ring_of_2_s = 2 * (1 / 64 + 128 / 1024)
    replicas.step_alone(1, 1.0)
    replicas.average((0, 1), 1.0)
    replicas.average((2, 3), 1.0)
    early_s, late_s = 1.0 + ring_of_2_s + STEP_S, 1.0 + STEP_S + ring_of_2_s + STEP_S
    assert [replicas.idle_of(worker) for worker in range(4)] == [late_s, late_s, early_s, early_s]
    assert replicas.idle_s == 0.0
    replicas.schedule_update(1.0, num_grads=4)
    assert replicas.idle_s == late_s + RING_OF_4_S + STEP_S


def test_a_half_takes_a_pass_and_a_message_of_the_whole_vector() -> None:
    """Worker 1 halves and sends, worker 2 receives when it has stepped; worker 3 adds two halves."""
    replicas = Replicas(new_clock(), RING, PARAMETERS, ring_of(4))
    hop_s = 1 / 64 + 256 / 1024
    replicas.push_half(PushOrder(worker=1, to=2, adds=()), 1.0)
    replicas.push_half(PushOrder(worker=3, to=None, adds=(1, 2)), 1.0)
    assert [replicas.idle_of(worker) for worker in (1, 2, 3)] == [1.0 + STEP_S + hop_s] * 2 + [1.0 + 2 * STEP_S]
    for _ in range(4):
        replicas.step_alone(2, 2.0)
    replicas.push_half(PushOrder(worker=0, to=2, adds=(1,)), 2.0)
    there_s = 2.0 + 4 * STEP_S + hop_s
    assert [replicas.idle_of(worker) for worker in (0, 2)] == [there_s + STEP_S, there_s]


def test_a_fragment_takes_its_part_of_a_sum_and_of_a_step() -> None:
    """Half of the vector: worker 1 sums when it has stepped, worker 0 mixes after that; offers take no time."""
    replicas = Replicas(new_clock(), RING, PARAMETERS, ring_of(4))
    about = {"fragment": 1, "of": 2, "samples": 4, "lr": 1.0, "kept_frac": 0.0}
    replicas.sum_fragment(FragmentOrder(offer=(0, 1), moves=(), mix=(), **about), 1.0)
    assert [replicas.idle_of(worker) for worker in range(4)] == [0.0] * 4
    replicas.step_alone(1, 1.0)
    replicas.sum_fragment(FragmentOrder(offer=(2, 3), moves=((0, 1.0),), mix=(0,), **about), 1.0)
    half_step_s = 1 / 16 + 128 / 4096
    summed_s = 1.0 + STEP_S + 6 * (1 / 64 + 32 / 1024) + half_step_s
    assert [replicas.idle_of(worker) for worker in range(4)] == [summed_s + half_step_s, *[summed_s] * 3]


def allreduce_job(num_workers: int = 4, samples: int = 64, **changes: Any) -> Job:
    return virtual_job(num_workers, samples, num_servers=0, **changes)


def session(
    strategy: Strategy,
    job: Job,
    costs: Costs = RING,
    device: Any = QUARTER,
    *,
    parameters: int = PARAMETERS,
    learns: bool = False,
    **about: Any,
) -> tuple[VirtualSession, Tape]:
    """``learns``: the ledger of uses."""
    model_state = ledger(job, strategy) if learns else NoModelState(parameters, None)
    return virtual_session(strategy, job, costs, device=device, model_state=model_state, **about)


def test_a_round_is_the_slowest_worker_a_ring_and_a_step() -> None:
    """The last update is only ordered: the job ends with the decision."""
    outcome = finish(*session(BSP(), allreduce_job()))
    assert outcome.t == 16 * 0.25 + 15 * (RING_OF_4_S + STEP_S)


def test_the_epoch_of_resnet_101_takes_as_long_as_in_the_paper() -> None:
    """AntDT figure 15, DDP: 1266 s for the 1667 updates of an epoch; here ten of them, without jitter."""
    job = allreduce_job(8, 7680, global_batch_samples=768)
    tape, costs = Tape(), load_costs("antdt_cluster_b").values
    model_state = NoModelState(44_500_000, None)
    v100, p100 = DeviceProfile(per_sample_s=1 / 651), DeviceProfile(per_sample_s=1 / 217)
    run = VirtualSession(make_run_spec(job, BSP(), tape), slow(), model_state, costs, [v100] * 4 + [p100] * 4)
    update_s = costs.ring_s(4 * model_state.num_parameters, 8) + costs.update_base_s
    assert update_s == pytest.approx(0.317, abs=0.001)
    assert (finish(run, tape).t + update_s) / 10 * 1667 == pytest.approx(1266, rel=0.005)


def struck(costs: Costs, *strikes: tuple[float, int, bool], samples: int = 64) -> Tape:
    """A job of four that loses workers at these times, for good or to restart; it uses every sample once."""
    run, tape = session(BSP(), allreduce_job(samples=samples), costs, learns=True)
    for at_s, worker, restarting in strikes:
        unregister = partial(lose, run.supervisor, NodeId.worker(worker), restarting=restarting)
        run.clock.at(at_s, MESSAGE, unregister)
    outcome = finish(run, tape)
    assert uses(run) == {1.0}
    assert outcome.samples_applied == samples
    return tape


COPY = Costs(ring_step_s=0.5, launch_s=3.0)
"""Replicas are alike again half a second after a loss; a round of four takes 0.25 s and a ring of 3 s, of three 2 s."""


def test_an_update_is_lost_with_a_worker_that_dies_within_its_ring() -> None:
    """The ring of the second update lasts from 3.5 to 6.5 s: its samples are computed again."""
    struck_s = (6.25, 6.5)
    versions = [struck(COPY, (at_s, 2, False)).received("Restored")[0]["version"] for at_s in struck_s]
    assert versions == [1, 2]


class RestartOnce(Strategy):
    """BSP that restarts worker 1 after its third update."""

    needs = BSP().needs | {Restart}

    def __init__(self) -> None:
        self.inner, self.updates = BSP(), 0

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        commands = list(self.inner.handle(event))
        if any(isinstance(command, Apply) for command in commands):
            self.updates += 1
            if self.updates == 3:
                commands.append(Restart(node="worker:1"))
        return commands


def test_kill_restart_of_a_replica() -> None:
    """The others continue half a second later, without the update that was ordered at the same time.

    The next incarnation launches (3 s), copies (0.5 s) and joins a round.
    """
    run, tape = session(RestartOnce(), allreduce_job(samples=96), COPY, learns=True)
    finish(run, tape)
    [restored], [joined] = tape.received("Restored"), tape.received("Joined")
    killed_s = restored["t"] - 0.5
    assert (restored["version"], restored["workers"]) == (2, [0, 2, 3])
    assert (joined["t"], joined["worker"]) == (killed_s + 3.5, 1)
    assert tape.received("Arrived")[-1]["grad"]["incarnation"] in (0, 1)
    assert {event["grad"]["worker"] for event in tape.received("Arrived") if event["t"] > joined["t"] + 5} == {
        0,
        1,
        2,
        3,
    }
    assert uses(run) == {1.0}
