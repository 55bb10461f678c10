"""When workers send the gradients that they hold: parts of systems that schedule transfers (pure).

``bandwidths`` says what links carry; ``ordered`` is the gate that plans (:mod:`strategies.transfers`), sends and
applies.
"""

from strategies.sending.ordered import ORDERS, OrderedGate

__all__ = ["ORDERS", "OrderedGate"]
