"""Jobs on the virtual clock whose workers step alone, on a model that is simple enough to be computed again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runtime.backends.numpy import NumpyBackend
from runtime.core.data.sampling import sample_indices
from runtime.core.executor import cut_for
from runtime.core.job import ApplyOrder, ComputeOrder, FragmentOrder, Job
from runtime.virtual.clock import MESSAGE
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.model_state import RealModelState, Result
from strategies.protocol import NodeId, Strategy
from tests.support.virtual_runs import lose
from tests.unit.virtual.test_virtual_session import Tape, finish, slow, virtual_job
from tests.unit.virtual.test_virtual_session import session as virtual_session

Vector = NDArray[np.float32]
QUICK = Costs(ring_step_s=0.25, launch_s=0.5)


@dataclass(frozen=True, kw_only=True)
class Pull:
    """Sample i pulls each parameter towards a number of its own: its loss is half the squared distance.

    With a ``slope`` every gradient is that instead.
    """

    num_samples: int
    num_parameters: int = 3
    slope: float | None = None
    independent_samples = True

    def prepare(self) -> int:
        return self.num_samples

    def preload(self) -> list[str]:
        return []

    def initial_parameters(self, seed: int) -> Vector:
        return np.ones(self.num_parameters, dtype=np.float32)

    def targets(self, indices: NDArray[np.int64]) -> Vector:
        return np.sin(np.outer(indices + 1.0, np.arange(1, self.num_parameters + 1))).astype(np.float32)

    def numpy_gradient(self, params: Vector, indices: NDArray[np.int64], grad: Vector) -> float:
        away = params - self.targets(indices)
        grad += away.sum(axis=0, dtype=np.float32) if self.slope is None else np.float32(self.slope * len(indices))
        return float(0.5 * (away**2).sum())

    def numpy_metrics(self, params: Vector) -> dict[str, float]:
        return {"accuracy": 0.0}


class Began(NamedTuple):
    """A gradient as it was ordered: of which version, from which parameters, of which samples."""

    version: int
    params: Vector
    indices: NDArray[np.int64]
    grad_id: int


class Watched(RealModelState):
    """``began`` are all gradients by worker, ``common`` the parameters after each update by version.

    ``orders`` are the updates by version, ``summed`` the sums of fragments: which, and its first common parameter then.
    """

    def __init__(self, task: Pull, job: Job, strategy: Strategy, optimizer: dict[str, Any]) -> None:
        model = NumpyBackend().prepare(task, job.seed)
        super().__init__(model, optimizer, cut_for(job, strategy.data), job.seed, outer=strategy.outer)
        self.began: defaultdict[int, list[Began]] = defaultdict(list)
        self.common = {0: self.params.copy()}
        self.orders: dict[int, ApplyOrder] = {}
        self.summed: list[tuple[int, float]] = []

    def gradient(self, order: ComputeOrder) -> Result:
        own = self.own.get(order.worker)
        params = (self.params if own is None else own.debiased).copy()
        indices = sample_indices(order.ranges, self.cut, self.seed)
        self.began[order.worker].append(Began(order.version, params, indices, order.grad_id))
        return super().gradient(order)

    def sum_fragment(self, order: FragmentOrder) -> None:
        super().sum_fragment(order)
        if order.moves:
            assert self.fragments is not None
            (first, *_) = self.fragments.common[self.fragments.parts[order.fragment]]
            self.summed.append((order.fragment, float(first)))

    def apply(self, order: ApplyOrder) -> None:
        super().apply(order)
        self.common[order.version] = self.params.copy()
        self.orders[order.version] = order


class Trained(NamedTuple):
    """A job that has come to its end."""

    model: Watched
    tape: Tape
    run: VirtualSession


def train(
    strategy: Strategy,
    optimizer: dict[str, Any],
    *strikes: tuple[float, int, bool],
    samples: int = 48,
    workers: int = 2,
    slope: float | None = None,
    parameters: int = 3,
    slowed: dict[str, float] | None = None,
    **changes: Any,
) -> Trained:
    """A job of replicas that loses workers at these times (seconds, worker, whether it restarts).

    ``slowed``: by how much workers (``w2``) take longer.
    """
    job = virtual_job(workers, samples, num_servers=0, **{"lr": optimizer["lr"], "epochs": 2, **changes})
    task = Pull(num_samples=samples, num_parameters=parameters, slope=slope)
    model = Watched(task, job, strategy, optimizer)
    run, tape = virtual_session(strategy, job, QUICK, model_state=model, actuator=slow(**(slowed or {})))
    for at_s, worker, restarting in strikes:
        strike = lose, run.supervisor, NodeId.worker(worker)
        run.clock.at(at_s, MESSAGE, lambda strike=strike, back=restarting: strike[0](*strike[1:], restarting=back))
    finish(run, tape)
    return Trained(model, tape, run)
