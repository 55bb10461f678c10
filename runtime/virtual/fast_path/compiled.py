"""Regular asynchronous jobs by ``_waves.c``: it follows the events, and Python does what comes up now and then."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from runtime.virtual.fast_path.notes import Noted
from runtime.virtual.fast_path.regular import Floats
from runtime.virtual.fast_path.waves import Waves

INTEGERS = frozenset({"grads", "senders", "after", "drawn", "share"})
"""The arrays of a ``Wave`` that hold int64; the others hold float64."""


@final
class Compiled:
    """The loop over one job's events, ``module.Wave``, whose arrays Python fills and reads in place."""

    def __init__(self, run: Waves, module: ModuleType) -> None:
        self.run, self.module = run, module
        workers, bound, costs = run.job.num_workers, run.staleness_hint.bound, run.costs
        self.wave = module.Wave(
            rows=run.chunk(),
            workers=workers,
            block=run.block(),
            servers=run.job.num_servers,
            bound=-1 if bound is None else bound,
        )
        wave = self.wave
        self._views: dict[str, NDArray[Any]] = {}
        wave.decision_s, wave.control_s, wave.overshoot_s = costs.decision_s, costs.control_s, costs.sleep_overshoot_s
        wave.transfer_s, wave.data_s, wave.shares_memory = run.transfer_s, run.data_s, run.shares_memory
        wave.free_s, wave.reached_s = costs.decision_s, costs.decision_s + costs.control_s
        wave.idle_s = max(wave.reached_s, run.servers.idle_s)  # nobody could tell whether they have been idle before
        wave.total, wave.stop, wave.soon_s = run.total, run.chunk(), 0.0
        self._view("share")[:] = run.share
        self._handled_s = self._view("handled_s")
        self._settled = 0
        """Gradients of this chunk whose updates are counted."""
        self._blocks: list[Iterator[Floats]] = [run.own_blocks(worker) for worker in range(workers)]
        self._block_s = self._view("block_s").reshape(workers, -1)
        self._drawn = self._view("drawn")
        self._begin()

    def follow(self) -> None:
        """Follow the gradients of the job from one event to the next, until it ends."""
        wave, module = self.wave, self.module
        more = True
        looked: bool | None = False
        while more:
            why, looked = wave.advance(looked), False
            if why == module.SPENT:
                self._draw(wave.going)
            elif why == module.SOON:
                looked = self._look(wave.next_s)
                more = looked is not None
            elif why == module.FULL:
                self._land()
                more = self.run.continues()
                self.wave.stop = self.run.chunk()
            else:
                raise AssertionError("no gradient is on its way, but the job has not ended")
        self._land()

    def _draw(self, worker: int) -> None:
        self._block_s[worker] = next(self._blocks[worker])
        self._drawn[worker] = 0

    def _look(self, t: float) -> bool | None:
        """See to what is due; whether the gradient can be handled at ``t`` then, and None if time is up."""
        run, wave = self.run, self.wave
        arrived_s = float(self._view("taken_s")[wave.place]) + wave.control_s
        if arrived_s >= run.scores_s:  # the first evaluation has returned before
            wave.free_s = run.heard_s(wave.free_s)
            wave.next_s = max(arrived_s, wave.free_s)
            return False
        if t > run.job.max_time_s:
            return None
        if run.is_due(t):
            self._settle()
            run.look(t)
            self._begin()
        wave.soon_s = run.soon_s()
        return True

    def _begin(self) -> None:
        """Follow the servers, and what is asked of workers, as they are now."""
        distinct = self.run.updates.distinct
        self.wave.states = len(distinct)
        for state, (free_s, (busy_s, injected_s)) in enumerate(distinct):
            self._view("server_free_s")[state] = free_s
            self._view("server_busy_s")[state] = busy_s
            self._view("server_injected_s")[state] = injected_s
        for worker, (delay_s, slowdown_frac) in self.run.delayed.items():
            self._view("delay_s")[worker] = delay_s
            self._view("slowdown_frac")[worker] = slowdown_frac

    def _settle(self) -> None:
        """Count the updates of what has been handled."""
        wave, run = self.wave, self.run
        handled_s = self._handled_s[self._settled : wave.place]
        if len(handled_s):
            ends_s = self._view("server_free_s")[: wave.states].tolist()
            run.updates.settle_at(ends_s, len(handled_s), wave.idle_s)
            run.count(handled_s)
        self._settled = wave.place

    def _land(self) -> None:
        """Make rows of what has been handled."""
        self._settle()
        wave = self.wave
        sizes = dict.fromkeys(Noted._fields, wave.place) | dict.fromkeys(("after", "own_s", "injected_s"), wave.orders)
        self.run.flights.land(Noted(**{name: self._view(name)[:size] for name, size in sizes.items()}))
        wave.forget()
        self._settled = 0

    def _view(self, name: str) -> NDArray[Any]:
        """An array of the wave, by the name that it has there."""
        if name not in self._views:
            kind = np.int64 if name in INTEGERS else np.float64
            self._views[name] = np.frombuffer(getattr(self.wave, name), kind)
        return self._views[name]
