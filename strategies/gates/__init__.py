"""Synchronisation gates: which arrived gradients form the next update, and who may compute then.

A gate is a small object that load and node policies compose with: it never sees a batch size, a weight or a clock.
"""

from strategies.gates.all import AllGate
from strategies.gates.base import Gate, Verdict
from strategies.gates.bounded import BoundedGate
from strategies.gates.each import EachGate
from strategies.gates.groups import GroupsGate
from strategies.gates.quorum import QuorumGate
from strategies.gates.ring import RingGate
from strategies.gates.timed_quorum import TimedQuorumGate

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
