"""What the coordinator refuses, in words that help, and what it writes down."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.core import inputs
from strategies.basic.bsp import BSP
from strategies.protocol import Apply, Drop, ProtocolError, Woke
from tests.support.answers import Line
from tests.support.harness import Puppet, Rig, apply, compute, puppet_rig

# ---- what is refused ------------------------------------------------------------------------------------------------


def refusal(rig: Rig, *commands: Any) -> str:
    """What is said about commands that are unlawful."""
    with pytest.raises(ProtocolError) as caught:
        rig.say(*commands)
    assert rig.lines[-1].commands == commands, "what was refused is in the record"
    return str(caught.value)


def test_a_compute_for_a_busy_worker_is_refused_with_its_last_events() -> None:
    rig = puppet_rig(num_samples=100)
    rig.say(*compute(1))
    rig.arrive(1)
    rig.say(*compute(1))
    message = refusal(rig, *compute(1))
    assert "worker 1" in message
    assert f"{rig.events[2]}" in message.partition("its last events:")[2]


def test_a_compute_for_a_departed_worker_is_refused_with_its_last_events() -> None:
    rig = puppet_rig()
    rig.lose(1, restarting=False)
    message = refusal(rig, *compute(1))
    assert "worker 1" in message
    assert f"{rig.events[1]}" in message.partition("its last events:")[2]


def test_a_compute_for_a_stranger_is_refused() -> None:
    assert "worker 9" in refusal(puppet_rig(), *compute(9))


def test_a_compute_of_nothing_is_refused() -> None:
    assert "at least one sample" in refusal(puppet_rig(), *compute(0, num_samples=0))


@pytest.mark.parametrize(
    "again", [apply(0), Drop(grads=(0,)), apply(0, 0), apply(5), apply(1), Apply(grads=(), weights=())]
)
def test_a_gradient_that_is_not_there_is_refused(again: Any) -> None:
    """Used before, twice at once, unknown, not arrived yet; and an update of nothing."""
    rig = puppet_rig()
    rig.say(*compute(0, 1))
    rig.arrive(0)
    rig.say(apply(0))
    assert type(again).__name__ in refusal(rig, again)


@pytest.mark.parametrize("weights", [(), (1.0, 1.0)])
def test_a_wrong_number_of_weights_is_refused(weights: tuple[float, ...]) -> None:
    rig = puppet_rig()
    rig.say(*compute(0))
    rig.arrive(0)
    assert f"1 gradients but {len(weights)} weights" in refusal(rig, Apply(grads=(0,), weights=weights))


def test_a_gradient_used_twice_is_refused_with_its_workers_last_events() -> None:
    rig = puppet_rig()
    rig.say(*compute(0))
    rig.arrive(0)
    rig.say(apply(0))
    assert f"{rig.events[2]}" in refusal(rig, apply(0)).partition("its last events:")[2]


# ---- the record -----------------------------------------------------------------------------------------------------


def test_the_state_is_recorded_where_it_changed() -> None:
    rig = Rig(BSP()).start()
    rig.arrive(0)
    rig.core.receive(9.0, inputs.TimerFired("strategy:nothing"))
    assert [line.state for line in rig.lines] == [{"arrived": 0}, {"arrived": 1}, None]
    assert [line.version for line in rig.lines] == [0, 0, 0]


def test_what_a_decision_cost_is_measured() -> None:
    ticks = iter([1.0, 1.5])
    costs: list[float] = []
    rig = Rig(Puppet(), stopwatch=lambda: next(ticks))
    rig.event = lambda t, event, commands, version, decide_us, state: costs.append(decide_us)  # type: ignore[method-assign]
    rig.start()
    assert costs == [500_000.0]


def test_the_event_that_a_strategy_falls_over_is_recorded() -> None:
    """Even when it can no longer say what state it is in."""

    class Clumsy(Puppet):
        def handle(self, event: Any) -> Any:
            if isinstance(event, Woke):
                self.log_state = lambda: 1 / 0  # type: ignore[assignment, return-value]
                raise KeyError(event.tag)
            return super().handle(event)

    rig = Rig(Clumsy()).start()
    with pytest.raises(KeyError, match="banana"):
        rig.core.receive(3.0, inputs.TimerFired("strategy:banana"))
    assert rig.lines[-1] == Line(event=Woke(t=3.0, tag="banana"), commands=(), version=0, state=None)
