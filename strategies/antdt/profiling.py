"""A device's time by number of samples: which sizes to measure in a running job, and the curve from them (pure)."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median
from typing import Annotated, final

import msgspec

from reading.ranges import NonNegativeInt, Number, OneOf, PositiveInt, Whole, check_number, check_whole
from strategies.antdt.micro_batches import DeviceLimits
from strategies.parts.monitoring.base import cluster_by_ratio
from strategies.protocol import split_evenly

MAX_ITERS = 10_000
"""Most iterations that are ignored, or that measure one size: the rounds of a profile are written down before it."""
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


@dataclass(kw_only=True)
class AccumulationSettings:
    """How workers are measured, and which plans are possible.

    Attributes:
        accum_min: least micro-batches of a worker (the paper: usually 1).
        accum_max: most micro-batches of a worker (for example 5).
        types: device type of every worker, by rank; later ones count as the slowest. None: workers whose profiled
            speeds differ by a factor of at most ``type_ratio`` are of one type.
        type_ratio: see ``types``; above 1.
        devices: the known data of each type; no profile is run when every type's speed is given.
        max_batch_samples: largest micro-batch of a type without one in ``devices`` (memory); None: no cap.
        profile_sizes: batch sizes to measure; None: a quarter, half and all of the even share.
        profile_iters: iterations of each of these sizes.
        check_iters: after so many iterations with the plan, a worker whose median time differs from its profile by a
            factor of ``type_ratio`` triggers another profile, twice as long; 0: never, as in the paper.
        curve: ``measured`` times with straight lines between the sizes, or ``linear``: F(b) = b / v, as in the paper.
        warmup_iters: first iterations of a process that are ignored.
    """

    accum_min: PositiveInt = 1
    accum_max: int = 5
    types: tuple[str, ...] | None = None
    type_ratio: Annotated[float, Number(above=1.0)] = 1.2
    devices: dict[str, DeviceSpec] | None = None
    max_batch_samples: PositiveInt | None = None
    profile_sizes: tuple[int, ...] | None = None
    profile_iters: Annotated[int, Whole(1, MAX_ITERS)] = 5
    check_iters: NonNegativeInt = 100
    curve: Annotated[str, OneOf("measured", "linear")] = "measured"
    warmup_iters: Annotated[int, Whole(most=MAX_ITERS)] = 3


def is_complete(settings: AccumulationSettings) -> bool:
    """Whether nothing is left to be measured."""
    return bool(settings.devices) and all(spec.samples_per_s for spec in (settings.devices or {}).values())


def type_of(types: Sequence[str], worker: int) -> str | None:
    """The device type that the settings give a worker; None: it joined later."""
    return types[worker] if worker < len(types) else None


def cap_of(settings: AccumulationSettings, worker: int) -> int | None:
    """Most samples of a micro-batch of a worker; of one that joined later, what any type can hold; None: no cap."""
    specs = settings.devices or {}
    name = type_of(settings.types, worker) if settings.types else None
    own = [specs[name]] if name in specs else list(specs.values()) or [DeviceSpec()]
    caps = [spec.max_batch_samples or settings.max_batch_samples for spec in own]
    return min((cap for cap in caps if cap is not None), default=None)


def find_devices(
    settings: AccumulationSettings, measured: Measured, workers: Sequence[int]
) -> tuple[list[DeviceLimits], list[int]]:
    """(devices, index of the device of each of ``workers``), with the measurements so far.

    Of a worker that joined after ``types`` were given nothing is known: it counts as one of the slowest type.
    """
    if settings.types is None:
        groups = _group_by_speed(measured, workers, settings.type_ratio)
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


def _group_by_speed(measured: Measured, workers: Sequence[int], ratio: float) -> list[list[int]]:
    """Workers grouped by about the same speed; one that was not measured counts as one of the slowest."""
    known = [worker for worker in workers if measured.get(worker)]
    unknown = [worker for worker in workers if not measured.get(worker)]
    speeds = [Curve(measured[worker]).samples_per_s for worker in known]
    groups = [[known[i] for i in group] for group in cluster_by_ratio(speeds, ratio, MAX_TYPES)]
    return [groups[0] + unknown, *groups[1:]] if groups else [unknown]


def _device(settings: AccumulationSettings, name: str, measured: Measured, group: Sequence[int]) -> DeviceLimits:
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


SATURATED_FRAC = 0.1
"""A size whose time is at most this factor of the smallest size's does not saturate the device."""

Sizes = dict[int, int]


def sizes_around(total: int, num_workers: int) -> list[int]:
    """A quarter, half and all of the even share; meanwhile the other workers compute up to seven quarters of it.

    Half of the workers can try each of these at once, and the longest round takes less than twice as long as usual.
    """
    share = total // num_workers
    return sorted({max(1, share // parts) for parts in (4, 2, 1)})


def profile_rounds(
    total: int, workers: Sequence[int], sizes: Iterable[int], iters: int, warmup_iters: int
) -> list[Sizes]:
    """Batch sizes of rounds in which every worker computes every size ``iters`` times, where that is possible.

    Each round's sizes sum to ``total``, as in any other: while one group of workers tries a size, the others share the
    rest. A size is omitted if not even one worker can have it while each of the others keeps a sample. Every size comes
    once before any is repeated, so that a short disturbance of a worker spoils only a few of its times.
    ``warmup_iters`` rounds of even sizes precede.
    """
    even = dict(zip(workers, split_evenly(total, len(workers)), strict=True))
    rounds: list[Sizes] = []
    for size in sorted(set(sizes)):
        group = _group_size(total, len(workers), size)
        for first in range(0, len(workers), group) if group else ():
            trying = {workers[(first + place) % len(workers)]: size for place in range(group)}
            others = [worker for worker in workers if worker not in trying]
            rest = dict(zip(others, split_evenly(total - group * size, len(others)), strict=True))
            rounds.append({**trying, **rest})
    return [even] * warmup_iters + rounds * iters


def _group_size(total: int, num_workers: int, size: int) -> int:
    """The most workers, at most half of them, that can try ``size`` together; 0 when none can."""
    for group in range(num_workers // 2, 0, -1):
        if total - group * size >= num_workers - group:
            return group
    return 0


@final
class Curve:
    """F(b): seconds of one micro-batch of b samples, non-decreasing, from measured (samples, seconds).

    The median of every size, raised to the largest median of smaller sizes; straight lines between sizes,
    constant below the smallest, and in proportion above the largest.
    """

    def __init__(self, measured: Iterable[tuple[float, float]]) -> None:
        by_size: dict[float, list[float]] = defaultdict(list)
        for samples, seconds in measured:
            by_size[samples].append(seconds)
        self.sizes = sorted(by_size)
        if not self.sizes:
            raise ValueError("no curve without a measurement")
        self.times_s = list(accumulate((median(by_size[size]) for size in self.sizes), max))

    def seconds(self, samples: float) -> float:
        if samples <= self.sizes[0]:
            return self.times_s[0]
        if samples >= self.sizes[-1]:
            return self.times_s[-1] * samples / self.sizes[-1]
        right = bisect_left(self.sizes, samples)
        (low, high), (early_s, late_s) = self.sizes[right - 1 : right + 1], self.times_s[right - 1 : right + 1]
        return early_s + (late_s - early_s) * (samples - low) / (high - low)

    @property
    def saturation_samples(self) -> int:
        """The largest measured size that takes at most 1.1 times as long as the smallest."""
        limit_s = self.times_s[0] * (1 + SATURATED_FRAC)
        return max(
            1, int(max(size for size, time_s in zip(self.sizes, self.times_s, strict=True) if time_s <= limit_s))
        )

    @property
    def samples_per_s(self) -> float:
        """The v of F(b) = b / v: median throughput of the sizes from the saturation point on."""
        least = self.saturation_samples
        pairs = zip(self.sizes, self.times_s, strict=True)
        return median(size / time_s for size, time_s in pairs if size >= least)


def check_sizes(name: str, sizes: object) -> None:
    """Raise ``ValueError`` unless ``sizes`` is a list of batch sizes."""
    if not isinstance(sizes, list | tuple) or not sizes:
        raise ValueError(f"{name}={sizes}: must be a list of batch sizes")
    for size in sizes:
        check_whole(name, size, 1)


@final
class Drifts:
    """Ratios of every worker's last ``num_iters`` times to its own curve; 0 iterations: no worker is checked.

    A disturbance may have slowed a worker during a profile of some seconds. A median over many iterations ignores
    whatever slows fewer than half of them.
    """

    def __init__(self, num_iters: int, ratio: float) -> None:
        self.num_iters, self.ratio = num_iters, ratio
        self._curves: dict[int, Curve] = {}
        self._seen: dict[int, list[float]] = {}

    def begin(self, measured: Mapping[int, Sequence[tuple[float, float]]]) -> None:
        """Compare with these profiles from now on; ``measured`` are (samples, seconds) of micro-batches by worker."""
        known = measured if self.num_iters else {}
        self._curves = {worker: Curve(pairs) for worker, pairs in known.items() if pairs}
        self._seen = {worker: [] for worker in self._curves}

    def tell(self, worker: int, samples: float, seconds: float) -> None:
        """Record the time of a micro-batch."""
        if worker in self._curves:
            self._seen[worker].append(seconds / self._curves[worker].seconds(samples))

    def has_drifted(self) -> bool:
        """Whether some worker's speed differs from its profile; call it before every round."""
        full = [seen for seen in self._seen.values() if len(seen) >= self.num_iters]
        factors = [median(seen) for seen in full]
        for seen in full:
            seen.clear()
        return any(not 1 / self.ratio <= factor <= self.ratio for factor in factors)
