"""The paper's form of ADJUST_BS: when sizes become even again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from strategies.antdt.adjust_bs import AdjustBS


def test_sizes_return_at_the_second_decision_without_a_straggler() -> None:
    flagged: list[int] = [1]
    detector = SimpleNamespace(
        published=True,
        paces=lambda span: {},
        stragglers=lambda span, gone: flagged,
        monitor=SimpleNamespace(speeds_samples_per_s=lambda span: {0: 10.0, 1: 10.0}),
    )
    policy = AdjustBS()
    policy.meet(SimpleNamespace(one=lambda kind: detector))  # type: ignore[arg-type]
    policy.start(SimpleNamespace(batch_samples=(8, 8), workers=(0, 1)))  # type: ignore[arg-type]
    told: list[list[str]] = []
    for _ in range(3):
        tick: Any = SimpleNamespace(restarted=(), said=[], t=0.0)
        policy.decide(tick)
        told.append(tick.said)
        flagged.clear()
    assert told == [["ADJUST_BS: slow worker:1"], [], ["ADJUST_BS to even sizes"]]
