"""Drives a session by the compiled loop as long as that knows what happens, and by Python else."""

from __future__ import annotations

from typing import Any, final

from runtime.native import EVENTS, native
from runtime.virtual.clock import Entry
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.event_loop.exchange import StateExchange, keeps_of
from runtime.virtual.event_loop.obstacles import lasting_obstacle, present_obstacle

CHUNK = 1 << 10
"""Decisions until a lab looks at views and signals."""
PATIENCE = 2, 4096
"""Actions that Python carries out before it tries again, at first and at most."""


def loop_of(session: VirtualSession) -> EventLoop | None:
    """The compiled loop for this job; None if there is none, or nearly every decision would be Python's."""
    obstacle = lasting_obstacle(session)
    session.spec.engine = "event_loop" if obstacle is None else f"python: {obstacle}"
    return EventLoop(session, native(EVENTS)) if obstacle is None else None


@final
class EventLoop:
    """One job, which is alone in its lab as long as :meth:`advance` is called."""

    def __init__(self, session: VirtualSession, module: Any) -> None:
        self.session, self.module = session, module
        self.exchange = StateExchange(session, module)
        self.loop = self.exchange.loop
        self._inside = False
        self._wait, self._patience = 0, PATIENCE[0]
        self._decided = 0

    def advance(self) -> int:
        """Carry out decisions, some at a time; returns how many steps that was, 0 if the next action is Python's."""
        if not self._inside and not self._enter():
            return 0
        module, session, loop = self.module, self.session, self.loop
        self._see()
        while True:
            try:
                why = loop.advance(CHUNK)
            except Exception as error:
                self._decided += loop.events
                if loop.event is None:  # no decision of the strategy: the disk is full, say
                    self.leave(full=True)
                    raise
                self._decide(error)
                return 1
            self._decided += loop.events
            session.clock.now, session.clock.timeline.sequence = loop.now, loop.sequence
            if why == module.FOREIGN and session.reports.only_notes(self._due()[3]):
                session.coordinator.executor.version = loop.version
                session.clock.timeline.step()
                self._see()
            else:
                break
        if why == module.PAUSE:
            return int(loop.events)
        if why == module.FOREIGN:
            self.leave()
            return 0
        if why == module.OVER:
            self.leave()
        else:
            self._decide()
        return 1

    def _enter(self) -> bool:
        if self._wait:
            self._wait -= 1
            return False
        if present_obstacle(self.session, *self.exchange.size) is not None:
            self._wait = self._patience
            return False
        self.exchange.enter()
        self._inside, self._decided = True, 0
        return True

    def leave(self, *, full: bool = False) -> None:
        """Let Python drive the job again; ``full``: no row can be written any more."""
        if not self._inside:
            return
        self.exchange.leave(full=full)
        core = self.session.coordinator
        logged = keeps_of(self.session.record) == "all"
        if self._decided and not logged and self.loop.event is None:  # else that follows
            core.dialogue.state = core.strategy.log_state()
        self._inside = False
        enough = self._decided >= len(core.members.members)
        self._patience = PATIENCE[0] if enough else min(2 * self._patience, PATIENCE[1])
        self._wait = 0 if enough else self._patience

    def _see(self) -> None:
        """Tell the loop when something is due that it does not know."""
        self.loop.sequence = self.session.clock.timeline.sequence
        self.loop.foreign_s, self.loop.foreign_priority, self.loop.foreign_sequence = self._due()[:3]

    def _due(self) -> Entry:
        entry = self.session.clock.timeline.peek()
        assert entry is not None, "a session reports forever"
        return entry

    def _decide(self, error: Exception | None = None) -> None:
        """Python ends a decision: the strategy has failed, or its answer is not known to the loop, or nobody works."""
        session, loop = self.session, self.loop
        event, answer, serves = loop.event, loop.answer, loop.serves
        self.leave()
        loop.event = loop.answer = None
        dialogue = session.coordinator.dialogue

        def answered() -> object:
            if error is not None:
                raise error
            return answer

        if event is None:
            session.inbox.decide(lambda t: dialogue.settle())
        else:
            session.inbox.decide(lambda t: dialogue.go_on(event, answered))
        if serves:
            session.inbox.serve_on()
