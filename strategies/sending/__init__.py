"""When workers send the gradients that they hold: parts of systems that schedule transfers (pure).

``bandwidths`` says what links carry; ``ordered`` is the gate that plans (:mod:`strategies.transfers`), sends and
applies; ``tree`` is that of updates whose gradients are summed on their way up, as ``subtrees`` says.
"""

from strategies.sending.ordered import ORDERS, OrderedGate
from strategies.sending.tree import TreeGate

__all__ = ["ORDERS", "OrderedGate", "TreeGate"]
