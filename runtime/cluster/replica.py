"""Workers that are replicas with pipeline stages and tensor ranks, as devices: the time of a batch is a step's."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace

from runtime.cluster.device import DeviceProfile, Profiles
from runtime.config.checking import convert
from runtime.errors import ConfigError
from runtime.hybrid.graph import Floats
from runtime.hybrid.step import Step

REPLICA = "cluster.replica"
MOST_PASSES = 200_000
"""Passes of a step: more would take a minute of every new size of a batch."""

MOST_RANKS = 100_000
"""Ranks of a worker."""

Count = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0)]


class SlowRank(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ranks that compute slower than the others throughout; None: all workers, or all tensor ranks of the stage."""

    stage: Annotated[int, Meta(ge=0)]
    factor: Positive
    """Factor by which their passes take longer."""
    worker: Annotated[int, Meta(ge=0)] | None = None
    tensor: Annotated[int, Meta(ge=0)] | None = None


class ReplicaSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The inside of every worker; ``conf/cluster/hybrid.yaml`` explains every field."""

    pipeline: Count
    tensor: Count
    layers: Count
    schedule: str
    micro_batches: Count
    chunks: Count
    sends: str
    parts: tuple[Positive, Positive, Positive]
    message_s: Annotated[float, Meta(ge=0)]
    slow: tuple[SlowRank, ...]


class DisturbedRank(NamedTuple):
    """A rank whose passes take longer by a fraction, and which then rests for a time."""

    stage: int
    tensor: int
    delay_s: float
    slowdown_frac: float


class Inside(NamedTuple):
    """The disturbances inside a replica at some time."""

    slowdown_frac: float = 0.0
    """Slow-down of all ranks."""
    ranks: tuple[DisturbedRank, ...] = ()
    """Ranks with further disturbances, which come on top of that."""
    links: tuple[tuple[int, int, float], ...] = ()
    """Two stages, and the seconds that are added to every message between them."""


class ReplicaProfile(DeviceProfile, frozen=True, kw_only=True):
    """A replica as a device: ranks share the work of a batch, which the other fields give for one rank that has all.

    Each of ``pipeline`` stages has the same part of the work, and each of ``tensor`` ranks the same part of a stage.
    """

    spec: ReplicaSpec
    """Its ``slow`` has this worker's ranks only, so that workers with equal ranks are equal."""

    @property
    def ranks(self) -> int:
        return self.spec.pipeline * self.spec.tensor

    @property
    def whole(self) -> DeviceProfile:
        """The device of one rank with the whole model."""
        return DeviceProfile(base_s=self.base_s, per_sample_s=self.per_sample_s, saturation_s=self.saturation_s)

    def seconds(self, num_samples: int, accum: int = 1) -> float:
        """Computing time of a batch: the longest path through the passes and messages of a step.

        ``accum`` multiplies the number of micro-batches, which have near-equal sizes.
        """
        micro_batches = accum * self.spec.micro_batches
        return self.whole.seconds(num_samples, micro_batches) * _stretch(self, num_samples, micro_batches)

    def added(self, num_samples: int, accum: int, inside: Inside) -> tuple[float, float]:
        """The delay of a batch by disturbances inside: seconds, and a fraction of its undisturbed time.

        Equal disturbances of all ranks delay it as the same disturbance delays a worker of one rank, to the bit; but a
        slow-down spares messages that take time.
        """
        return _added(self, num_samples, accum * self.spec.micro_batches, inside)

    @property
    def factor(self) -> Floats:
        """[stages, tensor ranks]: by which each rank's passes take longer."""
        factor = np.ones((self.spec.pipeline, self.spec.tensor))
        for one in self.spec.slow:
            factor[one.stage, slice(None) if one.tensor is None else one.tensor] *= one.factor
        return factor


@lru_cache(maxsize=4096)
def _stretch(profile: ReplicaProfile, num_samples: int, micro_batches: int) -> float:
    """A step's time relative to the same step of one rank that has all; exactly 1 for one rank."""
    alone = replace(profile, spec=replace(profile.spec, pipeline=1, tensor=1, slow=()))
    return _calm_s(profile, num_samples, micro_batches) / _calm_s(alone, num_samples, micro_batches)


@lru_cache(maxsize=4096)
def _calm_s(profile: ReplicaProfile, num_samples: int, micro_batches: int) -> float:
    """Seconds of an undisturbed step."""
    return _step_s(profile, num_samples, micro_batches)


@lru_cache(maxsize=4096)
def _added(profile: ReplicaProfile, num_samples: int, micro_batches: int, inside: Inside) -> tuple[float, float]:
    """See :meth:`ReplicaProfile.added`. The later an operation ends, the later does the step: nothing is negative."""
    spec, step_s = profile.spec, partial(_step_s, profile, num_samples, micro_batches)
    slower, rests_s = np.zeros((2, spec.pipeline, spec.tensor))
    slower += inside.slowdown_frac
    for one in inside.ranks:
        slower[one.stage, one.tensor] += one.slowdown_frac
        rests_s[one.stage, one.tensor] += one.delay_s
    link_s = np.zeros((spec.pipeline, 2))
    for stage, (way, step) in itertools.product(range(spec.pipeline), enumerate((1, -1))):
        ends = {stage, (stage + step) % spec.pipeline}
        link_s[stage, way] += sum(seconds for *between, seconds in inside.links if ends == {*between})
    frac = float(slower[0, 0])
    if (slower != frac).any() or (spec.message_s and spec.pipeline > 1):
        frac = step_s(slower) / _calm_s(profile, num_samples, micro_batches) - 1.0
    rest_s = rests_s.max(axis=1)
    delay_s = float(rest_s.min())
    if link_s.any() or (rest_s > delay_s).any():
        delay_s += step_s(slower, link_s, rest_s - delay_s) - step_s(slower)
    return delay_s, frac


def _step_s(
    profile: ReplicaProfile,
    num_samples: int,
    micro_batches: int,
    slower: Floats | float = 0.0,
    link_s: Floats | float = 0.0,
    rest_s: Floats | float = 0.0,
) -> float:
    """Seconds of a step.

    Args:
        profile: the replica.
        num_samples: of its batch.
        micro_batches: near-equal parts of the batch.
        slower: [stages, tensor ranks]: fractions by which passes take longer than they usually do.
        link_s: [stages, 2]: added to messages from each stage to the next one, and to the one before.
        rest_s: [stages]: for which a stage's ranks rest after their passes.
    """
    share, larger = divmod(num_samples, micro_batches)
    sizes = [share + 1] * larger + [share] * (micro_batches - larger)
    whole_s = np.array([profile.whole.seconds(size) for size in sizes])
    spec = profile.spec
    step = _step(replace(spec, tensor=1, slow=()), micro_batches)
    passes = [part * whole_s[None] / profile.ranks for part in np.array(spec.parts) / sum(spec.parts)]
    factor, message_s = profile.factor * (1.0 + slower), spec.message_s + link_s
    seconds = step.seconds(*passes, message_s=message_s, factor=factor, optimizer_s=rest_s)
    return float(step.graph.ends(seconds).max())


@lru_cache(maxsize=64)
def _step(spec: ReplicaSpec, micro_batches: int) -> Step:
    return Step(spec.pipeline, micro_batches, spec.schedule, spec.chunks, spec.sends, spec.parts)


def parse_replica(fields: Mapping[str, Any], num_workers: int) -> ReplicaSpec:
    """The section ``cluster.replica``; raises :class:`ConfigError` with the setting, its value and the cure."""
    spec: ReplicaSpec = convert(dict(fields), ReplicaSpec, REPLICA)
    parts = spec.pipeline * spec.chunks
    if spec.layers % parts:
        chunks = f" times {REPLICA}.chunks={spec.chunks}" if spec.chunks > 1 else ""
        raise ConfigError(
            f"{REPLICA}.layers={spec.layers}: {REPLICA}.pipeline={spec.pipeline}{chunks} does not divide it; use a "
            f"multiple of {parts}, such as {-(-spec.layers // parts) * parts}"
        )
    if (ranks := spec.pipeline * spec.tensor) > MOST_RANKS:
        raise ConfigError(
            f"{REPLICA}.tensor={spec.tensor}: a worker would have {ranks:,} ranks, more than {MOST_RANKS:,}; use fewer"
        )
    if (passes := 3 * parts * spec.micro_batches) > MOST_PASSES:
        raise ConfigError(
            f"{REPLICA}.micro_batches={spec.micro_batches}: a step would have {passes:,} passes, more than "
            f"{MOST_PASSES:,}; use fewer, or a shorter {REPLICA}.pipeline"
        )
    for place, one in enumerate(spec.slow):
        for name, value, number in (
            ("worker", one.worker, num_workers),
            ("stage", one.stage, spec.pipeline),
            ("tensor", one.tensor, spec.tensor),
        ):
            if value is not None and value >= number:
                raise ConfigError(f"{REPLICA}.slow[{place}].{name}={value}: must be from 0 to {number - 1}")
    try:
        _step(replace(spec, tensor=1, slow=()), spec.micro_batches)
    except ValueError as error:
        raise ConfigError(f"{REPLICA}.{error}") from None
    return spec


def as_replicas(profiles: Profiles, spec: ReplicaSpec) -> Profiles:
    """Each worker's device, which it must have, as a replica whose ranks share that device's work."""
    found = []
    for worker, profile in enumerate(profiles):
        assert profile is not None
        fields = {name: getattr(profile, name) for name in DeviceProfile.__struct_fields__}
        slow = tuple(replace(one, worker=None) for one in spec.slow if one.worker in (None, worker))
        found.append(ReplicaProfile(**fields, spec=replace(spec, slow=slow)))
    return tuple(found)
