"""The coordinator's orders on the virtual clock: collected while it decides, carried out in order when it has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from runtime.core import inputs
from runtime.core.data.shards import samples_of
from runtime.core.job import (
    ApplyOrder,
    ComputeOrder,
    FragmentOrder,
    PushOrder,
    ReplicateOrder,
    SendOrder,
    StepOrder,
    SumOrder,
)
from runtime.core.node_orders import AllocateOrder, NodeOrder
from runtime.virtual.clock import MESSAGE, TIMER, Clock
from runtime.virtual.tasks.followers import Followers
from runtime.virtual.tasks.model_state import NOTHING
from runtime.virtual.tasks.models import TaskModels
from runtime.virtual.tasks.replicas import ReplicaGroup
from runtime.virtual.tasks.scorer import Scorer

if TYPE_CHECKING:
    from runtime.virtual.control.session import VirtualSession


class VirtualPort:
    """The port of the virtual clock, see :class:`runtime.core.job.Port`.

    An evaluation takes ``evaluation_s``. Orders about nodes and versions go to the ``session``.
    """

    def __init__(
        self, clock: Clock, models: TaskModels, session: VirtualSession, scorer: Scorer, evaluation_s: float
    ) -> None:
        self.servers, self.workers, self.model_state, self._followers = models
        self._clock, self._session, self._scorer, self._evaluation_s = clock, session, scorer, evaluation_s
        self._orders: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def compute(self, order: ComputeOrder) -> None:
        """Compute a gradient on the current parameters."""
        if (insides := self._session.insides) is not None:
            size = order.worker, samples_of(order.ranges), order.accum
            delay_s, frac = insides.added(*size, self._clock.now, order.delay_s, order.slowdown_frac)
            order = replace(order, delay_s=delay_s, slowdown_frac=frac)
        self._orders.append((self._compute, (order,)))

    def apply(self, order: ApplyOrder) -> None:
        """Update all servers. The data service books the samples afterwards, so its state is that before."""
        self._session.versions.remember(order.version - 1)
        self._orders.append((self._apply, (order,)))

    def step_alone(self, order: StepOrder) -> None:
        self._orders.append((self._step_alone, (order,)))

    def average(self, workers: tuple[int, ...]) -> None:
        self._orders.append((self._average, (workers,)))

    def push_half(self, order: PushOrder) -> None:
        self._orders.append((self._push_half, (order,)))

    def sum_fragment(self, order: FragmentOrder) -> None:
        self._orders.append((self._sum_fragment, (order,)))

    def drop(self, grads: tuple[int, ...]) -> None:
        """Discard gradients on all servers."""
        self._orders.append((self._drop, (grads,)))

    def send(self, order: SendOrder) -> None:
        self._orders.append((self._send, (order,)))

    def send_sum(self, order: SumOrder) -> None:
        self._orders.append((self._send_sum, (order,)))

    def replicate(self, order: ReplicateOrder) -> None:
        assert self._followers is not None, "only a job with replicas has such orders"
        self._orders.append((partial(self._replicate, self._followers, order), ()))

    def release(self, worker: int, grads: tuple[int, ...]) -> None:
        """Do nothing: kept gradients take no room here, since updates bring them to replicas."""

    def forget(self, worker: int, grad_id: int) -> None:
        self._orders.append((self._forget, (worker, grad_id)))

    def compute_reference(self, number: int, version: int) -> None:
        self._orders.append((partial(self._scorer.compute_reference, number), ()))

    def inner_products(self, grad_id: int, reference: int) -> None:
        self._orders.append((partial(self._scorer.inner_products, grad_id, reference), ()))

    def evaluate(self, version: int, *, last: bool) -> None:
        """Compute metrics of the current parameters."""
        self._orders.append((self._evaluate, (version,)))

    def checkpoint(self, version: int, state: bytes) -> None:
        """Store the current parameters."""
        self._orders.append((self._save, (version, state)))

    def order_node(self, order: NodeOrder) -> None:
        self._orders.append((self._session.nodes.carry_out, (order,)))

    def book(self, order: AllocateOrder) -> str | None:
        return self._session.nodes.book(order)

    def wake(self, at_s: float, tag: str) -> None:
        self._clock.at(at_s, TIMER, self._session.tell, inputs.TimerFired(tag))

    def flush(self, sent_s: float) -> None:
        """Carry out the collected orders, which leave the coordinator at ``sent_s``."""
        orders, self._orders = self._orders, []
        for order, args in orders:
            order(sent_s, *args)

    @property
    def idle(self) -> bool:
        """Whether no order waits to be carried out."""
        return not self._orders

    def discard(self) -> None:
        """Discard orders that were not carried out."""
        self._orders = []

    def _evaluate(self, sent_s: float, version: int) -> None:
        evaluated = inputs.Evaluated(version, sent_s, self.model_state.evaluate())
        self._clock.at(sent_s + self._evaluation_s, MESSAGE, self._session.tell, evaluated)

    def _save(self, sent_s: float, version: int, state: bytes) -> None:
        self._session.versions.save(sent_s, version, state, self.model_state.dump_file())

    def _compute(self, sent_s: float, order: ComputeOrder) -> None:
        result = self.model_state.gradient(order) if order.within_s is None else NOTHING  # how much, its end says
        self.workers.begin(order, result, sent_s)

    def _step_alone(self, sent_s: float, order: StepOrder) -> None:
        assert isinstance(self.servers, ReplicaGroup)
        self.model_state.step_alone(order)
        self.servers.step_alone(order.worker, sent_s)

    def _average(self, sent_s: float, workers: tuple[int, ...]) -> None:
        assert isinstance(self.servers, ReplicaGroup)
        self.model_state.average(workers)
        self.servers.average(workers, sent_s)

    def _push_half(self, sent_s: float, order: PushOrder) -> None:
        assert isinstance(self.servers, ReplicaGroup)
        self.model_state.push_half(order)
        self.servers.push_half(order, sent_s)

    def _sum_fragment(self, sent_s: float, order: FragmentOrder) -> None:
        assert isinstance(self.servers, ReplicaGroup)
        self.model_state.sum_fragment(order)
        self.servers.sum_fragment(order, sent_s)

    def _drop(self, sent_s: float, grads: tuple[int, ...]) -> None:
        self.model_state.drop(grads)
        if self._followers is not None:
            self._followers.drop(grads)

    def _send(self, sent_s: float, order: SendOrder) -> None:
        self.workers.send(order.worker, order.grad_id, sent_s)

    def _send_sum(self, sent_s: float, order: SumOrder) -> None:
        self.workers.send_sum(order, sent_s)

    @staticmethod
    def _replicate(followers: Followers, order: ReplicateOrder, sent_s: float) -> None:
        followers.replicate(order, sent_s)

    def _forget(self, sent_s: float, worker: int, grad_id: int) -> None:
        self._drop(sent_s, (grad_id,))
        self.workers.forget(worker, grad_id, sent_s)

    def _apply(self, sent_s: float, order: ApplyOrder) -> None:
        model_state, servers = self.model_state, self.servers
        parts = [] if order.measure is None else model_state.sqr_norms(order, servers.sizes)
        model_state.apply(order)
        servers.carry_out(order, sent_s)
        for place, part in enumerate(parts):
            assert order.measure is not None
            answer = inputs.NormPart(servers.numbers[place], order.measure, part)
            servers.measure(place, sent_s, partial(self._answer, answer))

    def _answer(self, answer: inputs.NormPart, at_s: float) -> None:
        self._clock.at(at_s + self.servers.costs.control_s, MESSAGE, self._session.tell, answer)
