"""Regular jobs of bound 0: every round is one update of all, and numpy holds the workers of many rounds at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from runtime.virtual.fast_path.chains import Chain, handled_s
from runtime.virtual.fast_path.regular import TICK_EVERY, Floats, RegularRun
from runtime.virtual.tasks.jitter import BLOCK, Jitter

MANY_ROWS, FEW_ROUNDS = 1 << 15, 4
"""Iterations that are computed at once; fewer rounds than these are computed one by one."""


@final
class Rounds(RegularRun):
    """The loop for bound 0, see :mod:`runtime.virtual.fast_path.regular`.

    :meth:`_one` computes a round as it happens. :meth:`_many` guesses which additions lead from each round to the next,
    and keeps the rounds for which the guess holds to the bit.
    """

    _until_s = -math.inf
    """The time until which the delays that were looked up last are valid."""
    _block = -1
    """The block of jitter that ``_matrix`` holds."""
    _issued_s = 0.0
    """When the current round was ordered."""
    _last_s = math.inf
    """How long the last round took."""

    def _loop(self) -> None:
        self._scores_s = self.scored_s if self.costs.decision_s else math.inf
        self._sent_s, self._idle_since_s = self.costs.decision_s, np.zeros(self.job.num_workers)
        looked = 0
        while self.done < self.total:
            if not self._many() and not self._one():
                return
            if self.done - looked >= TICK_EVERY:
                looked = self.done
                if not self._look():
                    return

    # ---- one round ---------------------------------------------------------------------------------------------------

    def _one(self) -> bool:
        """The next round; False if it would end too late."""
        workers, costs, servers = self.job.num_workers, self.costs, self.servers
        reached_s = self._sent_s + costs.control_s
        loaded_s = reached_s + self.data_s
        sent_params_s = max(reached_s, servers.idle_s)
        delivered_s = sent_params_s + self.transfer_s
        pulled_s = max(loaded_s, delivered_s)
        own_s, overrun_s, injected_s = self._compute(1)
        since_s = pulled_s + (own_s + injected_s)
        taken_s = since_s + self.transfer_s  # the servers are idle: a round pulls what they have updated
        arrived_s = taken_s + costs.control_s
        queue = arrived_s
        if costs.decision_s:
            queue = handled_s(np.hstack([[[self._scores_s]], arrived_s]), self._sent_s, costs.decision_s)
        handled = queue[:, -workers:]
        t = float(handled.max())
        if t > self.job.max_time_s:
            return False
        if queue[0, 0] <= t:
            self._scores_s = math.inf
        self._timers(t)
        self._write(
            handled,
            wait_s=np.maximum(0.0, reached_s - self._idle_since_s),
            pull_s=pulled_s - loaded_s,
            compute_s=own_s + injected_s,
            send_s=taken_s - since_s,
            injected_s=injected_s,
            overrun_s=overrun_s,
            recv_s=max(0.0, delivered_s - max(sent_params_s, loaded_s)),
        )
        self._advance(1)
        self._end_round(t, taken_s[0])
        return True

    def _advance(self, rounds: int) -> None:
        """Count so many rounds."""
        workers = self.job.num_workers
        self.version += rounds
        self.done += rounds * workers
        if self.learner.progress is not None:
            for _ in range(rounds):
                self._learn(self.samples * workers, self.lr_scale)

    def _end_round(self, t: float, taken_s: Floats) -> None:
        """The last round that is counted has ended: order its update and the next round."""
        self._last_s, self.t, self._issued_s, self._sent_s = t - self.t, t, t, t + self.costs.decision_s
        self._idle_since_s = taken_s
        self.servers.update(self._sent_s, self.job.num_workers)

    def _write(self, handled: Floats, **durations: Any) -> None:
        """Record rounds from the current one on: ``handled`` and the durations are [rounds, workers] or broadcast."""
        rounds, workers = handled.shape
        version = self.version + np.arange(rounds).repeat(workers)
        wide = {name: np.broadcast_to(value, handled.shape).ravel() for name, value in durations.items()}
        columns: Mapping[str, Any] = {
            "worker": np.tile(np.arange(workers), rounds),
            "iteration": version,
            "grad": np.arange(self.version * workers, (self.version + rounds) * workers),
            "version_read": version,
            "samples": self.samples,
            "assigned_samples": self.samples,
            "applied_version": version + 1,
            "t": handled.ravel(),
            "data_s": self.data_s,
            "applied_t": handled.max(axis=1).repeat(workers),
            **wide,
        }
        self.rows.block(columns)

    # ---- many rounds -------------------------------------------------------------------------------------------------

    def _many(self) -> int:
        """The next rounds, as far as they are regular, at once; returns how many."""
        rounds = self._ahead()
        if rounds < FEW_ROUNDS:
            return 0
        costs, servers = self.costs, self.servers
        own_s, overrun_s, injected_s = self._compute(rounds)
        compute_s = own_s + injected_s
        durations = servers.durations(self._sent_s, self.job.num_workers)
        chain = Chain(
            compute_s,
            durations,
            begun_s=(self._sent_s, servers.idle_s),
            data_s=self.data_s,
            transfer_s=self.transfer_s,
            control_s=costs.control_s,
            decision_s=costs.decision_s,
        )
        late = int(np.searchsorted(chain.t, self.job.max_time_s, "right"))
        change = int(np.searchsorted(chain.sent_s, self._until_s))
        scored = int(np.searchsorted(chain.t, self._scores_s))
        if (rounds := min(chain.valid, late, max(1, change), scored)) == 0:
            return 0
        columns = chain.columns(rounds, self._idle_since_s)
        self._write(chain.handled_s[:rounds], **columns, injected_s=injected_s[:rounds], overrun_s=overrun_s[:rounds])
        done, t = 0, chain.t[:rounds]
        while self.next_timer_s < t[-1]:
            number = int(np.searchsorted(t, self.next_timer_s, "right"))
            servers.count(durations, number - done)
            self._advance(number - done)
            self._timers(float(t[number]))
            done = number
        servers.count(durations, rounds - 1 - done)
        self._advance(rounds - done)
        before_s = self.t if rounds == 1 else float(t[-2])
        self.t = before_s
        self._end_round(float(t[-1]), chain.taken_s[rounds - 1])
        return rounds

    def _ahead(self) -> int:
        """How many rounds to try: the first is not regular, and what changes ends them."""
        if not self.version:
            return 0
        rounds = min(self.total // self.job.num_workers - self.version, MANY_ROWS // self.job.num_workers)
        if self.costs.jitter_sigma:
            rounds = min(rounds, BLOCK - self.version % BLOCK)
        change_s = self.schedule.next_change(self._issued_s)
        return rounds if change_s == math.inf else min(rounds, 2 + int((change_s - self._issued_s) / self._last_s))

    # ---- computing ---------------------------------------------------------------------------------------------------

    def _iterations(self) -> list[int]:
        return [self.version] * self.job.num_workers

    def _factors(self, rounds: int) -> Floats:
        """Of the next rounds, float64 [rounds, workers]."""
        if not self.costs.jitter_sigma:
            return np.ones((rounds, self.job.num_workers))
        block, column = divmod(self.version, BLOCK)
        if block != self._block:
            count = min(BLOCK, self.total // self.job.num_workers - self.version)
            self._block, self._matrix = block, Jitter.blocks(self.jitter, count)
        found: Floats = self._matrix[column : column + rounds]
        return found

    def _compute(self, rounds: int) -> tuple[Floats, Floats, Floats]:
        """Seconds of the next rounds: computing, the part of it by which devices are too slow, injected."""
        own_s = self.own_s(self._factors(rounds))
        asked_s = self._asked(own_s)
        injected_s = np.where(asked_s > 0, asked_s + self.costs.sleep_overshoot_s, 0.0)
        return own_s, self.overrun_s(own_s), injected_s

    def _asked(self, own_s: Floats) -> Floats:
        """Injected delays of the current round; looked up again only after a window opened or closed."""
        t = self._issued_s
        if t >= self._until_s:
            found = np.array([self.schedule.delay_for(target, t) for target in self.targets])
            self._delays, self._slowdowns = found[:, 0], found[:, 1]
            self._until_s = self.schedule.next_change(t)
        asked_s: Floats = self._delays + self._slowdowns * own_s
        return asked_s
