"""A gradient whose kernels are launched at once: recorded once for a form of batch (a CUDA graph), then replayed.

The step of a small model is some hundred kernels of microseconds, and the host takes longer to launch them one by one
than the device to run them; while several processes share a device, each also loses the rest of its turn whenever it
has nothing in the queue. A replay is one launch, of the same kernels on the same memory, so of the same bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, final

from runtime.backends.base import MicroBatch
from runtime.backends.devices.device import Device

if TYPE_CHECKING:
    from torch import Tensor

FORMS = 8
"""Forms that are recorded at most: each keeps the activations of a step in the device's memory for good."""
OFTEN = 3
"""A form is recorded when it comes for this time: it costs as much as some ten gradients. The first is at once, with
all else that a first iteration must wait for."""

Batch = tuple["Tensor", "Tensor"]
Passes = Callable[[Batch, Sequence[MicroBatch]], "list[Tensor]"]
"""Launches the kernels of a gradient, and returns the losses of its micro-batches, which are scalars of the device."""
Form = tuple[object, ...]


class Graph(NamedTuple):
    """One form: its kernels read the memory ``batch``, and write ``losses`` besides the gradient."""

    batch: Batch
    replay: Callable[[], None]
    losses: list[Tensor]


@final
class Graphs:
    """``state``: other tensors that kernels change besides gradient and losses (batch-normalisation statistics)."""

    def __init__(self, device: Device, passes: Passes, state: Sequence[Tensor]) -> None:
        self.device, self.state = device, state
        self._passes = passes
        self._seen = Counter[Form]()
        self.recorded: dict[Form, Graph] = {}

    def launch(self, batch: Batch, micro: Sequence[MicroBatch]) -> list[Tensor] | None:
        """Launch a gradient by its graph; None: it has none, and nothing was launched.

        The next launch overwrites the losses.
        """
        if any(one.pieces or one.coefficient != 1.0 for one in micro):
            return None  # a graph would have this batch's weights forever
        form = form_of(batch, micro)
        if form not in self.recorded:
            if not self._is_wanted(form):
                return None
            self.recorded[form] = self._record(batch, micro)
        graph = self.recorded[form]
        for there, values in zip(graph.batch, batch, strict=True):
            there.copy_(values)
        graph.replay()
        return graph.losses

    def _is_wanted(self, form: Form) -> bool:
        self._seen[form] += 1
        return len(self.recorded) < FORMS and self._seen[form] >= (OFTEN if self.recorded else 1)

    def _record(self, batch: Batch, micro: Sequence[MicroBatch]) -> Graph:
        """Afterwards the state is what it was: kernels have run to warm up."""
        inputs, targets = batch
        own, losses = (inputs.clone(), targets.clone()), list["Tensor"]()

        def kernels() -> None:
            losses[:] = self._passes(own, micro)

        before = [one.clone() for one in self.state]
        replay = self.device.record(kernels)
        for one, values in zip(self.state, before, strict=True):
            one.copy_(values)
        return Graph(own, replay, losses)


def form_of(batch: Batch, micro: Sequence[MicroBatch]) -> Form:
    """All properties that determine which kernels run on which memory."""
    parts = tuple((tuple(part.shape), part.dtype) for part in batch)
    return parts, tuple((one.rows.start, one.rows.stop) for one in micro)
