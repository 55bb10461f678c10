"""Every worker's device and its limits: from the configuration, else from a profile (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, final

import msgspec

from strategies.antdt.micro_batches import DeviceLimits
from strategies.antdt.profiling import Curve
from strategies.parts.checks import check_number, check_whole
from strategies.parts.monitoring.base import cluster_by_ratio

MAX_TYPES = 4
"""Every combination of accumulations is tried: 5^4 with the paper's bounds."""

Measured = Mapping[int, Sequence[tuple[float, float]]]
"""(samples, seconds) of micro-batches, by worker."""


@final
class DeviceSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A type's known limits; None: to be measured, or (``max_batch_samples``) without a cap of its own."""

    samples_per_s: float | None = None
    min_batch_samples: int | None = None
    max_batch_samples: int | None = None


class Settings(Protocol):
    """The configured settings; :class:`strategies.antdt.antdt_dd.AntDTDD` explains the fields."""

    types: tuple[str, ...] | None
    devices: dict[str, DeviceSpec] | None
    type_ratio: float
    curve: str
    max_batch_samples: int | None


def is_complete(settings: Settings) -> bool:
    """Whether nothing is left to be measured."""
    return bool(settings.devices) and all(spec.samples_per_s for spec in (settings.devices or {}).values())


def type_of(types: Sequence[str], worker: int) -> str | None:
    """The device type that the settings give a worker; None: it joined later."""
    return types[worker] if worker < len(types) else None


def cap_of(settings: Settings, worker: int) -> int | None:
    """Most samples of a micro-batch of a worker; of one that joined later, what any type can hold; None: no cap."""
    specs = settings.devices or {}
    name = type_of(settings.types, worker) if settings.types else None
    own = [specs[name]] if name in specs else list(specs.values()) or [DeviceSpec()]
    caps = [spec.max_batch_samples or settings.max_batch_samples for spec in own]
    return min((cap for cap in caps if cap is not None), default=None)


def find_devices(
    settings: Settings, measured: Measured, workers: Sequence[int]
) -> tuple[list[DeviceLimits], list[int]]:
    """(devices, index of the device of each of ``workers``), with the measurements so far.

    Of a worker that joined after ``types`` were given nothing is known: it counts as one of the slowest type.
    """
    if settings.types is None:
        groups = _grouped(measured, workers, settings.type_ratio)
        names = [f"type {number}" for number in range(len(groups))]
    else:
        given = {worker: type_of(settings.types, worker) for worker in workers}
        names = sorted({name for name in given.values() if name is not None} or set(settings.types))
        groups = [[worker for worker in workers if given[worker] == name] for name in names]
    devices = [_device(settings, name, measured, group) for name, group in zip(names, groups, strict=True)]
    kinds = {worker: kind for kind, group in enumerate(groups) for worker in group}
    samples = max(device.low_samples for device in devices)
    slowest = max(range(len(devices)), key=lambda kind: devices[kind].seconds(samples))
    return devices, [kinds.get(worker, slowest) for worker in workers]


def _grouped(measured: Measured, workers: Sequence[int], ratio: float) -> list[list[int]]:
    """Workers grouped by about the same speed; one that was not measured counts as one of the slowest."""
    known = [worker for worker in workers if measured.get(worker)]
    unknown = [worker for worker in workers if not measured.get(worker)]
    speeds = [Curve(measured[worker]).samples_per_s for worker in known]
    groups = [[known[i] for i in group] for group in cluster_by_ratio(speeds, ratio, MAX_TYPES)]
    return [groups[0] + unknown, *groups[1:]] if groups else [unknown]


def _device(settings: Settings, name: str, measured: Measured, group: Sequence[int]) -> DeviceLimits:
    spec = (settings.devices or {}).get(name, DeviceSpec())
    pairs = [pair for worker in group for pair in measured.get(worker, ())]
    curve = Curve(pairs) if pairs and spec.samples_per_s is None else None
    high = spec.max_batch_samples if spec.max_batch_samples is not None else settings.max_batch_samples
    low = spec.min_batch_samples
    if low is None:
        low = 1 if curve is None else curve.saturation_samples
        low = low if high is None else min(low, high)
    if curve is not None and settings.curve == "measured":
        return DeviceLimits(name, curve.seconds, low, high)
    speed = spec.samples_per_s or (1.0 if curve is None else curve.samples_per_s)
    return DeviceLimits(name, lambda samples: samples / speed, low, high)


def check_types(types: object, devices: object) -> None:
    """Raise ``ValueError`` naming the field unless every worker's type is described as a device can be."""
    if types is not None and not (isinstance(types, list | tuple) and types and all(isinstance(t, str) for t in types)):
        raise ValueError(f"types={types}: must be a list with the device type of every worker")
    if devices is None:
        return
    if not isinstance(devices, dict) or not devices or not all(isinstance(d, DeviceSpec) for d in devices.values()):
        raise ValueError(f"devices={devices}: must give for each type its samples_per_s, min_ and max_batch_samples")
    if types is None:
        raise ValueError(f"devices={', '.join(devices)}: needs types, the type of every worker")
    for name in sorted({*types, *devices}):
        if name not in devices or name not in types:
            raise ValueError(f"types={list(types)}: and devices ({', '.join(devices)}) do not name the same types")
        check_spec(name, devices[name])
    if len(devices) > MAX_TYPES:
        raise ValueError(f"types={list(types)}: at most {MAX_TYPES} types can be solved for")


def check_spec(name: str, spec: DeviceSpec) -> None:
    """Raise ``ValueError`` naming the field of a type that is invalid."""
    try:
        if spec.samples_per_s is not None:
            check_number("samples_per_s", spec.samples_per_s, above=0)
        if spec.min_batch_samples is not None:
            check_whole("min_batch_samples", spec.min_batch_samples, 1)
        if spec.max_batch_samples is not None:
            check_whole("max_batch_samples", spec.max_batch_samples, spec.min_batch_samples or 1)
    except ValueError as error:
        raise ValueError(f"devices: {name}.{error}") from None
