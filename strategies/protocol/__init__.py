"""The vocabulary between a strategy and whatever runs it.

Events (``events``) are past tense, commands (``commands``) are imperative, both are made of ``values``; all are frozen,
keyword-only and serialisable (msgspec structs: created in about 0.2 us, encoded to JSON by the recorder, compared field
by field in tests). ``strategy`` is the interface of a plug-in. Everything is imported from here.

The life of one worker iteration::

    Compute -> (parameters of one version are delivered, gradient computed, pushed) -> Arrived -> Apply | Drop

Of a strategy that needs ``Send`` the worker holds its gradient until it is sent or dropped::

    Compute -> (parameters delivered, gradient computed) -> Ready -> Send -> (pushed) -> Arrived -> Apply | Drop
                                                                  -> Drop

Laws
----
1. ``handle`` is synchronous, total and single-threaded; its output depends only on the hyper-parameters and on the
   events so far. ``event.t`` is non-decreasing seconds since the start of the job on the coordinator's clock. Workers
   report durations, never timestamps.
2. Every ``Compute`` ends in exactly one of ``Arrived``, ``Failed`` and ``Lost``, or is voided with everything else that
   is outstanding by a ``Restored``. Results of a dead incarnation never arrive. With ``Send`` a ``Ready`` comes before
   ``Arrived``; then a ``Drop`` ends the Compute, too.
3. Commands are carried out in order: ``Apply`` then ``Compute`` computes on the updated parameters.
4. A gradient is a handle to the **sum** over its samples. It is used up by exactly one ``Apply`` or ``Drop``. One that
   is held is sent at most once, and its worker is busy until it has arrived or is dropped.
5. An unlawful command raises :class:`ProtocolError` with what last happened to the worker concerned.
"""

from strategies.protocol.cluster import (
    ClusterCommand,
    JobPhase,
    JobRequest,
    JobState,
    Machine,
    Places,
    PreemptJob,
    StartJob,
    TaskDemand,
)
from strategies.protocol.commands import (
    Allocate,
    AnyCommand,
    Apply,
    Checkpoint,
    Command,
    Compute,
    Drop,
    Evaluate,
    Launch,
    Partition,
    Priority,
    Repartition,
    Replicate,
    Reserve,
    Restart,
    Retire,
    Score,
    Send,
    Stop,
    Wake,
)
from strategies.protocol.division import split_evenly
from strategies.protocol.events import (
    AnyEvent,
    Arrived,
    Denied,
    Evaluated,
    Event,
    Failed,
    Joined,
    Lost,
    Measured,
    Observed,
    Ready,
    Replicated,
    Reserved,
    Restored,
    Scheduling,
    Scored,
    ServerJoined,
    ServerLost,
    Started,
    Updated,
    Woke,
)
from strategies.protocol.nodes import AGGREGATOR, NodeId
from strategies.protocol.policy import Placement, Policy
from strategies.protocol.room import Room, Tenant
from strategies.protocol.sharing import (
    RESOURCES,
    Asked,
    Demand,
    Grant,
    HostRoom,
    JobLoad,
    Prevention,
    Resource,
    Share,
    TaskLoad,
    limit_of,
)
from strategies.protocol.strategy import DATA_POLICIES, AggregatorsAt, CoresAs, Strategy
from strategies.protocol.timings import Timings
from strategies.protocol.values import Grad, LossCause, NodeUse, Part, ProtocolError

__all__ = [
    "AGGREGATOR",
    "DATA_POLICIES",
    "RESOURCES",
    "AggregatorsAt",
    "Allocate",
    "AnyCommand",
    "AnyEvent",
    "Apply",
    "Arrived",
    "Asked",
    "Checkpoint",
    "ClusterCommand",
    "Command",
    "Compute",
    "CoresAs",
    "Demand",
    "Denied",
    "Drop",
    "Evaluate",
    "Evaluated",
    "Event",
    "Failed",
    "Grad",
    "Grant",
    "HostRoom",
    "JobLoad",
    "JobPhase",
    "JobRequest",
    "JobState",
    "Joined",
    "Launch",
    "LossCause",
    "Lost",
    "Machine",
    "Measured",
    "NodeId",
    "NodeUse",
    "Observed",
    "Part",
    "Partition",
    "Placement",
    "Places",
    "Policy",
    "PreemptJob",
    "Prevention",
    "Priority",
    "ProtocolError",
    "Ready",
    "Repartition",
    "Replicate",
    "Replicated",
    "Reserve",
    "Reserved",
    "Resource",
    "Restart",
    "Restored",
    "Retire",
    "Room",
    "Scheduling",
    "Score",
    "Scored",
    "Send",
    "ServerJoined",
    "ServerLost",
    "Share",
    "StartJob",
    "Started",
    "Stop",
    "Strategy",
    "TaskDemand",
    "TaskLoad",
    "Tenant",
    "Timings",
    "Updated",
    "Wake",
    "Woke",
    "limit_of",
    "split_evenly",
]
