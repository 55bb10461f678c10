"""A strategy that asks for nodes at random, in a driver that validates after every event if the test says so."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

from runtime.core.membership import Membership
from strategies.protocol import Command, Repartition
from tests.support.elastic import Wanderer
from tests.support.validating import EVENTS, Validator

VALIDATE = "STRAGGLAB_TESTS_VALIDATE"
"""Environment of a driver: ``yes``, or ``planted`` with a mistake that validation must find."""


@dataclass(eq=False)
class ValidatedWanderer(Wanderer):
    """Validates the job in this process from its start on; replays in other processes do not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        validate = os.environ.pop(VALIDATE, "")
        if not validate:
            return
        validator = Validator()
        for owner, name, parts in EVENTS:
            setattr(owner, name, validator.around(getattr(owner, name), parts))
        if validate == "planted":
            Membership.lost = keeps_the_number(Membership.lost)  # type: ignore[method-assign]


class ValidatedReplicas(ValidatedWanderer):
    """The same without servers."""

    needs: ClassVar[frozenset[type[Command]]] = Wanderer.needs - {Repartition}
    topologies: ClassVar[frozenset[str]] = frozenset({"allreduce"})


def keeps_the_number(original: Any) -> Any:
    """What a dead incarnation is ordered still counts."""

    def lost(self: Membership, worker: int, restarting: bool) -> int:
        gone: int = original(self, worker, restarting)
        self.members[worker].incarnation = gone
        return gone

    return lost
