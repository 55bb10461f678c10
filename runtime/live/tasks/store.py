"""The state of a parameter server: its range of the parameters, the optimizer's state, gradients not yet used.

It uses no socket; see ``server.py`` for those.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from runtime.backends.initial import Part
from runtime.core.job import ApplyOrder
from runtime.core.scoring import Products, products
from runtime.core.vectors import PARAMETER_BYTES, FloatVector, aligned_vector
from runtime.live.transport.bfloat16 import Bfloat16Vector, bfloat16_vector, encode
from runtime.live.transport.buffers import SharedBuffers, SlotTable
from runtime.live.transport.messages import SaveCheckpoint, Saved
from runtime.record.checkpoint import path_of, write_checkpoint
from runtime.training.norms import sum_sqr_norm
from runtime.training.optimizers import Optimizer, make_optimizer

PREFIX = "optimizer."


class ParameterStore:
    """``params`` is float32 [hi - lo]; ``grads`` maps a gradient's id to its part, in own or shared memory.

    Without shared ``buffers`` all memory is the store's own. With them, gradients lie in their workers' rows
    (``_row_of``), and every version of the parameters is written to a slot without readers. ``threads`` may share an
    update. ``place``: where the parameters lie, if not in memory of its own. ``initial``: values, which are copied, or
    how to write them.
    """

    def __init__(
        self,
        initial: FloatVector | Part,
        optimizer: dict[str, Any],
        buffers: SharedBuffers | None = None,
        lo: int = 0,
        threads: int = 1,
        place: FloatVector | None = None,
    ) -> None:
        self._initial = initial if isinstance(initial, Part) else Part.of(initial)
        self._threads = threads
        hi = lo + self.size
        self.lo, self.hi = lo, hi
        self.shares_memory = buffers is not None
        own = aligned_vector(self.size) if place is None else place
        self._slots = [slot[lo:hi] for slot in buffers.slots] if buffers else [own]
        self._rows = [row[lo:hi] for row in buffers.grads] if buffers else []
        self._optimizer_fields = {name: value for name, value in optimizer.items() if name != "lr"}
        self.table = SlotTable(len(self._slots))
        self.grads: dict[int, FloatVector] = {}
        self._row_of: dict[int, int] = {}
        self._last_in_row: dict[int, int] = {}
        self._own: set[int] = set()
        self._spare: list[FloatVector] = []
        self._reference: tuple[int, FloatVector] | None = None
        self._bfloat16: Bfloat16Vector | None = None
        self._has_bfloat16 = False
        self.version = 0
        self.optimizer: Optimizer
        self.reset()

    @property
    def params(self) -> FloatVector:
        """The parameters of the current version."""
        return self._slots[self.table.current]

    @property
    def size(self) -> int:
        """How many floats the range has, and every gradient for it."""
        return self._initial.size

    @property
    def num_bytes(self) -> int:
        """Size of one gradient or parameter message."""
        return PARAMETER_BYTES * self.size

    def bfloat16(self) -> Bfloat16Vector:
        """The current parameters with 16 bits each, until the next update."""
        if self._bfloat16 is None:
            self._bfloat16 = bfloat16_vector(self.size)
        if not self._has_bfloat16:
            encode(self.params, self._bfloat16)
            self._has_bfloat16 = True
        return self._bfloat16

    # ---- gradients ---------------------------------------------------------------------------------------------------

    def buffer(self) -> FloatVector:
        """A buffer to receive a gradient, until it is :meth:`hold`-ed or :meth:`release`-d."""
        return self._spare.pop() if self._spare else aligned_vector(self.size)

    def release(self, buffer: FloatVector) -> None:
        """Return a receive buffer."""
        self._spare.append(buffer)

    def hold(self, grad_id: int, grad: FloatVector) -> None:
        """Keep a gradient that is complete in one of our buffers."""
        self.grads[grad_id] = grad
        self._own.add(grad_id)

    def compute_reference(self, ticket: int, reference: FloatVector) -> None:
        """Use a reference that is complete in one of our buffers for comparisons from now on."""
        if self._reference is not None:
            self.release(self._reference[1])
        self._reference = (ticket, reference)

    def inner_products(self, grad_id: int, ticket: int) -> Products | None:
        """Inner products of a gradient with reference ``ticket``; None if either is gone."""
        row = self._row_of.get(grad_id)
        grad = self.grads.get(grad_id) if row is None else self._rows[row]
        if grad is None or self._reference is None or self._reference[0] != ticket:
            return None
        return products(grad, self._reference[1])

    def deliver(self, who: tuple[str, int], ticket: int) -> None:
        """Book that a reader gets the current version, and that a worker will leave gradient ``ticket`` in its row.

        An unused gradient there is saved first. The coordinator gives this order only to an idle worker, so
        its row is either complete or was dropped.
        """
        role, worker = who
        if role == "worker":
            previous = self._last_in_row.get(worker, -1)
            if self._row_of.pop(previous, None) is not None:
                copy = self.buffer()
                copy[:] = self._rows[worker]
                self.hold(previous, copy)
            self._last_in_row[worker] = ticket
            self._row_of[ticket] = worker
        self.table.deliver(who, ticket)

    def drop(self, ids: tuple[int, ...]) -> None:
        """Discard gradients (incomplete ones are not here)."""
        self.table.release(ids)
        for grad_id in ids:
            self._row_of.pop(grad_id, None)
            if grad_id in self.grads:
                self._free(grad_id, self.grads.pop(grad_id))

    def _take(self, grad_id: int) -> FloatVector:
        """Take a gradient for use; raises ``KeyError`` if it is not here."""
        if (worker := self._row_of.pop(grad_id, None)) is not None:
            return self._rows[worker]
        return self.grads.pop(grad_id)

    def _free(self, grad_id: int, grad: FloatVector) -> None:
        if grad_id in self._own:
            self._own.remove(grad_id)
            self.release(grad)

    # ---- parameters --------------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Parameters and the optimizer's state, by name."""
        return {"params": self.params, **{PREFIX + name: value for name, value in self.optimizer.state().items()}}

    def vectors(self) -> list[FloatVector]:
        """Parameters and the vectors of the optimizer's state, in the order of :meth:`dump`."""
        return [value for value in self.dump().values() if not isinstance(value, int | float)]

    def load(self, version: int, state: dict[str, Any]) -> None:
        """Restore a :meth:`dump` of ``version``; all gradients become void."""
        self._begin(version)
        self.params[:] = state["params"]
        prefixed = ((name, value) for name, value in state.items() if name.startswith(PREFIX))
        self.optimizer.load_state({name[len(PREFIX) :]: value for name, value in prefixed})

    def copy(self, version: int, steps: int, vectors: FloatVector) -> None:
        """Take over the :meth:`vectors` of ``version``, one after the other, and keep the gradients."""
        params, *slots = vectors.reshape(-1, self.size)
        self.version, self._has_bfloat16 = version, False
        self.params[:] = params
        self.optimizer.load_state({"step": steps, **dict(zip(self.optimizer.rule.slots, slots, strict=True))})

    def reset(self) -> None:
        """Restore the initial parameters, version 0."""
        self._begin(0)
        self._initial.fill(self.params)
        self.optimizer = make_optimizer(num_elements=self.size, threads=self._threads, **self._optimizer_fields)

    def _begin(self, version: int) -> None:
        """Begin without gradients and readers."""
        self.drop(tuple(self.grads))
        self._reference = None
        self._row_of.clear()
        self._last_in_row.clear()
        self.table.reset()
        self.version, self._has_bfloat16 = version, False


def save_part(directory: Path, order: SaveCheckpoint, store: ParameterStore, number: int) -> Saved:
    """Write server ``number``'s part of a checkpoint, and delete old ones that are no longer needed."""
    begun = time.perf_counter()
    write_checkpoint(path_of(directory, order.id, number), order.version, order.state, store.dump(), store.lo)
    for old in directory.glob(f"*-server{number}.ckpt"):
        if int(old.name.partition("-")[0]) < order.keep_from:
            old.unlink(missing_ok=True)
    return Saved(id=order.id, seconds=time.perf_counter() - begun)


class Store(ParameterStore):
    """The store of a server, which updates its range by gradients that it has."""

    def apply(self, order: ApplyOrder) -> float:
        """Apply one update; returns the squared norm of the weighted sum if it is to be measured, otherwise 0.

        Raises ``KeyError`` for a gradient that is not here.
        """
        grads = [self._take(grad_id) for grad_id in order.grads]
        sqr_norm = 0.0 if order.measure is None else sum_sqr_norm(grads, order.weights)
        self.table.release(order.grads)
        before = self.params
        if self.shares_memory:
            self.table.advance()
        self.optimizer.step(before, grads, order.weights, order.lr, order.samples, out=self.params)
        self.version, self._has_bfloat16 = order.version, False
        for grad_id, grad in zip(order.grads, grads, strict=True):
            self._free(grad_id, grad)
        return sqr_norm
