"""What fits a topology, beyond the command lines of ``test_preflight.py``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runtime.config.parse import Topology
from runtime.errors import ConfigError
from runtime.run.checks.topologies import check_topology
from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP

BOTH = frozenset({"ps", "allreduce"})


def config(name: str = "allreduce", **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "num_servers": 0,
        "transport": "tcp",
        "transfer_bits": 32,
        "collective": "ring",
        "server_shares": None,
        **changes,
    }
    names = SimpleNamespace(strategy="mine", backend="jax")
    return SimpleNamespace(topology=Topology(name=name, **fields), names=names, num_workers=2)


def backend(where: frozenset[str] = BOTH, framework: str = "torch") -> Any:
    return SimpleNamespace(topologies=where, framework=framework)


@pytest.mark.parametrize("collective", ["ring", "gloo", "ddp"])
def test_what_fits_is_let_through(collective: str) -> None:
    check_topology(BSP(), backend(), config(collective=collective))
    check_topology(ASP(data="even"), backend(), config("ps", num_servers=1, collective=None))


def test_a_backend_that_only_knows_servers_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"topology=allreduce: backend=jax does not work on it; choose topology=ps"):
        check_topology(BSP(), backend(frozenset({"ps"})), config())


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"topology\.name=star: must be one of ps, allreduce"):
        check_topology(BSP(), backend(), config("star"))


def test_nccl_sums_vectors_of_pytorch_only() -> None:
    with pytest.raises(ConfigError, match=r"sums vectors of PyTorch, and backend=jax has none; use backend=torch"):
        check_topology(BSP(), backend(framework="jax"), config(collective="nccl"))
    check_topology(BSP(), backend(), config(collective="nccl"))
