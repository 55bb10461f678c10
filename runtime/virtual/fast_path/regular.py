"""Regular jobs without the coordinator: a bounded gate over workers with equal batches, in tight loops.

A strategy that declares such a gate (``Strategy.staleness_hint``) needs no event objects, no ledger and no data service
when nothing is computed: start times follow from finishing times. With bound 0 a round is a few numpy operations on all
workers at once; otherwise an iteration is two heap entries. The arithmetic is that of
:mod:`runtime.virtual.tasks.workers` and ``servers``, operation by operation, so the rows of ``iterations.parquet`` are
bit-equal to those of the full runtime (tested).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from injectors.plan import Kind
from injectors.schedule import Schedule
from runtime.api import Outcome, RunSpec, RunStatus, record_outcome
from runtime.cluster.device import DeviceProfile
from runtime.core.executor import nominal_batches
from runtime.core.job import Job, Status
from runtime.core.vectors import PARAMETER_BYTES
from runtime.errors import is_full, no_space
from runtime.record.columns import IterationWriter
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.jitter import Jitter
from runtime.virtual.tasks.model_state import NoLearner
from runtime.virtual.tasks.servers import REPORT_EVERY_S, Servers
from strategies.protocol import BoundedStalenessHint, Evaluated, NodeId, Started, Strategy

REGULAR: frozenset[Kind] = frozenset({"delay", "slowdown"})
"""Kinds of disturbance that are known when an iteration begins."""
Floats = NDArray[np.float64]
TICK_EVERY = 1 << 14
"""Iterations between two checks of the view and of signals."""


def hint_of(
    job: Job, strategy: Strategy, costs: Costs, *, scored: bool, kinds: frozenset[Kind] = frozenset()
) -> BoundedStalenessHint | None:
    """The strategy's hint if this job follows it throughout; None if it needs the full runtime.

    That requires equal batches that fill the epoch, a data policy without remainders, and no other event in between.
    ``scored``: there is a metric to evaluate. ``kinds``: of disturbances in the plan.
    """
    staleness_hint = strategy.staleness_hint()
    if staleness_hint is None or costs.link_bytes_per_s is not None or not _fits(job, strategy.data, staleness_hint):
        return None
    if kinds - REGULAR:
        return None
    busy = costs.decision_s > 0 and (job.eval_every_s or job.checkpoint_every_s)
    late = scored and costs.evaluation_s > 0
    saves = job.checkpoint_every_s and (costs.checkpoint_base_s or costs.disk_bytes_per_s)
    stops = job.stop_at_target or job.stop_at_convergence
    return None if busy or late or saves or stops else staleness_hint


def _fits(job: Job, data: str, staleness_hint: BoundedStalenessHint) -> bool:
    """Whether every Compute is of one full batch, so that no worker lacks data before the end."""
    batch, epochs = job.global_batch_samples, job.epochs
    if not job.num_servers:
        return False
    if epochs is None or batch % job.num_workers or job.num_samples % batch:
        return False
    if job.batches_per_shard != 1 and data != "even":
        return False
    return staleness_hint.bound == 0 or epochs == 1 or (data == "even" and job.epoch_overlap)


class RegularRun(ABC):
    """One regular job; subclasses hold the loops. Its record has rows."""

    def __init__(
        self,
        spec: RunSpec,
        rows: IterationWriter,
        schedule: Schedule,
        learner: NoLearner,
        costs: Costs,
        profile: DeviceProfile | None,
        staleness_hint: BoundedStalenessHint,
    ) -> None:
        job = spec.job
        self.spec, self.job, self.schedule, self.learner = spec, job, schedule, learner
        self.record, self.rows = spec.record, rows
        costs = costs.of_model(PARAMETER_BYTES * learner.num_parameters)
        self.costs, self.profile, self.staleness_hint = costs, profile, staleness_hint
        self.servers = Servers(costs, learner.num_parameters, job.num_servers, schedule.delay_for)
        self.servers.divide(job.start_layout)
        self.samples = job.global_batch_samples // job.num_workers
        assert job.epochs is not None
        self.total = job.epochs * job.num_samples // self.samples
        """The number of iterations of all workers together."""
        share = 1.0 if staleness_hint.bound == 0 else 1.0 / job.num_workers
        self.lr_scale = share if staleness_hint.lr_scale is None else staleness_hint.lr_scale
        self.done = 0
        self._learnt_samples = 0
        """Of the updates that the progress model has had."""
        self.version = 0
        self.t = 0.0
        self._report_s, self._change_s = REPORT_EVERY_S, schedule.next_change(0.0)
        self._evaluate_s = job.eval_every_s or math.inf
        self.next_timer_s = min(self._change_s, self._evaluate_s, self._report_s)
        shares_memory = spec.transport == "shm"
        self.shares_memory = shares_memory
        self.transfer_s = 0.0 if shares_memory else costs.transfer_s(sum(self.servers.num_bytes))
        self.data_s = costs.data_s(self.samples)
        self.real_s = costs.compute_s(self.samples)
        self.paced_s = None if profile is None else profile.seconds(self.samples)
        self.jitter = [
            Jitter(job.seed, worker, costs.jitter_sigma, costs.jitter_rho) for worker in range(job.num_workers)
        ]
        self.scored_s = costs.decision_s + costs.evaluation_s
        """When the result of the first evaluation, ordered at the start, is back."""
        self.targets = [str(NodeId.worker(number)) for number in range(job.num_workers)]

    # ---- around the loops --------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        try:
            return self._run()
        except OSError as error:
            if not is_full(error):
                raise
            return self._outcome("disk_full", no_space(error, self.spec.run_dir))

    def _run(self) -> Outcome:
        job = self.job
        self.record.note(0.0, "Injecting", active=self.schedule.active(0.0))
        self.record.note(0.0, "LayoutChanged", **job.start_layout.describe())
        self.record.note(0.0, "EpochStarted", epoch=0)
        batches = nominal_batches(job.global_batch_samples, job.num_workers)
        workers = tuple(range(job.num_workers))
        started = Started(
            t=0.0,
            workers=workers,
            batch_samples=batches,
            num_servers=job.num_servers,
            total_samples=job.total_samples,
            lr=job.lr,
            model_bytes=PARAMETER_BYTES * self.learner.num_parameters or None,
        )
        self.record.event(0.0, started, (), 0, 0.0, None)
        self._evaluate(0.0)
        self.servers.save(0.0)
        self._loop()
        return self._end()

    @abstractmethod
    def _loop(self) -> None:
        """Run until all iterations are done, time is up or a signal arrives.

        The coordinator is busy with its own start at first, and once more when the first evaluation returns.
        """

    @abstractmethod
    def _iterations(self) -> list[int]:
        """The number of iterations that each worker has finished."""

    def _end(self) -> Outcome:
        job = self.job
        status: Status = "done"
        if self.done == self.total:
            reason = f"{job.epochs} epochs done"
        elif self.spec.interrupted_by:
            status, reason = "interrupted", f"signal {self.spec.interrupted_by}"
        else:
            reason = f"max_time_s={job.max_time_s:g} reached"
            self.t = job.max_time_s
        self._timers(self.t)
        self._report(self.t)
        if metrics := self.learner.evaluate():
            self._evaluated(self.t, metrics)
        return self._outcome(status, reason)

    def _outcome(self, status: RunStatus, reason: str) -> Outcome:
        """Record and return the outcome."""
        job, all_done = self.job, self.done == self.total
        assert job.epochs is not None
        per_epoch = job.num_samples // self.samples
        per_shard = per_epoch // job.num_workers if self.spec.strategy.data == "even" else 1
        done = sum(own // per_shard for own in self._iterations())
        outcome = Outcome(
            status=status,
            reason=reason,
            t=self.t,
            version=self.version,
            epochs_done=job.epochs if all_done else self.done // per_epoch,
            samples_applied=self.done * self.samples,
            shards_done=done,
            shards_total=job.epochs * per_epoch // per_shard,
            parameters_sha256="",
            memory={},
            num_parameters=self.learner.num_parameters,
        )
        record_outcome(self.record, outcome)
        return outcome

    def _timers(self, t: float) -> None:
        """Run the timers due before ``t``, in order; no later update has been applied yet."""
        while self.next_timer_s < t:
            now = self.next_timer_s
            if now == self._change_s:
                self.record.note(now, "Injecting", active=self.schedule.active(now))
                self._change_s = self.schedule.next_change(now)
            elif now == self._evaluate_s:
                self._evaluate(now)
                self._evaluate_s += self.job.eval_every_s or math.inf
            else:
                self._report(now)
                self._report_s += REPORT_EVERY_S
            self.next_timer_s = min(self._change_s, self._evaluate_s, self._report_s)

    def _report(self, t: float) -> None:
        for about in self.servers.report():
            told = {"server": about.server, "version": self.version, "updates": about.updates}
            self.record.note(t, "Updated", **told, busy_s=about.busy_s, injected_s=about.injected_s)

    def _evaluate(self, t: float) -> None:
        if metrics := self.learner.evaluate():
            self._evaluated(t, metrics)

    def _evaluated(self, t: float, metrics: dict[str, float]) -> None:
        event = Evaluated(t=t, version=self.version, asked_s=t, metrics=metrics)
        self.record.event(t, event, (), self.version, 0.0, None)

    def _learn(self, samples: int, lr_scale: float) -> None:
        """Of one more update, at the rate of its place in the schedule."""
        if (progress := self.learner.progress) is not None:
            rate = self.job.lr * self.job.lr_at(self._learnt_samples) * lr_scale
            progress.update(samples, rate / progress.model.lr)
            self._learnt_samples += samples

    def own_s(self, factors: Floats) -> Floats:
        """Computing times with this jitter, without injected ones (``Workers._compute_s`` of the full runtime)."""
        if self.paced_s is None or self.real_s > self.paced_s:
            return self.real_s * factors
        return self.paced_s * factors + self.costs.sleep_overshoot_s

    def overrun_s(self, own_s: Floats) -> Floats:
        """By how much each of these is longer than the device that it emulates would take."""
        if self.paced_s is None or self.real_s <= self.paced_s:
            return np.zeros_like(own_s)
        return np.maximum(own_s - self.paced_s, 0.0)

    def _look(self) -> bool:
        """Show the view; return whether to continue."""
        self.spec.tick(self.t)
        return not self.spec.interrupted_by
