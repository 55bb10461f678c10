"""The vocabulary between a strategy and whatever runs it.

Events (``events``) are past tense, commands (``commands``) are imperative, both are made of ``values``; all are frozen,
keyword-only and serialisable (msgspec structs: created in about 0.2 us, encoded to JSON by the recorder, compared field
by field in tests). ``strategy`` is the interface of a plug-in. Everything is imported from here.

The life of one worker iteration::

    Compute -> (parameters of one version are delivered, gradient computed, pushed) -> Arrived -> Apply | Drop

Of a strategy that needs ``Send`` the worker holds its gradient until it is sent or dropped::

    Compute -> (parameters delivered, gradient computed) -> Ready -> Send -> (pushed) -> Arrived -> Apply | Drop
                                                                  -> Drop

A worker may first move parameters of its own by its gradients, which the next ``Apply`` names with all others;
workers may average such parameters meanwhile, push halves of them to others, or sum fragments of them::

    Compute -> Arrived -> StepAlone -> Average | PushHalf | SumFragment -> Compute -> Arrived -> StepAlone -> Apply

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
5. An invalid command raises :class:`ProtocolError` with what last happened to the worker concerned.
"""

from strategies.protocol.cluster import ClusterCommand as ClusterCommand
from strategies.protocol.cluster import JobPhase as JobPhase
from strategies.protocol.cluster import JobRequest as JobRequest
from strategies.protocol.cluster import JobState as JobState
from strategies.protocol.cluster import Machine as Machine
from strategies.protocol.cluster import Places as Places
from strategies.protocol.cluster import PreemptJob as PreemptJob
from strategies.protocol.cluster import StartJob as StartJob
from strategies.protocol.cluster import TaskDemand as TaskDemand
from strategies.protocol.commands import EVER_S as EVER_S
from strategies.protocol.commands import Allocate as Allocate
from strategies.protocol.commands import AnyCommand as AnyCommand
from strategies.protocol.commands import Apply as Apply
from strategies.protocol.commands import Average as Average
from strategies.protocol.commands import Checkpoint as Checkpoint
from strategies.protocol.commands import Command as Command
from strategies.protocol.commands import Compute as Compute
from strategies.protocol.commands import Drop as Drop
from strategies.protocol.commands import Evaluate as Evaluate
from strategies.protocol.commands import Launch as Launch
from strategies.protocol.commands import Partition as Partition
from strategies.protocol.commands import Priority as Priority
from strategies.protocol.commands import PushHalf as PushHalf
from strategies.protocol.commands import Repartition as Repartition
from strategies.protocol.commands import Replicate as Replicate
from strategies.protocol.commands import Reserve as Reserve
from strategies.protocol.commands import Restart as Restart
from strategies.protocol.commands import Retire as Retire
from strategies.protocol.commands import Score as Score
from strategies.protocol.commands import Send as Send
from strategies.protocol.commands import StepAlone as StepAlone
from strategies.protocol.commands import Stop as Stop
from strategies.protocol.commands import SumFragment as SumFragment
from strategies.protocol.commands import Wake as Wake
from strategies.protocol.events import AnyEvent as AnyEvent
from strategies.protocol.events import Arrived as Arrived
from strategies.protocol.events import Denied as Denied
from strategies.protocol.events import Evaluated as Evaluated
from strategies.protocol.events import Event as Event
from strategies.protocol.events import Failed as Failed
from strategies.protocol.events import Joined as Joined
from strategies.protocol.events import Lost as Lost
from strategies.protocol.events import Measured as Measured
from strategies.protocol.events import Observed as Observed
from strategies.protocol.events import Ready as Ready
from strategies.protocol.events import Replicated as Replicated
from strategies.protocol.events import Reserved as Reserved
from strategies.protocol.events import Restored as Restored
from strategies.protocol.events import Scheduling as Scheduling
from strategies.protocol.events import Scored as Scored
from strategies.protocol.events import ServerJoined as ServerJoined
from strategies.protocol.events import ServerLost as ServerLost
from strategies.protocol.events import Started as Started
from strategies.protocol.events import Updated as Updated
from strategies.protocol.events import Woke as Woke
from strategies.protocol.finished import FinishedJob as FinishedJob
from strategies.protocol.nodes import AGGREGATOR as AGGREGATOR
from strategies.protocol.nodes import NodeId as NodeId
from strategies.protocol.policy import Placement as Placement
from strategies.protocol.policy import Policy as Policy
from strategies.protocol.room import Room as Room
from strategies.protocol.room import Tenant as Tenant
from strategies.protocol.sharing import RESOURCES as RESOURCES
from strategies.protocol.sharing import Asked as Asked
from strategies.protocol.sharing import Demand as Demand
from strategies.protocol.sharing import Grant as Grant
from strategies.protocol.sharing import HostRoom as HostRoom
from strategies.protocol.sharing import JobLoad as JobLoad
from strategies.protocol.sharing import Prevention as Prevention
from strategies.protocol.sharing import Resource as Resource
from strategies.protocol.sharing import Share as Share
from strategies.protocol.sharing import TaskLoad as TaskLoad
from strategies.protocol.sharing import limit_of as limit_of
from strategies.protocol.strategy import DATA_POLICIES as DATA_POLICIES
from strategies.protocol.strategy import AggregatorsAt as AggregatorsAt
from strategies.protocol.strategy import CoresAs as CoresAs
from strategies.protocol.strategy import Strategy as Strategy
from strategies.protocol.values import Grad as Grad
from strategies.protocol.values import LossCause as LossCause
from strategies.protocol.values import NodeUse as NodeUse
from strategies.protocol.values import Part as Part
from strategies.protocol.values import ProtocolError as ProtocolError
from strategies.protocol.values import Timings as Timings
from strategies.protocol.values import split_evenly as split_evenly
