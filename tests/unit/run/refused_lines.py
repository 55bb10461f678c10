"""For every rule of ``runtime/run/checks/rules.py``, a command line that it refuses."""

from __future__ import annotations

RING = "topology=allreduce"
MLFABRIC = "strategy=mlfabric strategy.num_replicas=1 strategy.divergence_max=1 topology.num_servers=1"

REFUSED_LINES: dict[str, str] = {
    # topologies
    "parameter servers without a server": "topology.num_servers=0",
    "parameter servers and a collective": "topology.collective=ring",
    "shares for another number of servers": "topology.server_shares=[1,1,1]",
    "replicas and shares of servers": f"{RING} topology.server_shares=[1,1]",
    "replicas and servers": f"{RING} topology.num_servers=2",
    "replicas without a collective": f"{RING} topology.collective=null",
    "replicas and shared memory": f"{RING} topology.transport=shm",
    "strategy and topology": f"{RING} strategy=zeno_pp",
    "DDP and another framework": f"{RING} topology.collective=ddp backend=tensorflow",
    "NCCL and another framework": f"{RING} topology.collective=nccl backend=tensorflow",
    "rounded transfers on the virtual clock": "runtime=virtual topology.transfer_bits=16",
    "rounded transfers and replicas": f"{RING} topology.transfer_bits=16",
    "rounded transfers and shared memory": "topology.transport=shm topology.transfer_bits=16",
    "rounded transfers and replicas of the server": f"{MLFABRIC} topology.transfer_bits=16",
}
