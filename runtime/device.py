"""The device profile: how long an iteration takes on an emulated device."""

from __future__ import annotations

import msgspec


class DeviceProfile(msgspec.Struct, frozen=True, kw_only=True):
    """F(batch) = base_s + per_sample_s * batch, but at least saturation_s (a GPU is flat below its saturation)."""

    base_s: float = 0.0
    per_sample_s: float = 0.0
    saturation_s: float = 0.0

    def seconds(self, num_samples: int) -> float:
        """Computing time of a batch."""
        return max(self.saturation_s, self.base_s + self.per_sample_s * num_samples)


def parse_device(fields: dict[str, float] | None) -> DeviceProfile | None:
    """The profile that a cluster's ``device`` describes; raises ``ValueError`` naming what is wrong with it."""
    known = DeviceProfile.__struct_fields__
    for name, value in (fields or {}).items():
        if name not in known:
            raise ValueError(f"device: has no {name}; its fields are {', '.join(known)}")
        if not value >= 0:
            raise ValueError(f"device: {name}={value} must be 0 or more")
    return DeviceProfile(**fields) if fields else None
