"""A gradient that is copied to the host in parts, while the rest of it is still computed.

The backward pass reaches the last parameters first. Hooks write each parameter's gradient to its place in the device's
vector as soon as it is known, and the last gradient of a part starts the part's copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, final

from runtime.backends.devices.staging import Staging

if TYPE_CHECKING:
    from torch import Tensor

FLOAT_BYTES = 4
BUCKET_BYTES = 8_000_000
"""About a third of a millisecond over PCIe 4: less is not worth the hooks."""


def buckets_of(sizes: Sequence[int], bucket_bytes: int) -> list[list[int]]:
    """Consecutive parameters, of these numbers of floats, in parts of at least that size, from the last one on.

    The remainder at the front is a part of its own. With a single part nothing can overlap.
    """
    found: list[list[int]] = [[]]
    left = bucket_bytes
    for number in reversed(range(len(sizes))):
        if left <= 0:
            found.append([])
            left = bucket_bytes
        found[-1].insert(0, number)
        left -= FLOAT_BYTES * sizes[number]
    return found


Write = Callable[["Tensor", "Tensor"], object]
"""Put a parameter's gradient (second) to its place (first)."""


@final
class Buckets:
    """``grads`` are the places of the ``parameters``' gradients in ``staging.grad``, one after another."""

    def __init__(self, staging: Staging, parameters: Sequence[Tensor], grads: Sequence[Tensor]) -> None:
        self.staging, self.grads = staging, grads
        self._write: Write | None = None
        sizes = [parameter.numel() for parameter in parameters]
        buckets = buckets_of(sizes, BUCKET_BYTES)
        self.several = len(buckets) > 1
        self._bucket = {number: index for index, bucket in enumerate(buckets) for number in bucket}
        self._counts = [len(bucket) for bucket in buckets]
        starts = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
        self._parts = [slice(starts[bucket[0]], starts[bucket[-1] + 1]) for bucket in buckets]
        self._missing: list[int] = []
        if self.several:
            each: Any  # its hooks have no types
            for number, each in enumerate(parameters):
                each.register_hook(partial(self._on_computed, number))

    @contextmanager
    def overlapping(self, write: Write) -> Iterator[None]:
        """A backward pass whose gradients are final: each is written when it is computed, and each part sent."""
        self._write, self._missing = write, list(self._counts)
        try:
            yield
        finally:
            self._write = None

    def _on_computed(self, number: int, gradient: Tensor) -> None:
        if self._write is None:
            return
        self._write(self.grads[number], gradient)
        bucket = self._bucket[number]
        self._missing[bucket] -= 1
        if not self._missing[bucket]:
            self.staging.send(self._parts[bucket])
