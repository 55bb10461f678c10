"""A worker: waits for a Compute, receives parameters, computes a gradient sum, pushes it, reports.

Where transfers are scheduled it holds the gradient instead and reports this; it pushes or forgets it on order.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec
import numpy as np

from runtime.backends.base import MicroBatch, Model, ordered_batches
from runtime.cluster.device import parse_device
from runtime.core.data.holdout import Holdout
from runtime.core.data.sampling import sample_epochs, sample_indices
from runtime.core.data.shards import Cut
from runtime.core.job import ComputeOrder
from runtime.core.vectors import FloatVector
from runtime.live.tasks.client import serve
from runtime.live.tasks.gradient_cache import GradientCache
from runtime.live.tasks.link_orders import LinkOrders
from runtime.live.tasks.pacing import Pacer
from runtime.live.tasks.split_channel import SplitChannel
from runtime.live.transport.address import LOOPBACK
from runtime.live.transport.auth import Identity
from runtime.live.transport.auxiliaries import EVALUATOR
from runtime.live.transport.buffers import SharedBuffers
from runtime.live.transport.channel import BlockingChannel
from runtime.live.transport.heartbeat import start_heartbeat
from runtime.live.transport.interruptible import Interrupted
from runtime.live.transport.links import ServerLinks
from runtime.live.transport.messages import Forget, GradientReady, Message, Push, Pushed, Report, TaskReady, Work
from runtime.live.transport.task_spec import TaskSpec
from strategies.protocol import Timings


class Links(Protocol):
    """Source of parameters and sink of gradients; see :class:`runtime.live.transport.links.ServerLinks`."""

    identity: Identity

    @property
    def params(self) -> FloatVector:
        """The parameters to compute with, after :meth:`receive_params`."""

    @property
    def grad(self) -> FloatVector:
        """The vector for the gradient sum, until it is pushed."""

    @property
    def received_s(self) -> float:
        """Seconds of waiting for the last parameters while they were on their way."""

    def receive_params(self, ticket: int) -> int:
        """Wait for the parameters; returns their version."""

    def push(self, ticket: int) -> None:
        """Push the gradient to its sink."""


class Worker:
    """One incarnation of a worker: receives an order and parameters, computes the gradient, pushes it and reports."""

    def __init__(self, spec: TaskSpec, channel: BlockingChannel, model: Model, links: Links) -> None:
        self.spec, self.channel, self.model, self.links = spec, channel, model, links
        self.cut = Cut(spec.num_samples, spec.num_shards, spec.shard_samples)
        self.holdout = Holdout(spec.num_samples + spec.validation_samples, spec.validation_samples, spec.seed)
        self.pacer = Pacer(parse_device(spec.device_of(links.identity.id)))
        self.idle_since = time.perf_counter()
        self.cache = links.cache if isinstance(links, ServerLinks) else None
        self.held: Report | None = None
        """Report on the gradient in ``links.grad`` that is not pushed yet; the next Compute overwrites both."""

    def run(self) -> None:
        """Serve until the coordinator sends ``Goodbye``; raises ``ConnectionError`` when it is gone."""
        assert isinstance(self.links, ServerLinks)
        serve(self.channel, self.links, self.obey)

    def obey(self, message: Message) -> Message | None:
        """Carry out one order, and return the answer."""
        match message:
            case Work():
                report = self.compute(message)
                return report if self.held is None else _gradient_ready(report, self.links.grad.nbytes)
            case Push():
                return self._push_held(message.grad_id) if message.via is None else self._pass(message)
            case Forget():
                self.held, self.idle_since = None, time.perf_counter()
                return None
        raise RuntimeError(f"a worker cannot obey {message}")

    def compute(self, work: Work) -> Report:
        """Compute the ordered gradient, push it unless it is to be held, and return its durations and loss."""
        self.held = None
        try:
            return self._iterate(work)
        finally:
            self.idle_since = time.perf_counter()

    def _push_held(self, grad_id: int) -> Report:
        report = self._let_go(grad_id)
        try:
            return self._push(report, time.perf_counter())
        finally:
            self.idle_since = time.perf_counter()

    def _pass(self, push: Push) -> Pushed:
        """Push the held gradient to an aggregator; if that is gone, the gradient is lost."""
        self._let_go(push.grad_id)
        assert isinstance(self.links, ServerLinks)
        assert push.via is not None
        try:
            self.links.push_to(push.via, push.grad_id)
        except Interrupted:  # nobody asks for it any more
            raise
        except OSError as error:
            return Pushed(grad_id=push.grad_id, problem=str(error))
        finally:
            self.idle_since = time.perf_counter()
        return Pushed(grad_id=push.grad_id)

    def _let_go(self, grad_id: int) -> Report:
        """Release the held gradient, which must be this one."""
        report, self.held = self.held, None
        if report is None or report.grad_id != grad_id:
            raise RuntimeError(f"gradient {grad_id} is not held, but {report}")
        return report

    def _push(self, report: Report, since_s: float) -> Report:
        """Push the gradient, which takes from ``since_s`` on."""
        cpu_s, before = time.process_time(), report.timings.cpu_s or 0.0
        self.links.push(report.grad_id)
        send_s, cpu_s = time.perf_counter() - since_s, before + time.process_time() - cpu_s
        timings = msgspec.structs.replace(report.timings, send_s=send_s, cpu_s=cpu_s)
        return msgspec.structs.replace(report, timings=timings)

    def _iterate(self, work: Work) -> Report:
        order = work.order
        started, cpu_s = time.perf_counter(), time.process_time()
        # data first: meanwhile the servers finish the update whose result they are to deliver
        indices = self.holdout.kept(sample_indices(order.ranges, self.cut, self.spec.seed))
        batch = self.model.batch(indices, sample_epochs(order.ranges))
        loaded, data_cpu_s = time.perf_counter(), time.process_time() - cpu_s
        self.links.receive_params(order.grad_id)
        pulled, cpu_s = time.perf_counter(), time.process_time()
        self.model.attach(self.links.params, self.links.grad)
        samples, ends_s = sum(part.samples for part in order.ranges), list[float]()
        if order.within_s is None:
            loss_sum = self.model.gradient(batch, ordered_batches(order))
            paced = self.pacer.hold(pulled, samples, order.delay_s, order.slowdown_frac, accum=order.accum)
        else:
            loss_sum, samples, paced = self._compute_in_time(order, batch, pulled, ends_s)
        overrun_s, injected_s = paced
        computed = time.perf_counter()
        sqr_norm = float(np.dot(self.links.grad, self.links.grad))
        finite = math.isfinite(sqr_norm) and math.isfinite(loss_sum)
        report = Report(
            grad_id=order.grad_id,
            timings=Timings(
                wait_s=started - self.idle_since,
                data_s=loaded - started,
                pull_s=pulled - loaded,
                compute_s=computed - pulled,
                injected_s=injected_s,
                overrun_s=overrun_s,
                recv_s=self.links.received_s,
                stage_s=self.model.stage_s,
                cpu_s=data_cpu_s + time.process_time() - cpu_s,
            ),
            loss=loss_sum / samples if finite else None,
            sqr_norm=sqr_norm if finite else None,
            finite=finite,
            ends_s=tuple(ends_s),
        )
        if not order.holds:
            return self._push(report, computed)
        self.held = report if finite else None  # nobody has a use for one that is not finite
        if finite and self.cache is not None:
            self.cache.keep(order.grad_id, self.links.grad)
        return report

    def _compute_in_time(
        self, order: ComputeOrder, batch: Any, begun: float, ends_s: list[float]
    ) -> tuple[float, int, tuple[float, float]]:
        """Compute micro-batches until time is up; each is paced, and has its part of the injected delay.

        Returns the loss, the computed samples, and (overrun_s, injected_s) as ``Pacer.hold``.
        """
        micro, held = ordered_batches(order), list[tuple[float, float]]()
        sizes = [one.rows.stop - one.rows.start for one in micro]

        def until_time_is_up() -> Iterator[MicroBatch]:
            """The model asks for the next micro-batch when it has computed the one before."""
            since = begun
            for one, size in zip(micro, sizes, strict=True):
                yield one
                held.append(self.pacer.hold(since, size, order.delay_s * size / sum(sizes), order.slowdown_frac))
                since = time.perf_counter()
                ends_s.append(since - begun)
                if not order.goes_on(ends_s[-1]):
                    return

        loss_sum = self.model.gradient(batch, until_time_is_up())
        overruns_s, injected_s = zip(*held, strict=True)
        return loss_sum, sum(sizes[: len(held)]), (sum(overruns_s), sum(injected_s))


def _gradient_ready(report: Report, num_bytes: int) -> GradientReady:
    return GradientReady(
        grad_id=report.grad_id,
        timings=report.timings,
        num_bytes=num_bytes,
        loss=report.loss,
        sqr_norm=report.sqr_norm,
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
        only_scores = {"only_scores": True} if identity.role == EVALUATOR.name else {}
        model = instantiate(spec.backend).prepare(instantiate(spec.task), spec.seed, **only_scores)
        if spec.supports_sample_weights and identity.role == "worker":
            model.expect_weights()
        buffers = SharedBuffers(buffers_fd, model.num_parameters, spec.num_workers) if spec.transport == "shm" else None
        links = ServerLinks(model.num_parameters, spec.secret, identity, buffers)
        if identity.role == "worker":
            place = spec.place(identity.role, identity.id)
            linked = bool(place.host) or spec.paces_links
            links.same_machine = not linked and place.address == LOOPBACK and not spec.holds
            links.bits = spec.transfer_bits
        if identity.role == "worker" and spec.num_replicas:
            links.cache = cache = GradientCache(spec.secret, identity, channel)
            task = make(spec, SplitChannel(channel, cache.takes), model, links)
        elif identity.role == "worker" and spec.paces_links:
            task = make(spec, SplitChannel(channel, LinkOrders(links, channel).takes), model, links)
        else:
            task = make(spec, channel, model, links)
        channel.tell(TaskReady(num_parameters=model.num_parameters))
        task.run()
    except ConnectionError:
        os._exit(0)
