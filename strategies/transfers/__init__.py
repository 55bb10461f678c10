"""Planned transfers: which worker sends its gradient when, by which way, and when replicas receive it (pure).

Workers announce gradients, and a planner gives each a time on the network instead of letting all share it. Files in
reading order: ``updates`` (the values), ``fluid`` (when a transfer ends, given what others have reserved), ``order``
(deadlines, shortest first, drops), ``aggregate`` (which neighbours in that order are summed on the way), ``replicate``
(how far a replica may lag), ``tree`` (who sends through whom where an update waits for many workers).

Source: Viswanathan, Balasubramanian and Akella, "Network-accelerated distributed machine learning for multi-tenant
settings" (MLfabric), SoCC 2020, from the slides of a talk about it; STAR's communication tree is that of its paper.
"""

from strategies.transfers.order import Order, plan
from strategies.transfers.updates import Dropped, Links, Slot, Update

__all__ = ["Dropped", "Links", "Order", "Slot", "Update", "plan"]
