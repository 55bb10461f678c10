"""Synchronisation gates: which arrived gradients form the next update, and who may compute then.

A gate is a small object that load and node policies compose with: it never sees a batch size, a weight or a clock.
"""

from strategies.parts.gates.all import AllGate as AllGate
from strategies.parts.gates.alone import AloneGate as AloneGate
from strategies.parts.gates.base import Gate as Gate
from strategies.parts.gates.base import Verdict as Verdict
from strategies.parts.gates.bounded import BoundedGate as BoundedGate
from strategies.parts.gates.each import EachGate as EachGate
from strategies.parts.gates.groups import GroupsGate as GroupsGate
from strategies.parts.gates.quorum import QuorumGate as QuorumGate
from strategies.parts.gates.quorum import TimedQuorumGate as TimedQuorumGate
from strategies.parts.gates.ring import RingGate as RingGate
