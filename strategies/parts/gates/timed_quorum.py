"""Gates that collect gradients until there are enough, or until a time has come; both are the gate's own decisions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from strategies.parts.gates.base import NOTHING, Verdict
from strategies.parts.gates.quorum import QuorumGate
from strategies.protocol import AnyEvent, Command, Wake, Woke


class TimedQuorumGate(QuorumGate):
    """Abstract: a :class:`QuorumGate` that is also asked when a time has come, though nothing arrives then.

    Besides :meth:`enough` it has :meth:`ask_at_s`, and mostly an ``observe_event`` that keeps ``event.t``, the time.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Wake})
    _timer_s: float | None = None

    @abstractmethod
    def ask_at_s(self) -> float | None:
        """The time (seconds of the job) from which on what waits may be enough by itself; None: not known, or never.

        Asked after every event while a gradient waits; a time that changes is followed.
        """

    def then(self, event: AnyEvent) -> Sequence[Verdict | Command]:
        """Update if the time has come and what waits is enough; else a timer for that time, if it has none yet."""
        due_s = self.ask_at_s() if self.buffer else None
        if due_s is None:
            self._timer_s = None
            return ()
        if due_s <= event.t:
            verdict = self._test()
            return () if verdict == NOTHING else (verdict,)
        tag = f"enough for {self.version + 1}"  # a timer of an update that is made sets no other
        if due_s == self._timer_s and not (isinstance(event, Woke) and event.tag == tag):
            return ()
        self._timer_s = due_s  # again if it fired early: a clock may round
        return (Wake(at_s=due_s, tag=tag),)
