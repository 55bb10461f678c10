"""The model on the virtual clock: real gradients by a real backend, or none.

Every gradient is computed at the moment its Compute is ordered, when the parameters *are* the version that the worker
reads. So no version is ever copied for a late reader, and staleness has its true effect: the gradient waits while the
parameters change.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from runtime.backends.base import Model, micro_batches, ordered_batches
from runtime.core.data.holdout import Holdout
from runtime.core.data.sampling import sample_epochs, sample_indices
from runtime.core.data.shards import Cut
from runtime.core.job import ApplyOrder, ComputeOrder, FragmentOrder, PushOrder, StepOrder
from runtime.core.scoring import Products, products
from runtime.core.vectors import FloatVector, aligned_vector, cut_by_shares, server_range
from runtime.record.checkpoint import publish_array
from runtime.training.norms import sum_sqr_norm
from runtime.training.optimizers import Optimizer, make_optimizer
from runtime.training.own_steps import Factors, Fragments, Outer, OwnSteps
from runtime.training.progress import Progress


class Result(NamedTuple):
    """A worker's report on a gradient: mean loss, squared norm of the sum, whether all of it is finite."""

    loss: float | None
    sqr_norm: float | None
    finite: bool


class Dumped(NamedTuple):
    """Copies of parameters and states of optimizers; ``kept`` belong to workers, as of the last update."""

    params: FloatVector
    optimizer: dict[str, Any]
    outer: dict[str, Any] | None
    kept: dict[int, dict[str, Any]]


def _copied(optimizer: Optimizer) -> dict[str, Any]:
    state = optimizer.state()
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in state.items()}


class RealModelState:
    """One model in this process; gradients wait in pooled vectors, float32 [num_parameters] each.

    ``params`` are common to all workers. With an ``outer`` optimizer a worker may have parameters of its own.
    """

    def __init__(
        self,
        model: Model,
        optimizer: dict[str, Any],
        cut: Cut,
        seed: int,
        validation_samples: int = 0,
        outer: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.cut, self.seed = model, cut, seed
        self.holdout = Holdout(cut.num_samples + validation_samples, validation_samples, seed)
        self.num_parameters = model.num_parameters
        self.evaluation_took_s = 0.0
        """Seconds (of this machine's clock) that the last evaluation took; 0 before the first."""
        self._metrics: dict[str, float] | None = None
        """Of the present parameters, once evaluated: evaluations may be closer together than updates."""
        self.params = aligned_vector(self.num_parameters)
        self.params[:] = model.initial_parameters()
        self._grads: dict[int, FloatVector] = {}
        self._spare: list[FloatVector] = []
        self._reference: FloatVector | None = None
        self._rule = {name: value for name, value in optimizer.items() if name != "lr"}
        self.optimizer = self.fresh_optimizer()
        self.outer = Outer(outer, self.optimizer) if outer else None
        self.fragments = Fragments(self.params, outer, self.optimizer) if outer and "fragments" in outer else None
        self.own: dict[int, OwnSteps] = {}
        """By worker that has stepped alone."""
        self.used: Callable[[ApplyOrder, list[FloatVector]], None] | None = None
        """Is given every update with copies of its gradients, for as long as it likes; None: nobody needs them."""

    def fresh_optimizer(self) -> Optimizer:
        """The job's rule, before any update."""
        optimizer: Optimizer = make_optimizer(num_elements=self.num_parameters, **self._rule)
        return optimizer

    def gradient(self, order: ComputeOrder, passes: int | None = None) -> Result:
        """Compute a gradient on the current parameters, of the first ``passes`` micro-batches; None: of all."""
        indices = self.holdout.kept(sample_indices(order.ranges, self.cut, self.seed))
        batch = self.model.batch(indices, sample_epochs(order.ranges))
        grad = self._vector()
        own = self.own.get(order.worker)
        self.model.attach(self.params if own is None else own.debiased, grad)
        micro = ordered_batches(order)[:passes]
        loss_sum = self.model.gradient(batch, micro)
        sqr_norm = float(np.dot(grad, grad))
        if not (math.isfinite(sqr_norm) and math.isfinite(loss_sum)):
            self._spare.append(grad)
            return Result(None, None, False)
        self._grads[order.grad_id] = grad
        return Result(loss_sum / micro[-1].rows.stop, sqr_norm, True)

    def step_alone(self, order: StepOrder) -> None:
        """Step a worker's own parameters by a gradient, which is used then."""
        grad = self._grads.pop(order.grad_id)
        self._own(order.worker).step(grad, order.samples, order.lr)
        self._spare.append(grad)

    def _own(self, worker: int) -> OwnSteps:
        if worker not in self.own:
            self._enter(worker, self.own[min(self.own)].kept if self.own else self.optimizer)
        return self.own[worker]

    def average(self, workers: Sequence[int]) -> None:
        """Let these workers, which have stepped alone, continue from the mean of their own parameters."""
        total = self._vector()
        total.fill(0.0)
        for worker in workers:
            np.add(total, self.own[worker].params, out=total)
        for worker in workers:
            self.own[worker].average(total, len(workers))
        self._spare.append(total)

    def push_half(self, order: PushOrder) -> None:
        """Let a worker send half of its own parameters and add halves."""
        own = self._own(order.worker)
        if order.to is not None:
            self._own(order.to).put_aside(order.worker, own.halve())
        for source in order.adds:
            own.add(source)

    def sum_fragment(self, order: FragmentOrder) -> None:
        """Let workers offer, sum and mix a fragment of the parameters."""
        assert self.fragments is not None
        part = self.fragments.parts[order.fragment]
        for worker in order.offer:
            self.own[worker].offer(part)
        if order.moves:
            self._sum_fragment(order.fragment, order.moves, order.lr, order.samples, OwnSteps.offered)
        for worker in order.mix:
            self.own[worker].mix(part, self.fragments.common, order.kept_frac)

    def _sum_fragment(
        self, fragment: int, factors: Factors, lr: float, samples: int, move: Callable[..., None] = OwnSteps.move
    ) -> None:
        assert self.fragments is not None
        part, moves = self.fragments.parts[fragment], [self._vector() for _ in factors]
        for (worker, factor), out in zip(factors, moves, strict=True):
            move(self.own[worker], self.fragments.common, factor, out[part], part)
        self.fragments.step(fragment, [out[part] for out in moves], lr, samples)
        self._spare += moves

    def _vector(self) -> FloatVector:
        return self._spare.pop() if self._spare else aligned_vector(self.num_parameters)

    def take_over(self, worker: int, source: int) -> None:
        """A new worker copies another's state as of the last update."""
        if source in self.own:
            self._enter(worker, self.own[source].kept)

    def _enter(self, worker: int, optimizer: Optimizer) -> None:
        kept = self.fresh_optimizer()
        kept.load_state(optimizer.state())
        self.own[worker] = OwnSteps(self.params, kept, self.fresh_optimizer)

    def lose(self, worker: int) -> None:
        """A worker's own parameters and optimizer are gone with it."""
        self.own.pop(worker, None)

    def _apply_moves(self, order: ApplyOrder) -> None:
        """Make an update of what workers have moved their own parameters by."""
        assert self.outer is not None
        for worker in order.stays:
            self._own(worker).stay(self.params)
        if self.fragments is None:
            moves = [self._vector() for _ in order.moves]
            for (worker, factor), out in zip(order.moves, moves, strict=True):
                self._own(worker).move(self.params, factor, out)
            self.outer.step(self.params, moves, order.lr, order.samples)
            self._spare += moves
        else:
            for fragment, factors in enumerate(order.fragments):
                if factors:
                    self._sum_fragment(fragment, factors, order.lr, order.samples)
            self.fragments.end(self.params, self.outer)
        for worker, own in self.own.items():
            if worker not in order.stays:
                own.settle(self.params)

    def apply(self, order: ApplyOrder) -> None:
        """Make an update of gradients, which are used then."""
        if order.moves:
            self._metrics = None
            self._apply_moves(order)
            return
        grads = [self._grads.pop(grad_id) for grad_id in order.grads]
        self._metrics = None
        self.optimizer.step(self.params, grads, order.weights, order.lr, order.samples)
        if self.used is not None:
            self.used(order, [grad.copy() for grad in grads])
        self._spare += grads  # always: a model keeps every vector that it has once seen

    def sqr_norms(self, order: ApplyOrder, sizes: Sequence[int]) -> list[float]:
        """The squared norm of the weighted sum, before it is applied, in consecutive parts of so many elements.

        Sizes of a larger model are the shares of the parts.
        """
        grads = [self._grads[grad_id] for grad_id in order.grads]
        cuts: Iterable[tuple[int, int]] = pairwise(accumulate(sizes, initial=0))
        if sum(sizes) != self.num_parameters:
            cuts = cut_by_shares(self.num_parameters, sizes)
        return [sum_sqr_norm([grad[lo:hi] for grad in grads], order.weights) for lo, hi in cuts]

    def drop(self, grads: tuple[int, ...]) -> None:
        """Discard gradients (unknown ones are ignored)."""
        self._spare += [self._grads.pop(grad_id) for grad_id in grads if grad_id in self._grads]

    def compute_reference(self) -> None:
        """Compute the reference gradient on the current parameters, from the held-out samples."""
        if self._reference is None:
            self._reference = aligned_vector(self.num_parameters)
        self.model.attach(self.params, self._reference)
        self.model.gradient(self.model.batch(self.holdout.indices), micro_batches(len(self.holdout.indices), 1))

    def inner_products(self, grad_id: int, num_servers: int) -> list[Products]:
        """Inner products of a gradient with the reference, by server; empty if the gradient was discarded."""
        grad, reference = self._grads.get(grad_id), self._reference
        if grad is None or reference is None:
            return []
        ranges = [server_range(self.num_parameters, num_servers, server) for server in range(num_servers)]
        return [products(grad[lo:hi], reference[lo:hi]) for lo, hi in ranges]

    def evaluate(self) -> dict[str, float]:
        """Metrics of the current parameters on held-out data."""
        if self._metrics is None:
            if not self._spare:
                self._spare.append(aligned_vector(self.num_parameters))
            begun_s = time.perf_counter()
            self.model.attach(self.params, self._spare[-1])
            self._metrics = self.model.evaluate()
            self.evaluation_took_s = time.perf_counter() - begun_s
        return dict(self._metrics)

    def dump(self) -> Dumped:
        """A copy of the common state, and of every worker's own optimizer as of the last update."""
        kept = {worker: _copied(self.own[worker].kept) for worker in sorted(self.own)}
        outer = None if self.outer is None else _copied(self.outer.optimizer)
        first = next(iter(kept.values()), None) or _copied(self.optimizer)
        return Dumped(self.params.copy(), first, outer, kept)

    def dump_file(self) -> Dumped:
        """A copy of all that a checkpoint holds: of workers' optimizers the first one, which all will read."""
        return self.dump()._replace(kept={})

    def load(self, dumped: Dumped) -> None:
        """Restore a dump; gradients become void. A worker that it does not know has no state of its own any more."""
        self.drop(tuple(self._grads))
        self._metrics = None
        self.params[:] = dumped.params
        self.optimizer.load_state(dict(dumped.optimizer))
        if self.outer is not None:
            self.outer.optimizer.load_state(dict(dumped.outer or {}))
            if self.fragments is not None:
                self.fragments.begin(self.params, self.outer)
        self.own = {worker: self.own[worker] for worker in self.own if worker in dumped.kept}
        for worker, own in self.own.items():
            own.kept.load_state(dict(dumped.kept[worker]))
            own.undo(self.params)

    def finish(self, save_to: Path | None) -> str:
        """Save the parameters if configured; return their fingerprint."""
        if save_to is not None:
            publish_array(save_to, self.params)
        return hashlib.sha256(self.params.tobytes()).hexdigest()


NOTHING = Result(None, None, True)


class NoModelState:
    """``backend=none``: nothing is computed; metrics come from a progress model, if there is one."""

    def __init__(self, num_parameters: int, progress: Progress | None) -> None:
        self.num_parameters, self.progress = num_parameters, progress
        self.evaluation_took_s = 0.0

    def gradient(self, order: ComputeOrder, passes: int | None = None) -> Result:
        """Nothing is computed, so its report is empty."""
        return NOTHING

    def apply(self, order: ApplyOrder) -> None:
        """Advance the progress model by the update's samples."""
        if self.progress is not None:
            self.progress.update(order.samples, order.lr / self.progress.model.lr)

    def sqr_norms(self, order: ApplyOrder, sizes: Sequence[int]) -> list[float]:
        """Without gradients there are no norms."""
        return []

    def step_alone(self, order: StepOrder) -> None:
        """Nothing to do: there are no parameters."""

    def average(self, workers: Sequence[int]) -> None:
        """Nothing to do: there are no parameters."""

    def push_half(self, order: PushOrder) -> None:
        """Nothing to do: there are no parameters."""

    def sum_fragment(self, order: FragmentOrder) -> None:
        """Nothing to do: there are no parameters."""

    def take_over(self, worker: int, source: int) -> None:
        """Nothing to do: no worker has state."""

    def lose(self, worker: int) -> None:
        """Nothing to do: no worker has state."""

    def drop(self, grads: tuple[int, ...]) -> None:
        """Nothing to do: there are no gradients."""

    def compute_reference(self) -> None:
        """Never called: a configuration that needs it is refused."""

    def inner_products(self, grad_id: int, num_servers: int) -> list[Products]:
        """Never called: there are no gradients to compare."""
        return []

    def evaluate(self) -> dict[str, float]:
        """The metric estimated by the progress model."""
        return self.progress.metrics() if self.progress is not None else {}

    def dump(self) -> Any:
        """A copy of what the progress model has."""
        return self.progress.state() if self.progress is not None else None

    dump_file = dump

    def load(self, dumped: Any) -> None:
        """Restore what :meth:`dump` has returned."""
        if self.progress is not None:
            self.progress.load_state(dumped)

    def finish(self, save_to: Path | None) -> str:
        """There are no parameters to save."""
        return ""


ModelState = RealModelState | NoModelState
"""The parameters and all operations on them, which take no time."""
