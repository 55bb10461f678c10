"""What fits a topology, beyond the command lines of ``test_preflight.py``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runtime.config.parse import Topology
from runtime.config.rules import check_combinations
from runtime.errors import ConfigError
from runtime.run.checks.facts import Facts
from runtime.run.checks.topologies import TOPOLOGIES
from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP


def check(strategy: Any, backend: Any, config: Any) -> None:
    fake: Any = SimpleNamespace(real_time=True)
    job = Facts(config=config, strategy=strategy, task=None, backend=backend, runtime=fake, scheduler=fake)
    check_combinations(TOPOLOGIES, job)


def config(name: Any = "allreduce", **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "num_servers": 0,
        "transport": "tcp",
        "transfer_bits": 32,
        "collective": "ring",
        "server_shares": None,
        **changes,
    }
    names = SimpleNamespace(strategy="mine", backend="jax")
    topology = Topology(name=name, **fields)
    return SimpleNamespace(topology=topology, names=names, num_workers=2, cluster=SimpleNamespace(replica=None))


def backend(framework: str = "torch") -> Any:
    return SimpleNamespace(framework=framework)


@pytest.mark.parametrize("collective", ["ring", "gloo", "ddp"])
def test_what_fits_is_let_through(collective: str) -> None:
    check(BSP(), backend(), config(collective=collective))
    check(ASP(data="even"), backend(), config("ps", num_servers=1, collective=None))


def test_nccl_sums_vectors_of_pytorch_only() -> None:
    with pytest.raises(ConfigError, match=r"sums vectors of PyTorch, and backend=jax has none; use backend=torch"):
        check(BSP(), backend("jax"), config(collective="nccl"))
    check(BSP(), backend(), config(collective="nccl"))
