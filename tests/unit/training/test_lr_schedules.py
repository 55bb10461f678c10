"""Learning-rate schedules, in units of samples."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from runtime.training.lr_schedules import Schedule, make_schedule


def factors(schedule: Schedule, *samples: int) -> list[float]:
    return [schedule.lr_at(at) for at in samples]


@pytest.mark.parametrize(
    ("name", "fields", "at", "expected"),
    [
        ("constant", {"gamma": None}, [0, 10**9], [1, 1]),
        ("step", {"milestones": [1000, 1500]}, [0, 999, 1000, 1499, 1500, 10**9], [1, 1, 0.1, 0.1, 0.01, 0.01]),
        # STAR: decays "at step 32k and 48k" count the gradients of 128 samples each
        ("step", {"milestones": [4_096_000, 6_144_000]}, [31_999 * 128, 32_000 * 128, 48_000 * 128], [1, 0.1, 0.01]),
        ("inverse_power", {"offset": 100}, [0, 300, 9900], [1, 0.5, 0.1]),  # C / sqrt(t)
    ],
)
def test_factors_by_hand(name: str, fields: dict[str, Any], at: list[int], expected: list[float]) -> None:
    assert factors(make_schedule(name, **fields), *at) == pytest.approx(expected)


def test_milestones_in_epochs() -> None:
    in_epochs = make_schedule("step", milestones=[2, 3.5], gamma=0.5, unit="epochs", epoch_samples=1437)
    in_samples = make_schedule("step", milestones=[2 * 1437, 3.5 * 1437], gamma=0.5)
    at = range(0, 6 * 1437, 7)
    assert factors(in_epochs, *at) == factors(in_samples, *at)
    assert set(factors(in_epochs, *at)) == {1.0, 0.5, 0.25}


def test_warmup_and_the_cosine_of_torch() -> None:
    schedule = make_schedule("warmup_cosine", warmup=100, total=500, start_frac=0.2, end_frac=0.1)
    assert factors(schedule, 0, 50, 100, 300, 500, 10**9) == pytest.approx([0.2, 0.6, 1.0, 0.55, 0.1, 0.1])
    rising, falling = (factors(schedule, *at) for at in (range(0, 101), range(100, 501)))
    assert all(first < second for first, second in pairwise(rising))
    assert all(first > second for first, second in pairwise(falling))
    assert difference_to_torch(make_schedule("warmup_cosine", total=50 * 32, end_frac=0.05)) < 1e-9
    assert difference_to_torch(make_schedule("warmup_cosine", total=51 * 32, end_frac=0.05)) > 1e-3


def difference_to_torch(schedule: Schedule) -> float:
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    peer = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50, eta_min=0.05)
    rates = []
    for _ in range(50):
        rates.append(peer.get_last_lr()[0])
        optimizer.step()
        peer.step()
    return float(np.abs(np.array(rates) - factors(schedule, *range(0, 50 * 32, 32))).max())


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("linear", {}, "name=linear: must be one of constant, step, warmup_cosine"),
        ("constant", {"gamma": 0.1}, "gamma: is no field of constant (it has none); null leaves it out"),
        ("step", {}, "milestones: must be set for step"),
        ("step", {"milestones": 5}, "milestones=5: must be a list"),
        ("step", {"milestones": [1], "unit": "updates"}, "unit=updates: must be one of samples, epochs"),
        ("step", {"milestones": [5, 5]}, "milestones=[5, 5]: must ascend"),
        ("step", {"milestones": [1], "gamma": 0}, "gamma=0: must be a number, more than 0"),
        ("step", {"milestones": [1], "unit": "epochs"}, "unit=epochs: the number of samples of an epoch is not known"),
        ("warmup_cosine", {"total": 5, "warmup": 5}, "warmup=5: must be less than total (5)"),
        ("warmup_cosine", {"total": 5, "end_frac": -1}, "end_frac=-1: must be a number, at least 0"),
    ],
)
def test_fields_are_checked(name: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make_schedule(name, **fields)
