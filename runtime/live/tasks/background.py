"""Gradients that a replica computes in a thread of their own: its main thread takes part in sums at the same time.

The thread has a copy of the parameters, which sums would change below it. It touches nothing else that the main thread
uses: its gradients wait until that thread collects them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import final

from runtime.core.vectors import FloatVector, aligned_vector
from runtime.live.tasks.replica_state import ReplicaState
from runtime.live.tasks.task_end import tell_end
from runtime.live.transport.messages import Message

Computed = tuple[int, FloatVector]
"""A gradient's ticket and the gradient."""


@final
class Snapshot:
    """A worker's links (:class:`runtime.live.tasks.worker.Links`) to a copy of the parameters, and to one gradient."""

    def __init__(self, copy: ReplicaState, arrived: SimpleQueue[Computed]) -> None:
        self.identity, self._arrived = copy.identity, arrived
        self.params = aligned_vector(copy.size)
        self.grad = copy.grad
        self.version, self.received_s = 0, 0.0

    def take(self, copy: ReplicaState) -> None:
        """Copy the parameters of now; the next gradient has a vector of its own."""
        self.params[:] = copy.links.params
        self.version, self.grad = copy.version, copy.buffer()

    def receive_params(self, ticket: int) -> int:
        return self.version

    def push(self, ticket: int) -> None:
        self._arrived.put((ticket, self.grad))


def end_process(error: BaseException) -> None:
    """End the process as an error of its main thread would; the coordinator may be gone, which is no error."""
    os._exit(0 if isinstance(error, ConnectionError) else tell_end(error))


@final
class Background:
    """One gradient at a time; all methods are for the main thread.

    ``computes``: whether a gradient is being computed. ``tell`` sends its report to the coordinator; ``end`` is called
    with an error of the thread.
    """

    def __init__(
        self,
        copy: ReplicaState,
        tell: Callable[[Message], None],
        end: Callable[[BaseException], None] = end_process,
    ) -> None:
        self.copy, self.tell, self.end = copy, tell, end
        self._arrived: SimpleQueue[Computed] = SimpleQueue()
        self.links = Snapshot(copy, self._arrived)
        self.computes = False
        self._pool = ThreadPoolExecutor(1, "gradient")
        self._last: Future[None] | None = None

    def begin(self, compute: Callable[[], Message]) -> None:
        """Call ``compute`` on the parameters of now, and send its report, after the last one."""
        self.finish()
        self.links.take(self.copy)
        self.computes = True
        self._last = self._pool.submit(self._compute, compute)

    def _compute(self, compute: Callable[[], Message]) -> None:
        try:
            report = compute()
            self.computes = False  # before an answer to the report can come
            self.tell(report)
        except BaseException as error:  # noqa: BLE001  (nobody else would notice it)
            self.end(error)

    def finish(self) -> None:
        """Wait until no gradient is being computed, which the coordinator's deadline of an iteration limits."""
        if self._last is not None:
            self._last.result()

    def arrived(self) -> dict[int, FloatVector]:
        """The gradients since the last call, by ticket."""
        return dict(self._arrived.get() for _ in range(self._arrived.qsize()))
