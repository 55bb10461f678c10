"""Command lines that are refused, and what of the answer helps."""

from __future__ import annotations

HYBRID = "runtime=virtual topology=allreduce cluster=hybrid workload.target=null"
REPLICATED = (
    "runtime=virtual topology.num_servers=1 strategy=mlfabric strategy.num_replicas=1 strategy.divergence_max=1"
)

BAD_LINES: list[tuple[str, str]] = [
    # names that do not exist
    ("strategy=spp", "strategy=spp: no such strategy; did you mean ssp? ("),
    ("strategy=ssp strategy.bonud=3", "strategy.bonud=3: no such setting of strategy=ssp; did you mean"),
    ("strategy=bsp strategy.bound=3", "strategy.bound=3: no such setting of strategy=bsp (data, "),
    ("strategy=composed strategy.load.min_batch_samples=99", "strategy.load.min_batch_samples=99: 4 workers would"),
    (
        "strategy=composed strategy.decide_every_s=99",
        "strategy.detectors.stragglers.short_window_s=6.0: must be at least",
    ),
    ("strategy=ssp +strategy.bonud=3", "strategy.bonud: no such setting; did you mean strategy.bound?"),
    ("workload.optimizer.name=sgdd", "sgdd"),
    ("qwertyuiop=3", "python run.py --help lists them all"),
    ("hydra/launcher=nope", "no such hydra/launcher"),
    ("hydra/launcher=ray", "pip install hydra-ray-launcher"),
    ("--config-name nope", "nope"),
    ("--config-dir /nope", "--config-dir /nope: no such directory"),
    ("hydra.searchpath=[file:///nope]", "is not available"),
    # values
    ("cluster.num_workers=1e3", "cluster.num_workers=1000.0: must be a whole number, at least 1"),
    ("cluster.num_workers=???", "cluster.num_workers: missing"),
    ("runtime.heartbeat_s=0", "runtime.heartbeat_s=0: must be at least 0.001"),
    ("strategy=bsp\N{NO-BREAK SPACE}seed=1", "strategy=bsp seed=1: is several settings in one word; give each as"),
    (
        f"{HYBRID} cluster.replica.parts=[1,1]",
        "cluster.replica.parts=[1, 1]: must be a list of 3",
    ),
    ("runtime=virtual cluster=hosts cluster.hosts.device={bas_s:1.0}", "cluster.hosts.device: has no bas_s; its"),
    ("workload=wide_deep_adult workload.task.size.hidden=64", "workload.task.size.hidden=64: must be a list"),
    ("straggler=persistent straggler.sleep_iters=1e9", "straggler.sleep_iters=1000000000.0: makes a delay of"),
    ("runtime.lease_s=0.6", "runtime.lease_s=0.6: must be at least twice heartbeat_s=0.5"),
    ("runtime.port=70000", "runtime.port=70000: must be between 0"),
    ("strategy=star_h strategy.phi=null workload.optimizer.name=foo", "workload.optimizer.name=foo: must be one of "),
    (
        "topology=allreduce topology.collective=ddp launcher=join launcher.listen=127.0.0.1",
        "topology.collective=ddp: whoever reaches its ports could take part, since its connections prove no token; use",
    ),
    (
        "topology=allreduce topology.collective=gloo launcher=join launcher.listen=127.0.0.1 launcher.tls=true",
        "launcher.tls=true: the connections of topology.collective=gloo are not encrypted; use ",
    ),
    (
        "runtime=virtual jobs=list cluster=star_servers cluster.device.base_s=-1",
        "job first: cluster.device: base_s=-1.0",
    ),
    (
        "straggler=transient_and_persistent straggler.patterns.persistent.targets=[worker:9]",
        "straggler.patterns.persistent.targets=worker:9: there is no such target",
    ),
    (
        "straggler=persistent straggler.targets=['rank:(0,0,0)']",
        "straggler.targets=rank:(0,0,0): here workers have no ranks; choose cluster=hybrid runtime=virtual",
    ),
    (
        f"{HYBRID} runtime=live straggler=persistent straggler.targets=['rank:(0,0,0)']",
        "runtime=live: the cluster is only modelled (its workers have pipeline stages",
    ),
    (
        f"{HYBRID} topology=ps straggler=persistent straggler.targets=['rank:(0,0,0)']",
        "topology=ps: ranks of cluster.replica sum their gradients with the other replicas; choose",
    ),
    *(
        (
            f"{HYBRID} straggler=persistent straggler.targets=['{target}']",
            f"straggler.targets={target}: there is no such target; valid are worker:0 to worker:3, rank:(0,0,0) to "
            "rank:(3,3,1), link:0:(0,1) to link:3:(2,3)",
        )
        for target in ("rank:(4,0,0)", "rank:(0,4,0)", "rank:(0,0,2)", "link:4:(0,1)", "link:0:(3,4)")
    ),
    (
        f"{HYBRID} straggler=persistent straggler.targets=['link:3:(0,2)']",
        "straggler.targets=link:3:(0,2): stages 0 and 2 are not neighbours, so nothing passes between them; name",
    ),
    (
        f"{HYBRID} straggler=persistent straggler.targets=['link:3:(2,1)']",
        "straggler.targets=link:3:(2,1): write link:3:(1,2), the lower stage first",
    ),
    (
        f"{HYBRID} straggler=bytedance straggler.targets=['rank:*']",
        "straggler.targets=rank:*: are on 4 stages, but the trace has only 2; use cluster.replica.pipeline=2, or",
    ),
    (
        f"{HYBRID} straggler=bytedance straggler.targets=['rank:(0,0,0)','worker:1']",
        "straggler.targets=rank:(0,0,0), worker:1: name either ranks of workers, or none",
    ),
    (
        "straggler=cpu_throttle straggler.targets=[host:0] launcher=join launcher.listen=127.0.0.1",
        "straggler.targets=host:0: launcher=join disturbs workers, servers and links, and no hosts; name worker:0",
    ),
    (
        "straggler=link_throttle straggler.targets=[link:2] launcher=join launcher.listen=127.0.0.1 "
        "launcher.link_mbps=9",
        "straggler.targets=link:2: there is no such target; valid are worker:0 to worker:3, server:0 to server:1, link",
    ),
    ("launcher=join launcher.listen=127.0.0.1 launcher.link_mbps=0", "launcher.link_mbps=0: must be more than 0"),
    (
        "topology=allreduce straggler=link_throttle launcher=join launcher.listen=127.0.0.1 launcher.link_mbps=9 "
        "launcher.shared_dir=/tmp",
        "topology.collective=ring: link:0 is slowed by pacing what workers and servers send to each other, and not",
    ),
    (
        "straggler=on_off straggler.kind=cut straggler.magnitude=1 straggler.targets=[link:0] launcher=join "
        "launcher.listen=127.0.0.1",
        "launcher=join: connections can be paced, and nothing cuts link:0; choose kind bandwidth, or",
    ),
    ("topology.transport=shm launcher=join launcher.listen=127.0.0.1", "topology.transport=shm: machines share no"),
    ("strategy=mlfabric strategy.tau_max=2", "strategy.tau_max=2: while one of 4 workers computes, 3 updates of"),
    (
        "runtime=virtual strategy=mlfabric strategy.lr_rule=unit strategy.num_aggregators=1",
        "strategy: has aggregators (1; num_aggregators or tree_fanout), which are tasks of hosts; choose cluster=hosts",
    ),
    (
        "runtime=virtual cluster=hosts strategy=mlfabric strategy.lr_rule=unit strategy.num_aggregators=3",
        "strategy: has aggregators (3; num_aggregators or tree_fanout), each on a host of its own without a server, "
        "and only 2 of 4 hosts have none",
    ),
    (
        "launcher=join launcher.listen=127.0.0.1 strategy=mlfabric strategy.num_replicas=1 strategy.divergence_max=1 "
        "topology.num_servers=1",
        "strategy.num_replicas=1: replicas share memory with their server",
    ),
    (
        f"{REPLICATED} +workload.optimizer.weight_decay=0.1",
        "workload.optimizer.weight_decay=0.1: strategy.num_replicas=1 needs steps that norms of gradients bound",
    ),
    (
        f"{REPLICATED} workload.lr_schedule.name=step +workload.lr_schedule.milestones=[2] "
        "+workload.lr_schedule.unit=epochs +workload.lr_schedule.gamma=half",
        "workload.lr_schedule.gamma=half: must be a number, more than 0",
    ),
    (
        f"{REPLICATED} strategy.lr_rule=unit strategy.num_aggregators=1",
        "strategy.num_replicas=1: receive gradients from their workers, and num_aggregators=1 sends sums",
    ),
    ("stop_at_target=true workload.target=null", "stop_at_target=true: there is no target to reach; set"),
    ("stop_at_target=true eval_every_s=null", "stop_at_target=true: eval_every_s=null evaluates nothing while the"),
    ("cluster=hosts cluster.hosts.count=251", "cluster.hosts.count=251: must be at most 250"),
    ("workload=ledger backend=numpy workload.batches_per_shard=100", "makes 2 shards of 2000 samples, fewer than two"),
    (
        "workload=lstm_wikitext2 +workload.task.dataset.vocabulary=100",
        "workload.task.dataset.vocabulary=100: WikiText-2 has 33278 different words, so at least that many",
    ),
    ("runtime.evaluator_niceness=20", "runtime.evaluator_niceness=20: must be between 0 and 19"),
    ("runtime.start_deadline_s=0", "runtime.start_deadline_s=0.0: must be more than 0 (null for one that suits)"),
    ("seed=${nope}", "seed: refers to nope, which is not set"),
    ("strategy=ssp strategy.bound=-1", "strategy.bound=-1: must be 0 or more (null for no bound)"),
    ("strategy=zeno_pp strategy.validation_samples=1438", "strategy.validation_samples=1438: leaves 0 of the 1438"),
    ("strategy=lb_bsp strategy.min_batch_samples=33", "strategy.min_batch_samples=33: 4 workers would need 132"),
    ("strategy=antdt_dd strategy.max_batch_samples=6", "strategy.max_batch_samples=6: the largest micro-batches"),
    ("hydra.run.dir=/dev/null/x", "hydra.run.dir=/dev/null/x: cannot be written (not a directory); choose another"),
    # form
    ("strategy", "strategy: must be written setting=value"),
    ("'jobs.job_column=Job (id)'", """within those of the shell: 'jobs.job_column="Job (id)"'"""),
    ("seed=[1", "seed=[1: cannot be read"),
    ("seed=0,1", "seed=0,1: several values are a sweep: add -m"),
    ("strategy=null", "strategy=null: exactly one strategy is chosen ("),
    ("~seed", "seed: missing"),
    ("--multirunn", "unrecognized arguments: --multirunn; --help lists what there is"),
    ("--strategy=asp", "--strategy=asp: a setting has no dashes; write strategy=asp"),
    ("-o out", "unrecognized arguments: -o; hydra.run.dir=DIR is where a run's record goes"),
    ("--multirun --cfg job", "--multirun --cfg: only one of these at a time"),
    ("--resolve", "--resolve: only together with --cfg"),
    # code
    ("strategy._target_=os.system", "_target_ cannot be set on the command line"),
    ("strategy=${oc.create:{_target_:os.system}}", "_target_ cannot be set on the command line"),
    ("--experimental-rerun x.pickle", "--experimental-rerun: not supported"),
    # sweeps: every job is checked before the first starts
    ("-m strategy=ssp strategy.bound=3,1,-1", "must be 0 or more (null for no bound) (in the job strategy.bound=-1)"),
    ("strategy=backup_workers -m strategy.num_backup=1,2,3 cluster.num_workers=4,3", "strategy.num_backup=3"),
    ("-m seed=interval(0,1)", "seed=interval(0,1): the basic sweeper needs a list of values"),
    ("-m hydra.sweeper.params={seed:0}", "hydra.sweeper.params={seed:0}: is for files; here write what is swept"),
    ("-m seed=range(0,1001)", "--multirun: more than 1000 jobs in one sweep"),
    ("-m seed=0,1 hydra.sweep.dir=${nope}", "hydra.sweep.dir: refers to nope, which is not set"),
    ("-m hydra.sweep.dir=/proc/nope", "hydra.sweep.dir=/proc/nope: cannot be written"),
    ("hydra.mode=MULTIRUN seed=1,x", "seed=x: must be a whole number, at least 0 (in the job seed=x)"),
]
