"""Checks of topologies: servers hold the parameters (``ps``), or replicas sum their gradients (``allreduce``)."""

from __future__ import annotations

from typing import Any

from runtime.api import Runtime, divides_again
from runtime.config.checking import show
from runtime.config.parse import Config, Topology
from runtime.errors import ConfigError
from strategies.protocol import Strategy

PS, ALLREDUCE = "ps", "allreduce"
EXACT_BITS = 32
COLLECTIVES = "ring, gloo, nccl or ddp"


def check_topology(strategy: Strategy, backend: Any, config: Config) -> None:
    """Check servers and collective against topology, strategy and backend; raises :class:`ConfigError`."""
    topology, names = config.topology, config.names
    if topology.name == PS:
        _check_servers(topology)
        _check_shares(strategy, config)
    elif topology.name == ALLREDUCE:
        _check_replicas(topology)
    else:
        raise ConfigError(f"topology.name={topology.name}: must be one of {PS}, {ALLREDUCE}")
    if topology.name not in strategy.topologies:
        raise ConfigError(
            f"topology={topology.name}: strategy={names.strategy} does not work on it; choose "
            f"topology={' or topology='.join(sorted(strategy.topologies))}, or another strategy"
        )
    if topology.name not in backend.topologies:
        raise ConfigError(
            f"topology={topology.name}: backend={names.backend} does not work on it; choose "
            f"topology={' or topology='.join(sorted(backend.topologies))}, or another backend"
        )
    if topology.collective == "ddp" and backend.framework != "torch":
        raise ConfigError(
            f"topology.collective=ddp: is PyTorch's, and backend={names.backend} is not; use backend=torch, or "
            "topology.collective=ring"
        )
    if topology.collective == "nccl" and backend.framework != "torch":
        raise ConfigError(
            f"topology.collective=nccl: sums vectors of PyTorch, and backend={names.backend} has none; use "
            "backend=torch, or topology.collective=ring"
        )


def check_transfer(runtime: Runtime, strategy: Strategy, config: Config) -> None:
    """Check that numbers can be sent with so many bits; raises :class:`ConfigError`."""
    topology = config.topology
    if topology.transfer_bits == EXACT_BITS:
        return
    why = ""
    if not runtime.real_time:
        why = f"runtime={config.names.runtime} models transfers of {EXACT_BITS} bits; use runtime=live"
    elif topology.name != PS:
        why = f"topology={topology.name} has no servers; use topology={PS}"
    elif topology.transport != "tcp":
        why = f"topology.transport={topology.transport} sends nothing; use topology.transport=tcp"
    elif strategy.replicas:
        why = (
            f"strategy.num_replicas={strategy.replicas} bounds steps by norms of gradients that are not rounded; use "
            "strategy.num_replicas=0"
        )
    if why:
        raise ConfigError(
            f"topology.transfer_bits={topology.transfer_bits}: {why}, or topology.transfer_bits={EXACT_BITS}"
        )


def _check_servers(topology: Topology) -> None:
    if topology.num_servers < 1:
        raise ConfigError("topology.num_servers=0: topology=ps needs at least 1; topology=allreduce has none")
    if topology.collective is not None:
        raise ConfigError(
            f"topology.collective={topology.collective}: topology=ps has servers for that; choose "
            "topology=allreduce, or topology.collective=null"
        )


def _check_shares(strategy: Strategy, config: Config) -> None:
    """Shares are used wherever there are as many servers; without another number of these ever, they must fit."""
    topology = config.topology
    shares, servers = topology.server_shares, topology.num_servers
    if shares is not None and len(shares) != servers and not divides_again(strategy):
        raise ConfigError(
            f"topology.server_shares={show(list(shares))}: has {len(shares)} shares, and strategy="
            f"{config.names.strategy} keeps topology.num_servers={servers}; give every server one, or leave it out"
        )


def _check_replicas(topology: Topology) -> None:
    if topology.server_shares is not None:
        raise ConfigError(
            f"topology.server_shares={show(list(topology.server_shares))}: topology=allreduce has no servers; leave it "
            "out, or choose topology=ps"
        )
    if topology.num_servers:
        raise ConfigError(
            f"topology.num_servers={topology.num_servers}: topology=allreduce has no servers; use "
            "topology.num_servers=0, or topology=ps"
        )
    if topology.collective is None:
        raise ConfigError(f"topology.collective=null: topology=allreduce needs one; use {COLLECTIVES}")
    if topology.transport != "tcp":
        raise ConfigError(
            f"topology.transport={topology.transport}: replicas share no memory; use topology.transport=tcp"
        )
