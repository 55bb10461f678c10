"""The auxiliary roles as data: tasks in addition to workers and servers, of which a job has at most one each.

An auxiliary task is a client of the servers. The coordinator orders the delivery of parameters to it under a ticket,
then what it is to do with them. Nobody waits for it while the job runs; after its loss another takes over.
"""

from __future__ import annotations

import msgspec

from runtime.live.transport.messages import Message, ReferenceReady, VersionEvaluated
from strategies.protocol import NodeId

TICKETS_EACH = 1 << 48
"""Number of tickets of a role; those below belong to gradients."""


class Auxiliary(msgspec.Struct, frozen=True, kw_only=True):
    """The traits in which the auxiliary roles differ."""

    name: str
    work: str
    """The class in ``runtime/live/tasks`` that carries out its orders, as ``module:name``."""
    first_ticket: int
    answer: type[Message]
    """Its answer to an order, the one message that is its own."""
    only_for_scores: bool
    """Whether only jobs with scored gradients have one."""
    outside_network: bool
    """Whether it reaches the servers by their outside address, so that the emulated links do not carry its traffic."""

    @property
    def node(self) -> NodeId:
        """The only task of this role."""
        return NodeId(self.name, 0)

    def ticket(self, number: int) -> int:
        """The ticket of the request ``number`` to this role."""
        return self.first_ticket + number

    def number(self, ticket: int) -> int:
        """The request of a ticket."""
        return ticket - self.first_ticket


SCORER = Auxiliary(
    name="scorer",
    work="runtime.live.tasks.scorer:References",
    first_ticket=2 * TICKETS_EACH,
    answer=ReferenceReady,
    only_for_scores=True,
    outside_network=True,
)
EVALUATOR = Auxiliary(
    name="evaluator",
    work="runtime.live.tasks.evaluator:Evaluations",
    first_ticket=TICKETS_EACH,
    answer=VersionEvaluated,
    only_for_scores=False,
    outside_network=True,
)
AUXILIARIES = {role.name: role for role in (SCORER, EVALUATOR)}
"""All roles by name, in the order of their launch."""


def auxiliaries_of(*, scores: bool) -> tuple[str, ...]:
    """Names of the auxiliary roles of a job; ``scores``: whether gradients are scored."""
    return tuple(role.name for role in AUXILIARIES.values() if scores or not role.only_for_scores)
