"""Scores on the virtual clock: the values from the model at once, their time from the cost model.

A reference gradient is computed by an undisturbed machine of its own: the parameters travel there after the servers'
earlier orders, the validation samples take the real computation's time, the gradient travels back (``transfer_s`` each,
on unshared links). A score is one pass of every server over its part, of ``update_per_byte_s``; updates and scores of a
server queue.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import final

from runtime.core import inputs
from runtime.virtual.clock import MACHINE, MESSAGE, Clock
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.model_state import ModelState
from runtime.virtual.tasks.servers import ServerGroup


@final
class Scorer:
    """Computes reference gradients and inner products, in modelled time.

    ``tell`` receives the results when the coordinator would. ``samples`` are held out; ``shares_memory``: parameters
    need not travel.
    """

    def __init__(
        self,
        clock: Clock,
        costs: Costs,
        model_state: ModelState,
        servers: ServerGroup,
        *,
        samples: int,
        shares_memory: bool,
        tell: Callable[[inputs.AnyInput], None],
    ) -> None:
        self.clock, self.costs, self.model_state, self.servers = clock, costs, model_state, servers
        self.tell = tell
        transfer_s = costs.transfer_s(sum(servers.num_bytes))
        self._reference_s = costs.data_s(samples) + costs.compute_s(samples) + transfer_s * (1 if shares_memory else 2)

    def compute_reference(self, number: int, sent_s: float) -> None:
        """Compute the reference on the current parameters."""
        self.model_state.compute_reference()
        self.servers.free(
            sent_s, lambda at_s: self.clock.at(at_s + self._reference_s, MACHINE, self._on_pushed, number)
        )

    def _on_pushed(self, number: int) -> None:
        """The servers take the reference after their earlier orders."""
        now, control_s = self.clock.now, self.costs.control_s
        ready = inputs.ReferenceReady(number)
        self.servers.free(now - control_s, lambda at_s: self.clock.at(at_s + control_s, MESSAGE, self.tell, ready))

    def inner_products(self, grad_id: int, reference: int, sent_s: float) -> None:
        """Compute the inner products; no result follows if the gradient was discarded."""
        parts = self.model_state.inner_products(grad_id, len(self.servers.names))
        for place, part in enumerate(parts):
            answer = inputs.ScorePart(self.servers.numbers[place], grad_id, reference, part)
            self.servers.inner_products(place, sent_s, partial(self._answer, answer))

    def _answer(self, answer: inputs.ScorePart, at_s: float) -> None:
        self.clock.at(at_s + self.costs.control_s, MESSAGE, self.tell, answer)
