"""Clusters as ``conf/cluster/*.yaml`` give them, without naming every field."""

from __future__ import annotations

from typing import Any

from runtime.config.parse import Cluster

BARE: dict[str, Any] = {
    "device": None,
    "devices": None,
    "hosts": None,
    "nominal_iter_s": None,
    "costs": "ideal",
    "worker_cores": None,
    "server_cores": None,
    "only_modelled": None,
    "cost_changes": None,
    "gpus": None,
    "replica": None,
}
"""Nothing paces the workers, and nothing but computing takes time."""


def cluster_of(num_workers: int, **fields: Any) -> Cluster:
    """``num_workers`` bare workers, and what ``fields`` say of them."""
    return Cluster(**{**BARE, "num_workers": num_workers, **fields})
