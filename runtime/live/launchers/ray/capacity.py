"""Whether a Ray cluster can ever satisfy a request (pure); a request for more than it has waits forever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from runtime.live.launchers.ray.requests import Request

NAMED = 4
"""Nodes that a message names."""
SPREAD = "STRICT_SPREAD"
GRAINS = 10_000
"""Into which Ray divides a CPU or a GPU."""


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """The capacity of a node of the cluster, in use or not."""

    address: str
    cpus: float = 0.0
    gpus: float = 0.0
    labels: Mapping[str, str] = {}

    @property
    def words(self) -> str:
        """Return its name in messages: ``10.0.0.1 (2 CPUs, 1 GPUs)``."""
        return f"{self.address} ({self.cpus:g} CPUs, {self.gpus:g} GPUs)"


def shortage(request: Request, nodes: Sequence[Capacity]) -> str:
    """Why the cluster cannot give it, in one line that names the setting; empty if it can."""
    if _fit(request, nodes) >= request.nodes:
        return ""
    each = f"{request.cpus_per_node:g} CPUs, {request.gpus_per_node:g} GPUs"
    each += "".join(f", {name}={value}" for name, value in request.labels.items())
    known = ", ".join(node.words for node in nodes[:NAMED]) + (", ..." if len(nodes) > NAMED else "")
    return (
        f"{_culprit(request, nodes)}: launcher.placement={request.placement} needs {request.nodes} times {each}, and "
        f"the Ray cluster has {len(nodes)} nodes: {known}; ask for less, or start more nodes"
    )


def _fit(request: Request, nodes: Sequence[Capacity]) -> int:
    """How many agents the nodes can have; of ``STRICT_SPREAD`` one each."""
    found = 0
    for node in nodes:
        if any(node.labels.get(name) != value for name, value in request.labels.items()):
            continue
        there = min(
            _times(node.cpus, request.cpus_per_node) if request.cpus_per_node else request.nodes,
            _times_of_gpus(node.gpus, request.gpus_per_node) if request.gpus_per_node else request.nodes,
        )
        found += min(there, 1) if request.placement == SPREAD else there
    return found


def _times(has: float, wants: float) -> int:
    """How often an amount fits into the available one, counted as Ray does (1.0 // 0.2 is 4)."""
    return round(has * GRAINS) // max(1, round(wants * GRAINS))


def _times_of_gpus(has: float, wants: float) -> int:
    """Parts are of one GPU each: two of 0.6 need two."""
    return int(has) * _times(1.0, wants) if wants < 1 else _times(has, wants)


def _culprit(request: Request, nodes: Sequence[Capacity]) -> str:
    """The setting without which it would fit, with its value."""
    without: dict[str, dict[str, Any]] = {
        f"launcher.gpus_per_node={request.gpus_per_node:g}": {"gpus_per_node": 0.0},
        f"launcher.labels={{{', '.join(f'{name}: {value}' for name, value in request.labels.items())}}}": {
            "labels": {}
        },
        f"launcher.cpus_per_node={request.cpus_per_node:g}": {"cpus_per_node": 0.0},
    }
    for setting, change in without.items():
        if _fit(msgspec.structs.replace(request, **change), nodes) >= request.nodes:
            return setting
    return f"launcher.nodes={request.nodes}"
