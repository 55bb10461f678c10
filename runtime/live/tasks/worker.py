"""A worker: waits for a Compute, receives parameters, computes a gradient sum, pushes it, reports."""

from __future__ import annotations

import math
import os
import time
from typing import Any, Protocol

import numpy as np

from runtime.backends.base import Model, ordered_batches
from runtime.cluster.device import parse_device
from runtime.core.holdout import Holdout
from runtime.core.sampling import sample_epochs, sample_indices
from runtime.core.shards import Cut
from runtime.core.vectors import FloatVector
from runtime.live.tasks.client import serve
from runtime.live.tasks.pacing import Pacer
from runtime.live.transport.address import LOOPBACK
from runtime.live.transport.auth import Identity
from runtime.live.transport.buffers import SharedBuffers
from runtime.live.transport.channel import BlockingChannel
from runtime.live.transport.heartbeat import start_heartbeat
from runtime.live.transport.links import ServerLinks
from runtime.live.transport.messages import Message, Report, TaskReady, Work
from runtime.live.transport.task_spec import TaskSpec
from strategies.protocol import Timings


class Links(Protocol):
    """Source of parameters and sink of gradients; see :class:`runtime.live.transport.links.ServerLinks`."""

    identity: Identity

    @property
    def params(self) -> FloatVector:
        """The parameters to compute with, after :meth:`receive_params`."""
        ...

    @property
    def grad(self) -> FloatVector:
        """The vector for the gradient sum, until it is pushed."""
        ...

    @property
    def received_s(self) -> float:
        """Seconds of waiting for the last parameters while they were on their way."""
        ...

    def receive_params(self, ticket: int) -> int:
        """Wait for the parameters; returns their version."""
        ...

    def push(self, ticket: int) -> None:
        """Push the gradient to its sink."""
        ...


class Worker:
    """One incarnation of a worker."""

    def __init__(self, spec: TaskSpec, channel: BlockingChannel, model: Model, links: Links) -> None:
        self.spec, self.channel, self.model, self.links = spec, channel, model, links
        self.cut = Cut(spec.num_samples, spec.num_shards, spec.shard_samples)
        self.holdout = Holdout(spec.num_samples + spec.validation_samples, spec.validation_samples, spec.seed)
        self.pacer = Pacer(parse_device(spec.device_of(links.identity.id)))
        self.idle_since = time.perf_counter()

    def run(self) -> None:
        """Serve until the coordinator sends ``Goodbye``; raises ``ConnectionError`` when it is gone."""
        assert isinstance(self.links, ServerLinks)
        serve(self.channel, self.links, self.obey)

    def obey(self, message: Message) -> Report:
        """Compute the ordered gradient, push it, and return its durations and loss."""
        if not isinstance(message, Work):
            raise RuntimeError(f"a worker cannot obey {message}")
        try:
            return self._iterate(message)
        finally:
            self.idle_since = time.perf_counter()

    def _iterate(self, work: Work) -> Report:
        order = work.order
        started, cpu_s = time.perf_counter(), time.process_time()
        # data first: meanwhile the servers finish the update whose result they are to deliver
        indices = self.holdout.kept(sample_indices(order.ranges, self.cut, self.spec.seed))
        batch = self.model.batch(indices, sample_epochs(order.ranges))
        loaded, data_cpu_s = time.perf_counter(), time.process_time() - cpu_s
        self.links.receive_params(order.grad_id)
        self.model.attach(self.links.params, self.links.grad)
        pulled, cpu_s = time.perf_counter(), time.process_time()
        loss_sum = self.model.gradient(batch, ordered_batches(order))
        samples = sum(part.samples for part in order.ranges)
        overrun_s, injected_s = self.pacer.hold(pulled, samples, order.delay_s, order.slowdown_frac, accum=order.accum)
        computed = time.perf_counter()
        sqr_norm = float(np.dot(self.links.grad, self.links.grad))
        finite = math.isfinite(sqr_norm) and math.isfinite(loss_sum)
        self.links.push(order.grad_id)
        pushed = time.perf_counter()
        return Report(
            grad_id=order.grad_id,
            timings=Timings(
                wait_s=started - self.idle_since,
                data_s=loaded - started,
                pull_s=pulled - loaded,
                compute_s=computed - pulled,
                send_s=pushed - computed,
                injected_s=injected_s,
                overrun_s=overrun_s,
                recv_s=self.links.received_s,
                cpu_s=data_cpu_s + time.process_time() - cpu_s,
            ),
            loss=loss_sum / samples if finite else None,
            sqr_norm=sqr_norm if finite else None,
            finite=finite,
        )


def worker_main(spec: TaskSpec, identity: Identity, buffers_fd: int) -> None:
    """Entry point of a worker process."""
    run_task(spec, identity, buffers_fd, Worker)


def run_task(spec: TaskSpec, identity: Identity, buffers_fd: int, make: Any) -> None:
    """Connect, build the model, serve. When the run is gone, errors are not reported."""
    from runtime.config.instantiate import instantiate

    try:
        channel = BlockingChannel(spec.coordinator, spec.secret, identity)
        start_heartbeat(channel, spec.heartbeat_s)
        model = instantiate(spec.backend).prepare(instantiate(spec.task), spec.seed)
        if spec.supports_sample_weights and identity.role == "worker":
            model.expect_weights()
        buffers = SharedBuffers(buffers_fd, model.num_parameters, spec.num_workers) if spec.transport == "shm" else None
        links = ServerLinks(model.num_parameters, spec.secret, identity, buffers)
        if identity.role == "worker":
            place = spec.place(identity.role, identity.id)
            links.same_machine = not place.host and place.address == LOOPBACK
            links.bits = spec.transfer_bits
        task = make(spec, channel, model, links)
        channel.tell(TaskReady(num_parameters=model.num_parameters))
        task.run()
    except ConnectionError:
        os._exit(0)
