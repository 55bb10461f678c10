"""An auxiliary task: receives parameters under an order's ticket, does its role's work with them, and answers."""

from __future__ import annotations

import os
import pkgutil
from functools import partial
from typing import Any, Protocol

from runtime.backends.base import Model
from runtime.house import module_name
from runtime.live.tasks.client import serve
from runtime.live.tasks.worker import run_task
from runtime.live.transport.auth import Identity
from runtime.live.transport.auxiliaries import AUXILIARIES
from runtime.live.transport.channel import BlockingChannel
from runtime.live.transport.links import ServerLinks
from runtime.live.transport.messages import AuxiliaryOrder, Message
from runtime.live.transport.task_spec import TaskSpec


class AuxiliaryWork(Protocol):
    """The work of one auxiliary role's tasks."""

    obeys: type[AuxiliaryOrder]
    """The message that orders it."""

    def __init__(self, spec: TaskSpec, model: Model) -> None: ...

    def prepare(self) -> None:
        """Called before the parameters of an order are received."""

    def carry_out(self, order: Any, links: ServerLinks) -> Message:
        """Carry out an order with the model on the received parameters; returns the answer."""


class AuxiliaryTask:
    """A client of the servers like a worker, at the priority of its role."""

    def __init__(
        self, make: type[AuxiliaryWork], spec: TaskSpec, channel: BlockingChannel, model: Model, links: ServerLinks
    ) -> None:
        self.channel, self.model, self.links = channel, model, links
        self.work = make(spec, model)
        os.nice(spec.niceness.get(links.identity.role, 0))

    def run(self) -> None:
        """Serve until the coordinator sends ``Goodbye``; raises ``ConnectionError`` when it is gone."""
        serve(self.channel, self.links, self._obey)

    def _obey(self, order: Message) -> Message:
        if not isinstance(order, self.work.obeys):
            raise RuntimeError(f"the {self.links.identity.role} cannot obey {order}")
        self.work.prepare()
        self.links.receive_params(order.ticket)
        self.model.attach(self.links.params, self.links.grad)
        return self.work.carry_out(order, self.links)


def work_of(role: str) -> type[AuxiliaryWork]:
    """The class that carries out the orders of an auxiliary role."""
    work: type[AuxiliaryWork] = pkgutil.resolve_name(module_name(AUXILIARIES[role].work))
    return work


def auxiliary_main(spec: TaskSpec, identity: Identity, buffers_fd: int) -> None:
    """Entry point of an auxiliary process."""
    run_task(spec, identity, buffers_fd, partial(AuxiliaryTask, work_of(identity.role)))
