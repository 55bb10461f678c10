"""Device profiles: how long an iteration takes on an emulated device, and which worker has which profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from runtime.config.checking import convert
from runtime.errors import ConfigError

DEVICES = "cluster.devices"

NonNegative = Annotated[float, Meta(ge=0)]


class DeviceProfile(msgspec.Struct, frozen=True, kw_only=True):
    """F(batch) = base_s + per_sample_s * batch, but at least saturation_s (a GPU's time is flat below saturation)."""

    base_s: float = 0.0
    per_sample_s: float = 0.0
    saturation_s: float = 0.0

    def seconds(self, num_samples: int, accum: int = 1) -> float:
        """Computing time of a batch: the sum of F over its ``accum`` micro-batches of near-equal size."""
        if accum == 1:
            return self._pass_s(num_samples)
        share, larger = divmod(num_samples, accum)
        return larger * self._pass_s(share + 1) + (accum - larger) * self._pass_s(share)

    @property
    def ranks(self) -> int:
        """The number of ranks that share the parameters, each with an equal part and a link of its own."""
        return 1

    def _pass_s(self, num_samples: int) -> float:
        """One forward and backward pass."""
        return max(self.saturation_s, self.base_s + self.per_sample_s * num_samples)


Profiles = Sequence[DeviceProfile | None]
"""The profile of every worker; None: not paced, it runs as fast as its machine computes."""


def parse_device(fields: Mapping[str, float] | None, setting: str = "device") -> DeviceProfile | None:
    """The profile that a cluster's ``device`` describes; raises ``ValueError`` naming ``setting`` and the field."""
    known = DeviceProfile.__struct_fields__
    for name, value in (fields or {}).items():
        if name not in known:
            raise ValueError(f"{setting}: has no {name}; its fields are {', '.join(known)}")
        if not value >= 0:
            raise ValueError(f"{setting}: {name}={value} must be 0 or more")
    return DeviceProfile(**fields) if fields else None


class DeviceType(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of a cluster's ``devices``: the profile, and the workers that have such a device."""

    workers: list[int]
    base_s: NonNegative = 0.0
    per_sample_s: NonNegative = 0.0
    saturation_s: NonNegative = 0.0


class WorkerDevice(DeviceProfile, frozen=True, kw_only=True):
    """The device of one worker of a mixed cluster, as recorded in ``meta.json``."""

    type: str


def parse_devices(fields: Mapping[str, Any], num_workers: int) -> tuple[WorkerDevice, ...]:
    """The device of every worker, from a cluster's ``devices`` (by type); raises :class:`ConfigError`."""
    types: dict[str, DeviceType] = convert(dict(fields), dict[str, DeviceType], DEVICES)
    found: dict[int, WorkerDevice] = {}
    for name, one in types.items():
        for worker in one.workers:
            if not 0 <= worker < num_workers:
                raise ConfigError(
                    f"{DEVICES}.{name}.workers={one.workers}: there is no worker {worker}; they are 0 to "
                    f"{num_workers - 1} (cluster.num_workers={num_workers})"
                )
            if worker in found:
                raise ConfigError(
                    f"{DEVICES}.{name}.workers={one.workers}: worker {worker} has a {found[worker].type} already; "
                    "name it once"
                )
            numbers = {field: getattr(one, field) for field in DeviceProfile.__struct_fields__}
            found[worker] = WorkerDevice(type=name, **numbers)
    if missing := [worker for worker in range(num_workers) if worker not in found]:
        raise ConfigError(f"{DEVICES}: worker {missing[0]} has no device; name every worker under one of its types")
    return tuple(found[worker] for worker in range(num_workers))


def describe_devices(fields: Mapping[str, Any] | None, num_workers: int) -> list[dict[str, Any]] | None:
    """For ``meta.json``: type and parameters of every worker's device; None if all workers have the same."""
    return None if fields is None else msgspec.to_builtins(parse_devices(fields, num_workers))


def profiles_of(
    device: Mapping[str, float] | None,
    devices: Mapping[str, Any] | None,
    num_workers: int,
    *,
    on_hosts: bool = False,
) -> Profiles:
    """The device profile of each worker, from one ``device`` for all or from a mix of ``devices``.

    Raises ``ValueError`` (:class:`ConfigError` for the mix) naming what is wrong. ``on_hosts``: the cluster has
    emulated hosts, which have devices of their own.
    """
    profile = parse_device(device)
    if devices is None:
        return (profile,) * num_workers
    if on_hosts:
        raise ConfigError(f"{DEVICES}: here hosts have the devices; name them in cluster.hosts.overrides instead")
    if profile is not None:
        raise ConfigError(f"{DEVICES}: cluster.device is a profile for all workers; set cluster.device=null")
    return parse_devices(devices, num_workers)


def slowest_s(profiles: Profiles, batch_samples: int) -> float | None:
    """Seconds of the slowest worker's iteration when each computes ``batch_samples``; None without pacing."""
    times = [profile.seconds(batch_samples) for profile in profiles if profile is not None]
    return max(times) if times else None
