"""One virtual run: the coordinator, its machines, and the clock that carries messages between them."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from injectors.sleep import SleepActuator
from runtime.coordinator import Coordinator
from runtime.device import DeviceProfile
from runtime.spec import Experiment, Outcome, outcome_of, record_outcome
from runtime.virtual.clock import MESSAGE, TIMER, Clock
from runtime.virtual.costs import Costs
from runtime.virtual.learner import Learner
from runtime.virtual.network import Network
from runtime.virtual.port import VirtualPort
from runtime.virtual.servers import REPORT_EVERY_S, Servers
from runtime.virtual.workers import Iteration, Workers
from strategies.protocol import Evaluated, ProtocolError, Timings

LOOK_EVERY = 256
"""Steps between two looks at the wall clock, for the view."""
VIEW_EVERY_S = 0.25


class Stopwatch:
    """Measures decisions when they are charged; otherwise it stands still, so that records are reproducible."""

    def __init__(self, *, measures: bool) -> None:
        self.read = time.perf_counter if measures else lambda: 0.0
        self.spent_s = 0.0
        self._begun_s: float | None = None

    def __call__(self) -> float:
        """The coordinator reads it before and after every decision."""
        now = self.read()
        if self._begun_s is None:
            self._begun_s = now
        else:
            self.spent_s += now - self._begun_s
            self._begun_s = None
        return now

    def take_s(self) -> float:
        """Seconds measured since the last call."""
        spent, self.spent_s, self._begun_s = self.spent_s, 0.0, None
        return spent


class Saved(NamedTuple):
    """A checkpoint: parameters and the data service's state, of one version."""

    number: int
    version: int
    state: bytes
    dumped: Any


class Session:
    """Drives one job to its end; :meth:`lose_worker` and :meth:`lose_server` are accidents that may befall it."""

    def __init__(
        self,
        experiment: Experiment,
        actuator: SleepActuator,
        learner: Learner,
        costs: Costs,
        profile: DeviceProfile | None,
        *,
        measures_decisions: bool = False,
    ) -> None:
        job = experiment.job
        self.experiment, self.actuator, self.learner, self.costs = experiment, actuator, learner, costs
        self.record = experiment.record
        self.clock = Clock()
        self.servers = Servers(costs, learner.num_parameters, job.num_servers, actuator.delay_for)
        network, on_board = None, experiment.transport == "shm"
        if costs.link_bytes_per_s is not None and learner.num_parameters and not on_board:
            network = Network(self.clock, costs.link_bytes_per_s, job.num_workers, job.num_servers)
        self.workers = Workers(
            self.clock,
            costs,
            profile,
            self.servers,
            network,
            on_board=on_board,
            num_workers=job.num_workers,
            seed=job.seed,
            arrived=self._arrived,
        )
        self.port = VirtualPort(
            self.clock,
            learner,
            self.servers,
            self.workers,
            woke=self._woke,
            evaluated=self._evaluated,
            checkpointed=self._checkpointed,
        )
        self.stopwatch = Stopwatch(measures=measures_decisions)
        self.coordinator = Coordinator(
            job,
            experiment.strategy,
            self.port,
            self.record,
            disturb=actuator.delay_for,
            stopwatch=self.stopwatch,
        )
        self.failure: str | None = None
        self._busy_until_s = 0.0
        self._inbox: deque[Callable[[float], None]] = deque()
        self._generation = 0
        self._servers_back = True
        self._lost_servers = [0] * job.num_servers
        self._next_checkpoint = 0
        self._stable: Saved

    @property
    def over(self) -> bool:
        """Nothing more to do."""
        return self.failure is not None or self.coordinator.status is not None

    # ---- from beginning to end ---------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """All of it."""
        self.begin()
        seen_s, steps = -math.inf, 0
        while not self.over:
            self.clock.step()
            steps += 1
            if steps % LOOK_EVERY == 0:
                seen_s = self._look(seen_s)
        return self.end()

    def begin(self) -> None:
        """Everybody is there: the clock starts."""
        self._announce()
        self._checkpointed(0.0, 0, self.coordinator.snapshot(), self.learner.dump())
        self._drive(lambda _: self.coordinator.start())
        self.clock.at(REPORT_EVERY_S, TIMER, self._report)

    def end(self) -> Outcome:
        """The last report and the score of the final parameters, outside the job's time."""
        coordinator = self.coordinator
        if self.failure is None:
            t = coordinator.finished_s
            self.port.flush(t)
            self.servers.report(lambda kind, **fields: self.record.note(t, kind, **fields), coordinator.version)
            if metrics := self.learner.evaluate():
                event = Evaluated(t=t, version=coordinator.version, asked_s=t, metrics=metrics)
                self.record.event(t, event, (), coordinator.version, 0.0, None)
        outcome = outcome_of(
            coordinator,
            failure=self.failure,
            interrupted=bool(self.experiment.interrupted_by),
            t=coordinator.finished_s or self.clock.now,
            parameters_sha256=self.learner.finish(self.experiment.save_parameters_to),
            num_parameters=self.learner.num_parameters,
        )
        record_outcome(self.record, outcome)
        return outcome

    def _look(self, seen_s: float) -> float:
        """Show the view and obey an interrupt now and then."""
        if self.experiment.interrupted_by:
            self.coordinator.finish(self.clock.now, "interrupted", f"signal {self.experiment.interrupted_by}")
        now = time.monotonic()
        if now - seen_s < VIEW_EVERY_S:
            return seen_s
        self.experiment.tick(self.clock.now)
        return now

    # ---- the coordinator, which does one thing at a time -------------------------------------------------------------

    def _drive(self, call: Callable[[float], None]) -> None:
        """Let the coordinator react to something now, or when it is free; its orders leave when it has decided."""
        if not self._inbox and self.clock.now >= self._busy_until_s:
            self._handle(call)
            return
        self._inbox.append(call)
        if len(self._inbox) == 1:
            self.clock.at(self._busy_until_s, MESSAGE, self._serve)

    def _serve(self) -> None:
        """The next of those who wait, in their order."""
        self._handle(self._inbox.popleft())
        if self._inbox:
            self.clock.at(self._busy_until_s, MESSAGE, self._serve)

    def _handle(self, call: Callable[[float], None]) -> None:
        if self.over:
            return
        now = self.clock.now
        try:
            call(now)
        except ProtocolError as error:
            self.failure = f"the strategy broke a law: {error}"
            return
        self._busy_until_s = now + self.costs.decision_s + self.stopwatch.take_s()
        self.port.flush(self._busy_until_s)

    def _arrived(self, iteration: Iteration, timings: Timings, taken_s: float) -> None:
        order, (loss, sqr_norm, finite) = iteration.order, iteration.result
        about = (order.grad_id, order.worker, timings, loss, sqr_norm, finite)
        self.clock.at(
            taken_s + self.costs.control_s, MESSAGE, self._drive, lambda t: self.coordinator.arrived(t, *about)
        )

    def _woke(self, tag: str) -> None:
        self._drive(lambda t: self.coordinator.woke(t, tag))

    def _evaluated(self, asked_s: float, version: int, metrics: dict[str, float]) -> None:
        ready_s = asked_s + self.costs.evaluation_s
        self.clock.at(ready_s, MESSAGE, self._drive, lambda t: self.coordinator.evaluated(t, version, asked_s, metrics))

    def _checkpointed(self, asked_s: float, version: int, state: bytes, dumped: Any) -> None:
        """The servers write it; it counts when the last has done so."""
        saved = Saved(self._next_checkpoint, version, state, dumped)
        self._next_checkpoint += 1
        if saved.number == 0:
            self._stable = saved
        done_s, generation = self.servers.save(asked_s), self._generation
        self.clock.at(done_s + self.costs.control_s, MESSAGE, self._stored, saved, generation, asked_s)

    def _stored(self, saved: Saved, generation: int, asked_s: float) -> None:
        if generation == self._generation and not self.over:
            self._stable = saved
            self._note("Checkpointed", id=saved.number, version=saved.version, seconds=self.clock.now - asked_s)

    # ---- accidents ---------------------------------------------------------------------------------------------------

    # The coordinator is the supervisor too: what befalls a machine while it decides takes effect when it is free again.
    # Otherwise it would go on giving orders to the dead, and hear of a return before it has heard of the loss.

    def lose_worker(self, worker: int, reason: str, *, restarting: bool = True) -> None:
        """Its process is gone; with ``restarting`` the next incarnation joins after the time that this costs."""
        self._drive(lambda t: self._lost_worker(t, worker, reason, restarting))

    def _lost_worker(self, t: float, worker: int, reason: str, restarting: bool) -> None:
        member = self.coordinator.members.members[worker]
        if member.state == "left":
            return
        self.workers.lose(worker)
        gone = member.incarnation
        self._note("Exited", role="worker", id=worker, incarnation=gone, reason=reason)
        self.coordinator.worker_lost(t, worker, reason, restarting)
        if restarting:
            joined_s = t + self.costs.restart_s + self.costs.control_s
            self.clock.at(joined_s, MESSAGE, self._joined, worker, gone + 1)
        elif all(other.state == "left" for other in self.coordinator.members.members.values()):
            self.failure = "no worker is left"
        else:
            self._recover(t)

    def _joined(self, worker: int, incarnation: int) -> None:
        if self.coordinator.members.members[worker].incarnation == incarnation:
            self.workers.ready(worker, self.clock.now)
            self._drive(lambda t: self._join(t, worker, incarnation))

    def _join(self, t: float, worker: int, incarnation: int) -> None:
        self.coordinator.worker_joined(t, worker, incarnation)
        self._recover(t)

    def lose_server(self, server: int, reason: str) -> None:
        """Its part of the parameters is gone: everything stands still until all are back at the last checkpoint."""
        self._drive(lambda t: self._lost_server(t, server, reason))

    def _lost_server(self, t: float, server: int, reason: str) -> None:
        self._generation += 1
        self._servers_back = False
        gone = self._lost_servers[server]
        self._lost_servers[server] += 1
        self._note("Exited", role="server", id=server, incarnation=gone, reason=reason)
        self.workers.lose_all()
        self.coordinator.server_lost(t, server, gone, reason)
        self.port.discard()
        back_s = t + self.costs.restart_s + self.servers.restore_s() + self.costs.control_s
        generation = self._generation
        self.clock.at(back_s, MESSAGE, self._drive, lambda t: self._server_back(t, generation))

    def _server_back(self, t: float, generation: int) -> None:
        if generation == self._generation:
            self._servers_back = True
            self._recover(t)

    def _recover(self, t: float) -> None:
        """As the live supervisor does it: once all servers and all workers that restart are back."""
        if not self.coordinator.halted or not self._servers_back or self.coordinator.members.anyone_launching():
            return
        self.learner.load(self._stable.dumped)
        self.servers.begin_again(t)
        for worker in range(self.experiment.job.num_workers):
            self.workers.ready(worker, t)
        self.coordinator.restored(t, self._stable.version, self._stable.state)

    # ---- notes -------------------------------------------------------------------------------------------------------

    def _note(self, kind: str, **fields: object) -> None:
        self.record.note(self.clock.now, kind, **fields)

    def _report(self) -> None:
        self.servers.report(self._note, self.coordinator.version)
        self.clock.at(self.clock.now + REPORT_EVERY_S, TIMER, self._report)

    def _announce(self) -> None:
        """Write down which disturbances are open, now and whenever that changes."""
        now = self.clock.now
        self._note("Injecting", active=self.actuator.active(now))
        if math.isfinite(following := self.actuator.next_change(now)):
            self.clock.at(following, TIMER, self._announce)
