"""What fits a topology, beyond the command lines of ``test_preflight.py``."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.config.parse import Topology
from runtime.errors import ConfigError
from runtime.run import topologies
from runtime.run.topologies import check_topology
from strategies.asp import ASP
from strategies.bsp import BSP

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
    check_topology(ASP(), backend(), config("ps", num_servers=1, collective=None))


def test_a_backend_that_only_knows_servers_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"topology=allreduce: backend=jax does not work on it; choose topology=ps"):
        check_topology(BSP(), backend(frozenset({"ps"})), config())


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"topology\.name=star: must be one of ps, allreduce"):
        check_topology(BSP(), backend(), config("star"))


def test_nccl_needs_a_device_for_every_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topologies, "DEVICES", tmp_path)
    for name in ("nvidiactl", "nvidia0"):
        (tmp_path / name).touch()
    with pytest.raises(ConfigError, match=r"needs a CUDA device for each of 2 workers, and there are 1 here; use"):
        check_topology(BSP(), backend(), config(collective="nccl"))
    (tmp_path / "nvidia1").touch()
    check_topology(BSP(), backend(), config(collective="nccl"))
