"""The ledger of valid commands: every worker's Compute, and gradients that may still be used (pure)."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial

import msgspec

from strategies.protocol import Compute, Event, Grad, ProtocolError, Score, Timings

HISTORY = 6
"""Number of a worker's events that an error message shows."""
REMEMBERED = 256
"""Number of used gradients whose worker is remembered, for the same purpose."""


class LoaderWait(msgspec.Struct, frozen=True, gc=False):
    """How much of the injected seconds of a Compute its worker is to wait for a batch of its loader."""

    loader_s: float
    delay_s: float
    """With ``loader_s``."""
    slowdown_frac: float

    def told(self, timings: Timings) -> Timings:
        """The durations with ``loader_s``: causes share the measured seconds as they share the planned ones."""
        asked_s = self.delay_s + self.slowdown_frac * (timings.compute_s - timings.injected_s)
        return msgspec.structs.replace(timings, loader_s=timings.injected_s * (self.loader_s / asked_s))


class Order(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A Compute in progress on a worker."""

    grad_id: int
    worker: int
    iteration: int
    version: int
    assigned_samples: int
    samples: int
    round: int | None = None
    round_samples: int | None = None
    accum: int = 1
    requeue: bool = True
    cut_samples: int = 0
    ends_s: tuple[float, ...] = ()
    waits: LoaderWait | None = None

    def told(self, timings: Timings) -> Timings:
        """Its worker's durations, as the strategy and the record get them."""
        return timings if self.waits is None else self.waits.told(timings)


class GradientLedger:
    """Refuses commands that the laws of the protocol forbid; shared by all runtimes."""

    def __init__(self) -> None:
        self.busy: dict[int, Order] = {}
        self.starved: dict[int, Compute] = {}
        self.grads: dict[int, Grad] = {}
        self.ready: dict[int, Grad] = {}
        """Held by workers that are busy with them, and with nothing else."""
        self._used: deque[Grad] = deque(maxlen=REMEMBERED)
        self._history: defaultdict[int, deque[Event]] = defaultdict(partial(deque, maxlen=HISTORY))

    def note_event(self, worker: int, event: Event) -> None:
        """Remember an event for error messages."""
        self._history[worker].append(event)

    def end(self, worker: int) -> Order | None:
        """A worker's Compute ends, if it has one."""
        order = self.busy.pop(worker, None)
        if order is not None and self.ready:
            self.ready.pop(order.grad_id, None)
        return order

    def busy_with(self, grad_ids: tuple[int, ...]) -> list[Order]:
        """The Computes of these gradients that are in progress, in the order of their ids' place."""
        found = {order.grad_id: order for order in self.busy.values()}
        return [found[grad_id] for grad_id in grad_ids if grad_id in found]

    @property
    def progresses(self) -> bool:
        """Whether a Compute will end without another command.

        It does not if its gradient is held, or if it waits for data that only a held gradient can free.
        """
        return len(self.busy) > len(self.ready) or (bool(self.starved) and not self.ready)

    def remember(self, grad: Grad) -> None:
        """Remember a used gradient, likewise."""
        self._used.append(grad)

    def histories(self, num_workers: int) -> list[Callable[[Event], None]]:
        """:meth:`note_event` of each worker, for callers that note many events."""
        return [self._history[worker].append for worker in range(num_workers)]

    def check_compute(self, command: Compute, alive: bool) -> None:
        """A Compute needs a living, idle worker and at least one sample."""
        worker = command.worker
        if not alive:
            raise self.error(worker, f"{command} for a worker that is not running")
        if worker in self.busy or worker in self.starved:
            raise self.error(worker, f"{command} while it is busy with an earlier one")
        if command.num_samples < 1 or not 1 <= command.accum <= command.num_samples:
            raise self.error(worker, f"{command}: needs at least one sample per micro-batch")
        if command.parts and command.accum > 1:
            raise self.error(worker, f"{command}: each part is a micro-batch of its own")
        if command.within_s is not None and (command.parts or not command.within_s >= 0):
            raise self.error(worker, f"{command}: within_s is 0 or more, and not for parts of a round")

    def arrived(self, grad: Grad) -> None:
        """Book a gradient as usable (an empty one has nothing to use)."""
        if grad.samples:
            self.grads[grad.id] = grad

    def use(self, ids: tuple[int, ...], what: str) -> list[Grad]:
        """Take gradients out, each exactly once."""
        if not ids or (len(ids) > 1 and len(set(ids)) != len(ids)):
            raise ProtocolError(f"{what} of {ids}: needs at least one gradient, and none twice")
        grads = self.grads
        for grad_id in ids:
            if grad_id not in grads:
                unknown = [grad_id for grad_id in ids if grad_id not in grads]
                raise self._not_usable(f"{what} of {unknown}", unknown)
        taken = list(map(grads.pop, ids))
        self._used.extend(taken)
        return taken

    def _not_usable(self, what: str, unknown: list[int]) -> ProtocolError:
        problem = f"{what}: not arrived, or used before (unused are {sorted(self.grads)})"
        worker = next((grad.worker for grad in self._used if grad.id == unknown[0]), None)
        return ProtocolError(problem) if worker is None else self.error(worker, problem)

    def check_score(self, command: Score, asked: set[int]) -> Grad:
        """A Score needs an unused gradient that is not being scored already."""
        grad = self.grads.get(command.grad)
        if grad is None:
            raise self._not_usable(f"{command}", [command.grad])
        if command.grad in asked:
            raise self.error(grad.worker, f"{command} while its last score is pending")
        return grad

    def void(self) -> None:
        """Void all Computes and gradients."""
        self.busy.clear()
        self.starved.clear()
        self.ready.clear()
        self.grads.clear()

    def last_events(self, worker: int) -> list[Event]:
        """The last events of a worker, the newest last."""
        return list(self._history.get(worker, ()))

    def error(self, worker: int, what: str) -> ProtocolError:
        """A ``ProtocolError`` with the worker's last events."""
        history = "\n".join(f"  {event}" for event in self._history.get(worker, ()))
        return ProtocolError(f"worker {worker}: {what}\nits last events:\n{history or '  none'}")
