"""Which GPU each task uses, and how tasks share one: ``cluster.gpus`` (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from runtime.config.checking import convert
from strategies.protocol import AGGREGATOR

SETTING = "cluster.gpus"


class Gpus(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of ``cluster.gpus``; ``conf/cluster/local.yaml`` explains them."""

    devices: Literal["auto"] | Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=1)] = "auto"
    share: Literal["time", "mps"] = "time"
    mps_percent: Annotated[list[Annotated[float, Meta(gt=0, le=100)]], Meta(min_length=1)] | None = None

    def in_turn(self, num_devices: int) -> tuple[int, ...]:
        """The devices that workers use in turn, of so many."""
        return tuple(range(num_devices)) if self.devices == "auto" else tuple(self.devices)


def parse_gpus(fields: Mapping[str, Any] | None) -> Gpus:
    """The section ``cluster.gpus``; raises ``ConfigError``."""
    found: Gpus = convert(dict(fields or {}), Gpus, SETTING)
    return found


def on_nodes(nodes: int, gpus_per_node: float) -> tuple[int, ...]:
    """The devices that workers use in turn where worker k is on node k modulo ``nodes``, each with so many GPUs.

    Numbers count the GPUs of a node, which its workers use in turn; a part of a GPU counts as one.
    """
    return tuple(number for number in range(math.ceil(gpus_per_node)) for _ in range(nodes))


def device_of(in_turn: Sequence[int], role: str, number: int) -> int | None:
    """The device of a task: workers take them in turn, auxiliary tasks the last one, others none."""
    if role in ("server", AGGREGATOR) or not in_turn:
        return None
    return in_turn[number % len(in_turn)] if role == "worker" else in_turn[-1]
