"""A recovery in which a replica of the server takes over: when, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runtime.core.recovery import effects, inputs
from runtime.core.recovery.automaton import Recovery
from runtime.core.recovery.rules import Rules
from runtime.core.recovery.task import Key
from strategies.protocol import NodeId
from tests.support.members import recovery_of

FIRST, SECOND, THIRD = (NodeId.server(number) for number in range(3))


class Job:
    """Two workers, a server and its replicas; launches are answered by the test, and all else at once.

    Every replica has followed to version 7, and the checkpoint is of version 3.
    """

    def __init__(self, num_replicas: int = 1) -> None:
        self.recovery = recovery_of(Rules(num_replicas=num_replicas), 2, 1)
        self.news: list[effects.AnyEffect] = []
        self.back: list[tuple[int, tuple[Key, ...]]] = []
        """Version and holders of every return."""
        self.give(inputs.Begin())
        for key in list(self.recovery.tasks):
            self.launched(key)
        self.give(inputs.Save(3, b"three"))
        self.news.clear()

    def give(self, given: inputs.AnyInput) -> None:
        for effect in self.recovery.receive(given):
            self.news.append(effect)
            match effect:
                case effects.Store(number, savers=(saver,)):
                    self.give(inputs.Saved(saver, number))
                case effects.Load(number, generation, (saver,)):
                    told = (7, b"seven") if number == effects.FOLLOWED else (3, b"three")
                    self.give(inputs.Loaded(saver, generation, *told))
                case effects.Attach(key, generation):
                    self.give(inputs.Attached(key, self.recovery.tasks[key].incarnation, generation))
                case effects.Restored(version):
                    self.back.append((version, self.recovery.state.members.layout.holders))

    def launched(self, key: Key) -> None:
        self.give(inputs.Ready(key, self.recovery.tasks[key].incarnation))

    def die(self, key: Key) -> None:
        self.give(inputs.Gone(key, self.recovery.tasks[key].incarnation, "killed"))

    def follows(self, key: Key) -> None:
        self.give(inputs.Follows(key, self.recovery.tasks[key].incarnation))

    def joined(self) -> list[tuple[int, int]]:
        return [(one.server, one.incarnation) for one in self.news if isinstance(one, effects.ServerJoined)]

    def lost(self) -> list[tuple[int, bool]]:
        return [(one.server, one.holding) for one in self.news if isinstance(one, effects.ServerLost)]


def killed(job: Job) -> None:
    job.die(FIRST)


def held(job: Job) -> None:
    job.give(inputs.Hold(FIRST, "by the plan"))


@pytest.mark.parametrize("end", [killed, held])
def test_nobody_waits_for_the_old_server_which_comes_back_as_a_replica(end: Callable[[Job], None]) -> None:
    job = Job()
    end(job)
    assert job.back == [(7, (SECOND,))]
    job.give(inputs.Release(FIRST))
    job.launched(FIRST)
    assert job.joined() == [(0, 1)]
    job.follows(FIRST)
    job.die(SECOND)
    assert job.back[1:] == [(7, (FIRST,))]


def test_a_replica_needs_another_copy_after_every_return() -> None:
    job = Job(2)
    job.die(FIRST)
    assert job.back == [(7, (SECOND,))]
    job.die(SECOND)  # the third has followed the first, and not the second
    assert job.back[1:] == []
    job.launched(SECOND)
    assert job.back[1:] == [(3, (SECOND,))]
    job.follows(THIRD)
    job.die(SECOND)
    assert job.back[2:] == [(7, (THIRD,))]


def starting(*there: Key) -> tuple[Recovery, list[effects.AnyEffect]]:
    """One worker, a server and a replica, of which these are there; all orders are obeyed."""
    recovery, news = recovery_of(Rules(num_replicas=1), 1, 1), list[effects.AnyEffect]()
    start(recovery, news, inputs.Begin())
    for key in there:
        start(recovery, news, inputs.Ready(key, 0))
    return recovery, news


def start(recovery: Recovery, news: list[effects.AnyEffect], given: inputs.AnyInput) -> None:
    for effect in recovery.receive(given):
        news.append(effect)
        if isinstance(effect, effects.Attach):
            start(recovery, news, inputs.Attached(effect.key, 0, effect.generation))
        elif isinstance(effect, effects.Load):
            assert effect.number != effects.FOLLOWED
            start(recovery, news, inputs.Loaded(effect.savers[0], effect.generation, 0, b""))


def test_nobody_takes_over_before_the_job_has_begun() -> None:
    """Its next process begins with what the replica has, too, which can take over then."""
    recovery, news = starting(FIRST, SECOND)
    start(recovery, news, inputs.Gone(FIRST, 0, "killed"))
    start(recovery, news, inputs.Ready(FIRST, 1))
    start(recovery, news, inputs.Ready(NodeId.worker(0), 0))
    assert news[-1] == effects.Started()
    assert recovery.state.members.layout.holders == (FIRST,)
    found = recovery.receive(inputs.Gone(FIRST, 1, "killed"))
    assert effects.Load(effects.FOLLOWED, 2, (SECOND,)) in found
