"""A small task that represents a larger model: its gradients, and the other's times and sizes (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from runtime.cluster.device import DeviceProfile
from runtime.config.checking import convert
from runtime.virtual.costs import Costs

SETTING = "runtime.stand_in"


class StandIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``runtime.stand_in``: the size for which each sample and the parameter vector count in times.

    A worker that computes b samples takes as long as for ``samples`` * b, and messages, updates and checkpoints take as
    long as for a model of so many ``parameters``. The job still learns its own task.
    """

    samples: Annotated[float, Meta(gt=0)] = 1.0
    parameters: Annotated[int, Meta(ge=1)]

    def costs(self, costs: Costs) -> Costs:
        """The cost model, by sample of the task."""
        return msgspec.structs.replace(
            costs,
            compute_per_sample_s=costs.compute_per_sample_s * self.samples,
            data_per_sample_s=costs.data_per_sample_s * self.samples,
        )

    def device(self, profile: DeviceProfile | None) -> DeviceProfile | None:
        """A device's profile, by sample of the task."""
        return profile and msgspec.structs.replace(profile, per_sample_s=profile.per_sample_s * self.samples)

    def devices(self, profiles: Sequence[DeviceProfile | None]) -> tuple[DeviceProfile | None, ...]:
        """The profile of every worker."""
        return tuple(map(self.device, profiles))


def parse_stand_in(fields: dict[str, Any] | None) -> StandIn | None:
    """The setting; raises :class:`runtime.errors.ConfigError` for a wrong field."""
    return None if fields is None else convert(dict(fields), StandIn, SETTING)
