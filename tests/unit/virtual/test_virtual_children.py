"""Children of replicas on the virtual clock: the ring of the others, and what their transfers cost."""

from __future__ import annotations

import pytest

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.cluster.device import DeviceProfile
from runtime.virtual.costs import Costs
from strategies.lgc.slowest import SlowestApart
from strategies.parts.composed import Composed
from strategies.parts.gates import RingGate
from strategies.protocol import Strategy
from tests.unit.virtual.test_virtual_replicas import allreduce_job, session
from tests.unit.virtual.test_virtual_session import finish

PARAMETERS = 64
"""256 bytes."""
COSTS = Costs(ring_step_s=1 / 64, ring_per_byte_s=1 / 1024, update_base_s=1 / 16, link_bytes_per_s=1024.0)
HOP_S = 1 / 64 + 256 / 1024 + 256 / 1024
"""All parameters, or a gradient, from one worker to another."""
DEVICES = [DeviceProfile(base_s=base_s) for base_s in (0.25, 0.25, 0.25, 0.5)]


def ring_of_three() -> Strategy:
    schedule = SlowestApart(k_fastest=3, wait_s=0.0, window_iters=1, warmup_iters=0, reselect_iters=10**6)
    return Composed(gate=RingGate(), schedule=schedule)


@pytest.mark.parametrize("modelled", [False, True])
def test_a_child_receives_the_parameters_and_sends_its_gradient_in_a_hop_each(modelled: bool) -> None:
    """Machines are modelled where a plan disturbs links: here one, after the job's end."""
    cut = Disturbance(start_s=900.0, end_s=901.0, target="worker:0", kind="pause", magnitude=1.0)
    schedule = Schedule(build_plan("later", 0, 1000.0, [cut])) if modelled else None
    run, tape = session(ring_of_three(), allreduce_job(samples=256), COSTS, DEVICES, actuator=schedule)
    finish(run, tape)
    assert (run.machines is None) is not modelled
    child = [event for event in tape.received("Arrived") if event["grad"]["worker"] == 3][2]
    timings = child["timings"]
    assert timings["recv_s"] == pytest.approx(HOP_S)
    assert timings["send_s"] == pytest.approx(HOP_S)
    assert timings["compute_s"] == 0.5
    others = [event["timings"]["send_s"] for event in tape.received("Arrived") if event["grad"]["worker"] < 3]
    assert set(others) == {0.0}
