"""Synchronisation gates: which arrived gradients form the next update, and who may compute then.

A gate is a small object that load and node policies compose with: it never sees a batch size, a weight or a clock.
"""

from strategies.parts.gates.all import AllGate
from strategies.parts.gates.base import Gate, Verdict
from strategies.parts.gates.bounded import BoundedGate
from strategies.parts.gates.each import EachGate
from strategies.parts.gates.groups import GroupsGate
from strategies.parts.gates.quorum import QuorumGate, TimedQuorumGate
from strategies.parts.gates.ring import RingGate

__all__ = [
    "AllGate",
    "BoundedGate",
    "EachGate",
    "Gate",
    "GroupsGate",
    "QuorumGate",
    "RingGate",
    "TimedQuorumGate",
    "Verdict",
]
