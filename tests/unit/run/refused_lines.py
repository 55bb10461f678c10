"""For every rule about combinations of settings, a command line that it refuses."""

from __future__ import annotations

from runtime.house import ROOT

VIRTUAL = "runtime=virtual workload.target=null"
NONE = f"{VIRTUAL} backend=none"
RING = "topology=allreduce"
TRACES = ROOT / "tests/logs/public/ring_of_8"
STRAGGLAR = f"{RING} topology.collective=stragglar"
STEPS = (
    "workload.lr_schedule.name=step +workload.lr_schedule.milestones=[2] +workload.lr_schedule.unit=epochs "
    "+workload.lr_schedule.gamma=2.0"
)
NOISE = "strategy=star_h strategy.phi=null"
AWAY = "launcher=join launcher.listen=127.0.0.1"
RAY = "launcher=ray launcher.gpus_per_node=1 launcher.listen=127.0.0.1"
HOG = "straggler=gpu_hog"
HOSTS, DDP, SHM = "cluster=hosts", "topology.collective=ddp", "topology.transport=shm"
ROWS = f"{VIRTUAL} record=iterations"
LIST = "runtime=virtual jobs=list cluster=star_servers"
MODEL = "'jobs.entries=[{job: a, submit_s: 0, gpus: 2, iterations: 5, model: vgg13}]'"
GPU, FAKE = "backend.device=cuda", "backend.device=fake"
MLFABRIC = "strategy=mlfabric strategy.num_replicas=1 strategy.divergence_max=1 topology.num_servers=1"

REFUSED_LINES: dict[str, str] = {
    # backends, runtimes and records
    "agents elsewhere and the virtual clock": f"{AWAY} runtime=virtual",
    "backend and workload": "workload=ledger",
    "a live run without gradients": "backend=none",
    "a target that nobody measures": "runtime=virtual backend=none",
    "an end by a metric that nobody measures": f"{NONE} stop_at_convergence=true "
    "workload.convergence={evaluations:5,max_change:0.1}",
    "saved parameters without parameters": f"{NONE} save_parameters=true",
    "rows of iterations in a live run": "record=iterations",
    "evictions and a strategy that launches no node": "scheduler=quota scheduler.evict_after_s=5",
    # strategies
    "scores of gradients without gradients": f"{NONE} strategy=zeno_pp",
    "the gradient noise scale without gradients": f"{NONE} {NOISE}",
    "the gradient noise scale and DDP": f"{NOISE} {RING} strategy.topology=allreduce topology.collective=ddp",
    "the gradient noise scale and an optimizer that scales gradients": f"{NOISE} workload.optimizer.name=adam",
    "own steps and a progress model": f"{NONE} backend.progress=digits_mlp {RING} strategy=local_sgd",
    "replicas of several servers": f"{MLFABRIC} topology.num_servers=2",
    "replicas of the server without gradients": f"{NONE} {MLFABRIC}",
    "replicas of the server and checkpoints": f"{MLFABRIC} failover=checkpoint",
    "whole shards without servers": f"{RING} failover=whole_shards",
    "whole shards without a queue of shards": "failover=whole_shards strategy=asp_even",
    "whole shards and parts of a round": "failover=whole_shards strategy=coding_cyclic",
    "replicas of the server and an optimizer without a bound": f"{MLFABRIC} workload.optimizer.name=adagrad",
    "replicas of the server and steps without a bound": f"{MLFABRIC} +workload.optimizer.nesterov=true",
    "replicas of the server and a rising learning rate": f"{MLFABRIC} {STEPS}",
    # topologies
    "parameter servers without a server": "topology.num_servers=0",
    "parameter servers and a collective": "topology.collective=ring",
    "shares for another number of servers": "topology.server_shares=[1,1,1]",
    "replicas and shares of servers": f"{RING} topology.server_shares=[1,1]",
    "replicas and servers": f"{RING} topology.num_servers=2",
    "replicas without a collective": f"{RING} topology.collective=null",
    "modelled collectives and processes": f"{RING} topology.collective=stragglar topology.late_worker=0",
    "a collective for another number of workers": f"{NONE} {RING} topology.collective=halving_doubling "
    "cluster.num_workers=6",
    "blocks without a schedule": f"{RING} topology.blocks=2",
    "a traced sum without traces, or traces without one": f"{NONE} {RING} topology.collective=trace",
    "traces of another number of ranks": f"{NONE} {RING} topology.collective=trace topology.trace_dir={TRACES}",
    "StragglAR without a late worker": f"{NONE} {STRAGGLAR}",
    "a late worker that does not exist": f"{NONE} {STRAGGLAR} topology.late_worker=4",
    "a late worker and another collective": f"{RING} topology.late_worker=0",
    "a bound on another sum": f"{NONE} {RING} topology.bound_s=1",
    "a bound without messages": f"{NONE} {RING} topology.collective=transpose topology.bound_s=1",
    "a bound and parameters": f"{VIRTUAL} {HOSTS} {RING} topology.collective=transpose topology.bound_s=1",
    "replicas and shared memory": f"{RING} topology.transport=shm",
    "workers with pipeline stages and parameter servers": f"{NONE} cluster=hybrid",
    "micro-batches without samples": f"{NONE} {RING} cluster=hybrid cluster.replica.micro_batches=33",
    "strategy and topology": f"{RING} strategy=zeno_pp",
    "DDP and another framework": f"{RING} topology.collective=ddp backend=tensorflow",
    "NCCL and another framework": f"{RING} topology.collective=nccl backend=tensorflow",
    "rounded transfers on the virtual clock": "runtime=virtual topology.transfer_bits=16",
    "rounded transfers and replicas": f"{RING} topology.transfer_bits=16",
    "rounded transfers and shared memory": "topology.transport=shm topology.transfer_bits=16",
    "rounded transfers and replicas of the server": f"{MLFABRIC} topology.transfer_bits=16",
    # devices
    "GPUs and a backend on the CPU": "cluster.gpus={devices:[0]}",
    "NCCL without GPUs": f"{RING} topology.collective=nccl",
    "dropout in layers of the device": f"workload=transformer_wikitext2 workload.task.size.dropout=0.5 {GPU}",
    "DDP and a device": f"{RING} topology.collective=ddp {FAKE}",
    "a device and agents elsewhere without GPUs": f"{AWAY} {GPU}",
    "chosen GPUs and agents elsewhere": f"{RAY} {GPU} cluster.gpus={{devices:[0]}}",
    "NCCL and agents elsewhere": f"{RAY} {GPU} {RING} topology.collective=nccl",
    "chosen GPUs on the virtual clock": f"{VIRTUAL} {GPU} cluster.gpus={{devices:[0]}}",
    "parts of a GPU without MPS": f"{GPU} cluster.gpus={{mps_percent:[5]}}",
    "MPS on the virtual clock": f"{VIRTUAL} {FAKE} cluster.gpus={{share:mps}}",
    "MPS without containment": f"{GPU} cluster.gpus={{share:mps}} containment=none",
    "MPS and a set of jobs": f"{GPU} cluster.gpus={{share:mps}} jobs=list backend=torch",
    # disturbances that take a part of a GPU
    "a part of a GPU and agents elsewhere": f"{AWAY} {HOG}",
    "a part of a GPU and a backend on the CPU": HOG,
    # requested cores
    "requests without hosts": f"{NONE} strategy=dlrover strategy.cores_as=request straggler=none cluster=dlrover",
    "requests on hosts without a number of cores": f"{NONE} {HOSTS} strategy=optimus strategy.cores_as=request "
    "straggler=none cluster.hosts.cpu_cores=null",
    # disturbances on the virtual clock
    "a throttled processor and paced devices": f"{VIRTUAL} straggler=cpu_throttle",
    "requests and a part of a GPU": f"{VIRTUAL} {HOSTS} {FAKE} {HOG} strategy=optimus strategy.cores_as=request",
    "hosts and shared memory": f"{VIRTUAL} {HOSTS} topology.transport=shm",
    "concurrent delays and shared machines": f"{VIRTUAL} {HOSTS} cluster.costs=antdt_cluster_a_threads",
    "throttled links without a rate": f"{VIRTUAL} {HOSTS} straggler=link_throttle cluster.hosts.link_mbps=null",
    "throttled hosts without a quota": f"{VIRTUAL} {HOSTS} straggler=cpu_throttle cluster.hosts.cpu_cores=null "
    "straggler.targets=['host:0']",
    # commands that a strategy needs
    "parts of gradients and replicas": RING,
    "scores and replicas": RING,
    "reservations and replicas": RING,
    "ordered transfers and replicas": RING,
    "own steps and parameter servers": "",
    "own steps and a collective that sums gradients": f"{RING} topology.collective=nccl",
    "repartitioning and replicas": RING,
    "replicas outside of the ring and another collective": f"{RING} topology.collective=gloo",
    "fragments and another collective": f"{RING} topology.collective=gloo",
    "replicas outside of the ring and parameter servers": "",
    "sums while replicas compute and another collective": f"{RING} topology.collective=gloo",
    "sums while replicas compute and parameter servers": "",
    "ordered transfers and shared memory": SHM,
    "restarts and DDP": f"{RING} {DDP}",
    "dropped gradients and DDP": f"{RING} {DDP}",
    "dropped gradients and StragglAR": f"{RING} topology.collective=stragglar topology.late_worker=0",
    "iterations that end early and DDP": f"{RING} {DDP}",
    "nodes that come and go and shared memory": SHM,
    "nodes that come and go and DDP": f"{RING} {DDP}",
    "nodes that come and go and even parts of the data": "strategy.data=even",
    "scores and a backend without gradients": NONE,
    "ordered evaluations and a backend without a metric": NONE,
    "parts of gradients and rows of iterations": ROWS,
    "ordered transfers and rows of iterations": ROWS,
    "nodes that come and go and rows of iterations": ROWS,
    "reservations and rows of iterations": ROWS,
    # sets of jobs
    "agents elsewhere and a set of jobs": f"{AWAY} jobs=list",
    "live jobs that are only counted": "runtime=live jobs=list backend=torch replay.detail=gpus_only",
    "live jobs with the times of another model": "runtime=live jobs=list backend=torch replay.stand_in=true",
    "live jobs without gradients": "runtime=live jobs=list backend=none",
    "a set of jobs without hosts": "runtime=virtual jobs=list cluster=local",
    "a set of jobs and the placement of one": "runtime=virtual jobs=list cluster=star_servers "
    "cluster.hosts.placement=pack",
    "live jobs with DDP and preemption": "runtime=live jobs=list backend=torch cluster=hosts cluster.hosts.gpus=2 "
    f"policy=las {RING} topology.collective=ddp",
    "a set of jobs and another schedule than a ring": f"{LIST} {RING} topology.collective=tree",
    "a set of jobs without GPUs": "runtime=virtual jobs=list cluster=hosts",
    "a set of jobs and the speed of processors": f"{LIST} +runtime.speeds=[0.9]",
    # jobs of a set by themselves
    "gradients and a model of which only times are known": f"{LIST} {MODEL} backend=torch",
    "the times of another model and jobs without a model": f"{LIST} backend=torch replay.stand_in=true",
    "the times of another model without gradients": f"{LIST} {MODEL} replay.stand_in=true",
    # jobs of a set and their places
    "a set of jobs and replicas of the server": f"{LIST} backend=torch {MLFABRIC}",
    "a set of jobs and disturbances of what they share": f"{LIST} straggler=link_throttle",
    # jobs of a set among the others
    "preemption and aggregators": f"{LIST} policy=las strategy=star_h strategy.tree_fanout=2",
    "prevention where no job asks": f"{LIST} prevention=star",
    "disturbances and jobs that only hold their GPUs": f"{LIST} replay.detail=gpus_only straggler=persistent",
    "nodes asked for and jobs that only hold their GPUs": f"{LIST} strategy=dlrover replay.detail=gpus_only",
    "nodes asked for and preemption": f"{LIST} strategy=dlrover policy=las",
    "nodes asked for and servers on machines of one kind": f"{LIST} strategy=dlrover placement.servers_on=gpu",
    "a Brain that dies where no job asks": f"{LIST} replay.brain_away_s=[1,2]",
}
