"""The fast path on random small jobs, in chunks of any size: the same rows, to the bit, as the full runtime."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import runtime.virtual.fast_path.rounds as rounds_module
import runtime.virtual.fast_path.waves as waves_module
from injectors.plan import Disturbance, build_plan
from runtime.cluster.device import DeviceProfile
from runtime.virtual.costs import Costs
from runtime.virtual.fast_path.chains import Chain
from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from tests.unit.virtual.test_regular import BATCH, both, job_of

STRATEGIES = (
    BSP(),
    BSP(data="even"),
    ASP(data="even"),
    ASP(data="dynamic"),
    SSP(bound=0),
    SSP(bound=1),
    SSP(bound=2, data="even"),
    SSP(bound=None),
)
SECONDS = st.sampled_from([0.0, 1e-4, 3e-4, 0.001, 0.0101, 0.03])
"""Few values, so that many things happen at the same time, and data come as late as parameters but for the rounding."""


@st.composite
def costs(draw: st.DrawFn) -> Costs:
    times = ("control_s", "latency_s", "update_base_s", "decision_s", "evaluation_s", "sleep_overshoot_s")
    update = draw(st.sampled_from([0.0, 1e-7]))
    jitter = {"jitter_sigma": 0.2, "jitter_rho": 0.3} if draw(st.booleans()) else {}
    known = {name: draw(SECONDS) for name in times}
    data_s = draw(st.one_of(SECONDS, st.just(known["latency_s"] + known["update_base_s"])))
    saves = {"checkpoint_base_s": draw(SECONDS)}
    return Costs(compute_base_s=0.02, data_base_s=data_s, update_per_byte_s=update, **known, **jitter, **saves)


@st.composite
def windows(draw: st.DrawFn) -> Disturbance:
    kind: Any = draw(st.sampled_from(["delay", "slowdown"]))
    start_s, length_s = draw(st.floats(0.0, 0.4)), draw(st.sampled_from([0.001, 0.05, 0.3]))
    target = draw(st.sampled_from(["worker:0", "worker:1", "server:0", "server:1"]))
    end_s = start_s + length_s
    return Disturbance(start_s=start_s, end_s=end_s, target=target, kind=kind, magnitude=draw(SECONDS) + 1e-3)


@given(
    workers=st.integers(2, 6),
    rounds=st.integers(1, 12),
    servers=st.integers(2, 3),
    strategy=st.sampled_from(STRATEGIES),
    costs=costs(),
    windows=st.lists(windows(), max_size=4),
    paced=st.booleans(),
    shm=st.booleans(),
    chunk=st.sampled_from([1, 3, 8, 1 << 14]),
    cut=st.sampled_from([1000.0, 0.2]),
)
def test_the_same_rows_of_any_small_job(
    workers: int,
    rounds: int,
    servers: int,
    strategy: Any,
    costs: Costs,
    windows: list[Disturbance],
    paced: bool,
    shm: bool,
    chunk: int,
    cut: float,
) -> None:
    job = job_of(
        num_workers=workers,
        num_servers=servers,
        num_samples=workers * BATCH * rounds,
        global_batch_samples=workers * BATCH,
        max_time_s=1000.0 if costs.decision_s else cut,  # the full runtime notices the limit when it has decided
        checkpoint_every_s=None,
    )
    about = {
        "plan": build_plan("test", 0, 1000.0, windows),
        "profile": DeviceProfile(base_s=0.03, per_sample_s=0.0) if paced else None,
        "transport": "shm" if shm else "tcp",
    }
    with TemporaryDirectory() as directory, ExitStack() as smaller:
        smaller.enter_context(patch.object(waves_module, "TICK_EVERY", chunk))
        smaller.enter_context(patch.object(rounds_module, "MANY_ROWS", chunk * workers))
        smaller.enter_context(patch.object(rounds_module, "FEW_ROUNDS", 1))
        both(Path(directory), job, strategy, costs, **about)


EVEN = Costs(latency_s=3e-4, update_base_s=0.0101, data_base_s=3e-4 + 0.0101, compute_base_s=0.02, jitter_sigma=0.2)
"""Data take as long as an update and its way: which comes last is a matter of rounding, again in each round."""
SCORED = Costs(decision_s=0.03, evaluation_s=0.03, compute_base_s=0.02)


@pytest.mark.parametrize("strategy", [BSP(), ASP(data="even")], ids=["bsp", "asp"])
@pytest.mark.parametrize(
    ("costs", "end_s"),
    [
        pytest.param(EVEN, 1000.0, id="data and parameters"),
        pytest.param(EVEN, 0.7, id="time is up"),
        pytest.param(SCORED, 1000.0, id="a late score"),
    ],
)
def test_the_same_rows_where_a_guess_ends(costs: Costs, end_s: float, strategy: Any, tmp_path: Path) -> None:
    """Without disturbances, so that many rounds are tried at once."""
    both(tmp_path, job_of(max_time_s=end_s), strategy, costs, plan=build_plan("test", 0, 1000.0, []), profile=None)


@pytest.mark.parametrize(("data_s", "valid"), [(0.0, 5), (0.0403, 5), (0.02, 5), (0.025, 0)])
def test_a_chain_knows_how_far_it_is_right(data_s: float, valid: int) -> None:
    """An update takes 0.02 s, but the one before the chain 0.03 s: data that take 0.025 s come last in each round but
    the first, which is not what it guesses."""
    chain = Chain(
        np.full((5, 2), 0.5),
        [(0.02, 0.0), (0.01, 0.0)],
        begun_s=(1.0, 1.03),
        data_s=data_s,
        transfer_s=0.0,
        control_s=0.0,
        decision_s=0.0,
    )
    assert chain.valid == valid
