"""Storms spare whom one death more would end the job: they know what the supervisor would decide."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtime.live.control.tasks import MAX_FUTILE
from tests.chaos.storms import is_at_its_last
from tests.unit.live.test_supervisor import delivers, started


def launched(role: str, number: int, incarnation: int) -> dict[str, Any]:
    return {"kind": "note", "note": {"type": "Launched", "role": role, "id": number, "incarnation": incarnation}}


def arrived(worker: int, incarnation: int) -> dict[str, Any]:
    return {"kind": "event", "event": {"type": "Arrived", "grad": {"worker": worker, "incarnation": incarnation}}}


@given(st.lists(st.booleans(), min_size=2 * MAX_FUTILE, max_size=4 * MAX_FUTILE))
def test_a_worker_is_at_its_last_when_its_next_death_ends_the_job(each_delivers: list[bool]) -> None:
    world, lines = started(), [launched("worker", 0, 0), launched("worker", 1, 0)]
    for incarnation, works in enumerate(each_delivers):
        lines.append(arrived(1, 0))  # of another worker
        if works:
            delivers(world, 0)
            lines.append(arrived(0, incarnation))
        last = is_at_its_last(lines, "worker", 0)
        world.die(("worker", 0))
        assert ("failed" in world.names()) == last
        if last:
            return
        world.connect(("worker", 0))
        world.attach(("worker", 0))
        lines.append(launched("worker", 0, incarnation + 1))


def test_a_server_is_at_its_last_while_nothing_arrives() -> None:
    lines = [launched("server", 1, number) for number in range(MAX_FUTILE)]
    assert not is_at_its_last(lines[:-1], "server", 1)
    assert is_at_its_last(lines, "server", 1)
    assert not is_at_its_last([*lines, arrived(0, 3)], "server", 1)
    assert not is_at_its_last(lines, "server", 0)
