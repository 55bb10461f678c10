"""Ours next to its peers: transfers, all-reduce, whole iterations, TensorFlow, and the start with a large model."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from . import goals
from .goals import Faster
from .launch import call
from .probe import Probe
from .report import Report
from .rounds import Measure, bracketed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

RAY_PYTHON = os.environ.get("STRAGGLAB_RAY_PYTHON", sys.executable)
WORKERS = 4
PUSH_PULL = {
    "bare sockets": partial(call, "peers.bare_sockets", "push_pull"),
    "gloo": partial(call, "peers.gloo_sendrecv", "push_pull"),
    "torch rpc": partial(call, "peers.torch_rpc", "push_pull"),
    "ours tcp": partial(call, "ours", "push_pull", transport="tcp"),
    "ours shm": partial(call, "ours", "push_pull", transport="shm"),
}
APART = {
    "bare sockets": partial(call, "peers.apart", "push_pull"),
    "ours": partial(call, "ours", "push_pull_apart"),
    "ours, TLS": partial(call, "ours", "push_pull_apart", tls=True),
}
ALL_REDUCE = {
    "gloo": partial(call, "peers.gloo_allreduce", "all_reduce"),
    "our ring": partial(call, "rings", "all_reduce"),
}
BARE = {
    "pure compute": partial(call, "peers.pure_compute", "bsp_step"),
    "ddp gloo": partial(call, "peers.ddp_gloo", "bsp_step"),
}
RING_STEP = BARE | {
    "our ring": partial(call, "ours", "bsp_step", transport="tcp", num_servers=0, collective="ring"),
    "our ddp": partial(call, "ours", "bsp_step", transport="tcp", num_servers=0, collective="ddp"),
}
""""our ddp" is the same DistributedDataParallel, ordered by our coordinator: the difference is what ordering costs."""
STEP = BARE | {
    "ray ps": partial(call, "peers.ray_ps", "bsp_step", python=RAY_PYTHON, timeout_s=240.0, tidy=False),
    "ours tcp": partial(call, "ours", "bsp_step", transport="tcp", num_servers=1),
    "ours tcp, 16 bits": partial(call, "ours", "bsp_step", transport="tcp", num_servers=1, transfer_bits=16),
    "ours shm": partial(call, "ours", "bsp_step", transport="shm", num_servers=1),
}
TENSORFLOW = {
    "tf parameter server": partial(call, "peers.tf_parameter_server", "asp_step", timeout_s=240.0),
    "ours asp": partial(call, "ours", "tensorflow_step", strategy="asp", timeout_s=240.0),
    "ours bsp": partial(call, "ours", "tensorflow_step", strategy="bsp", timeout_s=240.0),
}
BIG_MODEL = {
    "servers": {"parts of the whole": "parts_of_the_whole", "parts in place": "parts_in_place"},
    "a worker's module": {"filled module": "filled_module", "unfilled module": "unfilled_module"},
}

Compared = tuple[str, dict[str, Measure], Sequence[Faster]]
"""A title, peers with what they do, and what must hold."""


def given(peers: dict[str, partial[float]], **arguments: object) -> dict[str, Measure]:
    return {name: partial(run, **arguments) for name, run in peers.items()}


def comparisons() -> Iterator[Compared]:
    """All of them; iterations such that a peer measures for some seconds in a round."""
    for nbytes, iterations in {1_000_000: 400, 10_000_000: 80, 100_000_000: 12}.items():
        wanted = goals.TRANSPORT_GOALS + (goals.TRANSPORT_GOALS_1MB if nbytes == 1_000_000 else [])
        peers = given(PUSH_PULL, nbytes=nbytes, iterations=iterations)
        yield f"push+pull of {nbytes // 1_000_000} MB", peers, wanted
    apart = given(APART, nbytes=1_000_000, iterations=400)
    yield "push+pull between two namespaces", apart, goals.MACHINES_GOALS
    for (ranks, nbytes), wanted in goals.ALLREDUCE_GOALS.items():
        iterations = {1_000_000: 800, 10_000_000: 160}[nbytes] // ranks
        peers = given(ALL_REDUCE, num_ranks=ranks, nbytes=nbytes, iterations=iterations)
        yield f"all-reduce of {nbytes // 1_000_000} MB, {ranks} ranks", peers, wanted
    for model, iterations in {"mlp 1 MB": 300, "mlp 10 MB": 60}.items():
        peers = given(RING_STEP, model=model, num_workers=WORKERS, iterations=iterations)
        yield f"BSP iteration by all-reduce, {model}", peers, goals.ALLREDUCE_STEP_GOALS
    for model, iterations in {"mlp": 150, "resnet20": 15}.items():
        peers = given(STEP, model=model, num_workers=WORKERS, iterations=iterations)
        yield f"BSP iteration, {model}", peers, goals.STEP_GOALS[model]
    peers = given(TENSORFLOW, model="mlp", num_workers=WORKERS, iterations=150)
    yield "4 gradients with TensorFlow, mlp", peers, goals.TENSORFLOW_GOALS
    for who, functions in BIG_MODEL.items():
        peers = {name: partial(call, "big_models", function) for name, function in functions.items()}
        yield f"start with ResNet-101, {who}", peers, [goals.BIG_MODEL_GOALS[who]]


@pytest.mark.parametrize("compared", list(comparisons()), ids=lambda compared: compared[0])
def test_ours_is_as_fast_as_it_should_be(compared: Compared, probe: Probe, rounds: int, report: Report) -> None:
    title, peers, wanted = compared
    comparison = bracketed(title, peers, probe, rounds)
    report.judge(title, [goal.judge(comparison) for goal in wanted], comparison)
