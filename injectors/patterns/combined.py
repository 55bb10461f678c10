"""Several patterns at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

from injectors.patterns.base import Pattern
from injectors.patterns.fields import check_name
from injectors.plan import ClusterShape, Disturbance, Plan, build_plan


@final
@dataclass(frozen=True, kw_only=True)
class Combined(Pattern):
    """All disturbances of several patterns; overlapping windows compose as ``injectors.plan`` describes.

    Each part draws what it would draw alone, so a run with the combination meets the same transient stragglers as a run
    with that part only.

    Attributes:
        patterns: by a label that only serves to address it (``straggler.patterns.<label>.intensity=0.5``). Their names
            must differ, or they would draw the same.
        intensity: of all parts that have one, for parts that refer to it (``${straggler.intensity}``), so that one
            setting sweeps them; a part that does not follow it is refused. None: each part has its own.
        name: see :class:`Pattern`.
    """

    patterns: Mapping[str, Pattern]
    intensity: float | None = None
    name: str = "combined"

    def __post_init__(self) -> None:
        if not isinstance(self.patterns, Mapping) or not self.patterns:
            raise ValueError("patterns: must name at least one pattern")
        for label, pattern in self.patterns.items():
            if not isinstance(pattern, Pattern) or isinstance(pattern, Combined):
                raise ValueError(f"patterns: {label} is no pattern (or itself a combination; list its parts here)")
        names = Counter(pattern.name for pattern in self.patterns.values())
        for name, count in names.items():
            if count > 1:
                raise ValueError(f"patterns: {count} of them have name={name} and would draw alike; rename one")
        if self.intensity is not None:
            self._check_intensity()
        check_name(self.name)

    def _check_intensity(self) -> None:
        """Refuse an intensity that would have no effect."""
        own = {label: one.intensity for label, one in self.patterns.items() if hasattr(one, "intensity")}
        if not own:
            raise ValueError(f"intensity={self.intensity}: none of the patterns has one; make it null")
        for label, intensity in own.items():
            if intensity != self.intensity:
                raise ValueError(
                    f"intensity={self.intensity}: patterns.{label} has intensity={intensity}; set only one for all, "
                    "or make it null and set each"
                )

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """The union of the parts' plans."""
        return build_plan(self.name, seed, horizon_s, self._disturbances(cluster, horizon_s, seed))

    def _disturbances(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Iterator[Disturbance]:
        for label, pattern in self.patterns.items():
            try:
                part = pattern.plan(cluster, horizon_s, seed)
            except ValueError as error:
                raise ValueError(f"patterns.{label}{_within(pattern, str(error))}") from None
            yield from part.disturbances


def _within(part: Pattern, text: str) -> str:
    """Return a part's error, to be read after its name: about a field of it, or about the whole part."""
    named = re.match(r"(\w+)[\w.\[\]-]*[=:]", text)
    return f".{text}" if named and hasattr(part, named[1]) else f": {text}"
