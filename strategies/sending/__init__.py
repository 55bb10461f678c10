"""When workers send the gradients that they hold: parts of systems that schedule transfers (pure).

``tree`` is the gate of updates whose gradients are summed on their way up, as ``subtrees`` says.
"""

from strategies.sending.tree import TreeGate

__all__ = ["TreeGate"]
