"""Command lines that are refused, and what of the answer helps."""

from __future__ import annotations

from tests.support.cli import ROOT

STRATEGIES = ", ".join(sorted(path.stem for path in (ROOT / "conf" / "strategy").glob("*.yaml")))

REPLICATED = (
    "runtime=virtual topology.num_servers=1 strategy=mlfabric strategy.num_replicas=1 strategy.divergence_max=1"
)

BAD_LINES: list[tuple[str, str]] = [
    # names that do not exist
    ("strategy=spp", f"strategy=spp: no such strategy; did you mean ssp? ({STRATEGIES})"),
    ("strategy=", "strategy=: no such strategy"),
    ("straggler=transiet", "no such straggler; did you mean transient?"),
    ("workload=digit", "no such workload; did you mean digits?"),
    ("cluster=locale", "no such cluster; did you mean local?"),
    ("backend=troch", "no such backend; did you mean torch?"),
    ("topology=psx", "no such topology; did you mean ps?"),
    ("strategi=ssp", "strategi=ssp: no such setting; did you mean strategy?"),
    (
        "strategy=ssp strategy.bonud=3",
        "strategy.bonud=3: no such setting of strategy=ssp; did you mean strategy.bound?",
    ),
    ("strategy=bsp strategy.bound=3", "strategy.bound=3: no such setting of strategy=bsp (data, "),
    ("strategy=composed strategy.gate.bonud=3", "did you mean strategy.gate.bound?"),
    ("strategy=composed strategy.gate.bound=-1", "strategy.gate.bound=-1: must be a whole number, 0 or more"),
    ("strategy=composed strategy.gate=ssp", "strategy.gate=ssp: must be settings with a _target_"),
    (
        "strategy=composed strategy.load.min_batch_samples=99",
        "strategy.load.min_batch_samples=99: 4 workers would need",
    ),
    (
        "strategy=composed strategy.decide_every_s=99",
        "strategy.detectors.stragglers.short_window_s=6.0: must be at least",
    ),
    ("strategy=composed strategy.decide_every_s=null", "strategy.decide_every_s=null: must be the seconds between"),
    ("strategy=composed ~strategy.detectors.speeds", "strategy.load=SpeedLoad: looks at a Forecast, and neither"),
    ("strategy=ssp +strategy.bonud=3", "strategy.bonud: no such setting; did you mean strategy.bound?"),
    ("strategy=ssp ++strategy.bonud=3", "strategy.bonud: no such setting; did you mean strategy.bound?"),
    ("+sede=3", "sede: no such setting; did you mean seed?"),
    ("sede=3", "sede=3: no such setting; did you mean seed?"),
    ("num_workers=8", "num_workers=8: no such setting; did you mean cluster.num_workers?"),
    ("workers=8", "did you mean cluster.num_workers?"),
    ("epochs=3", "did you mean workload.epochs?"),
    ("lr=0.1", "did you mean workload.optimizer.lr?"),
    ("cluster.num_wokers=8", "no such setting of cluster=local; did you mean cluster.num_workers?"),
    ("+cluster.num_wokers=8", "cluster.num_wokers: no such setting; did you mean cluster.num_workers?"),
    ("cluster.device.base=1", "did you mean cluster.device.base_s?"),
    ("+cluster.device.bases=1", "bases"),
    ("workload.optimizer.momentun=0.5", "did you mean workload.optimizer.momentum?"),
    ("+workload.optimizer.momentun=0.5", "momentun"),
    ("workload.optimizer.name=sgdd", "sgdd"),
    ("workload.lr_schedule.name=costant", "costant"),
    ("qwertyuiop=3", "python run.py --help lists them all"),
    ("hydra/launcher=nope", "no such hydra/launcher"),
    ("hydra/launcher=ray", "pip install hydra-ray-launcher"),
    ("hydra/sweeper=optuna", "pip install hydra-optuna-sweeper"),
    ("hydra/launcher=submitit_slurm", "pip install hydra-submitit-launcher"),
    ("hydra.run.dri=x", "hydra.run.dri"),
    ("--config-name nope", "nope"),
    ("--config-dir /nope", "--config-dir /nope: no such directory"),
    ("hydra.searchpath=[file:///nope]", "is not available"),
    # values
    ("cluster.num_workers=0", "cluster.num_workers=0: must be at least 1"),
    ("cluster.num_workers=-2", "cluster.num_workers=-2: must be at least 1"),
    ("cluster.num_workers=1e3", "cluster.num_workers=1000.0: must be a whole number, at least 1"),
    ("cluster.num_workers='8'", "cluster.num_workers=8: must be a whole number"),
    ("cluster.num_workers=010", "cluster.num_workers=010: must be a whole number"),
    ("cluster.num_workers=12:30", "cluster.num_workers=12:30: must be a whole number"),
    ("cluster.num_workers=true", "cluster.num_workers=true: must be a whole number"),
    ("cluster.num_workers=", "cluster.num_workers=: must be a whole number"),
    ("cluster.num_workers=???", "cluster.num_workers: missing"),
    ("runtime.heartbeat_s=0", "runtime.heartbeat_s=0: must be at least 0.001"),
    (
        "strategy=bsp\N{NO-BREAK SPACE}seed=1",
        "strategy=bsp seed=1: is several settings in one word; give each as a word of its own",
    ),
    ("runtime=virtual runtime.telemetry_every_s=1e-9", "runtime.telemetry_every_s=1e-09: must be at least 0.001"),
    ("topology.num_servers=1000000000", "topology.num_servers=1000000000: must be at most 100000"),
    (
        "runtime=virtual topology=allreduce cluster=hybrid cluster.replica.parts=[1,1]",
        "cluster.replica.parts=[1, 1]: must be a list of 3",
    ),
    ("'straggler.targets={a: 1}'", "straggler.targets={a: 1}: must be a list"),
    ("cluster.device=[1]", "cluster.device=[1]: must be settings"),
    ("runtime.launcher=here", "runtime.launcher=here: must be settings with a _target_"),
    (
        "runtime=virtual cluster=hosts cluster.hosts.device={bas_s:1.0}",
        "cluster.hosts.device: has no bas_s; its fields are base_s, per_sample_s, saturation_s",
    ),
    (
        "workload=wide_deep_adult workload.task.dataset=adult",
        "workload.task.dataset=adult: must be settings with a _target_",
    ),
    ("workload=wide_deep_adult workload.task.size.hidden=64", "workload.task.size.hidden=64: must be a list"),
    (
        "straggler=persistent straggler.sleep_iters=1e9",
        "straggler.sleep_iters=1000000000.0: makes a delay of 4.8e+07 s",
    ),
    ("runtime.heartbeat_s=nan", "runtime.heartbeat_s=nan: must be a finite number"),
    ("runtime.lease_s=0.6", "runtime.lease_s=0.6: must be at least twice heartbeat_s=0.5"),
    ("cluster.device.base_s=fast", "cluster.device.base_s=fast: must be a number"),
    ("cluster.device.base_s=-1", "-1"),
    ("max_losses=-1", "max_losses=-1: must be at least 0"),
    ("runtime.max_restarts=-1", "runtime.max_restarts=-1: must be 0 or more (null for no limit)"),
    ("runtime.port=70000", "runtime.port=70000: must be between 0"),
    ("topology.num_servers=0", "topology.num_servers=0: topology=ps needs at least 1; topology=allreduce has none"),
    (
        "topology.collective=ring",
        "topology.collective=ring: topology=ps has servers for that; choose topology=allreduce",
    ),
    ("topology.collective=mpi", "topology.collective=mpi: must be one of"),
    ("topology=allreduce topology.num_servers=2", "topology.num_servers=2: topology=allreduce has no servers"),
    (
        "topology=allreduce topology.server_shares=[2,1]",
        "topology.server_shares=[2.0, 1.0]: topology=allreduce has no servers; leave it out",
    ),
    (
        "topology.server_shares=[2,1,1]",
        "topology.server_shares=[2.0, 1.0, 1.0]: has 3 shares, and strategy=bsp keeps topology.num_servers=2; give",
    ),
    (
        "strategy=star_h strategy.phi=null workload.optimizer.name=foo",
        "workload.optimizer.name=foo: must be one of ",
    ),
    ("topology=allreduce topology.collective=null", "topology.collective=null: topology=allreduce needs one"),
    ("topology=allreduce topology.transport=shm", "topology.transport=shm: replicas share no memory"),
    ("topology=allreduce backend=jax", "backend"),
    ("topology=allreduce strategy=asp", "topology=allreduce: strategy=asp does not work on it; choose topology=ps"),
    ("topology=allreduce strategy=ssp", "topology=allreduce: strategy=ssp does not work on it; choose topology=ps"),
    (
        "topology=allreduce topology.collective=ddp workload=ledger backend=numpy",
        "topology.collective=ddp: is PyTorch's, and backend=numpy is not; use backend=torch",
    ),
    (
        "topology=allreduce topology.collective=ddp launcher=join launcher.listen=127.0.0.1",
        "topology.collective=ddp: whoever reaches its ports could take part, since its connections prove no token; use",
    ),
    (
        "topology=allreduce topology.collective=gloo launcher=join launcher.listen=127.0.0.1 launcher.tls=true",
        "launcher.tls=true: the connections of topology.collective=gloo are not encrypted; use ",
    ),
    (
        "runtime=virtual jobs=list cluster=star_servers jobs.entries=[{job:a,submit_s:0,gpus:0,duration_s:6}]",
        "jobs.entries[0], column gpus, 0: must be a finite number, 1 or more",
    ),
    (
        "runtime=virtual jobs=list cluster=star_servers cluster.device.base_s=-1",
        "jobs=list: job first: cluster.device: base_s=-1.0 must be 0 or more",
    ),
    (
        "runtime=virtual jobs=list cluster=star_servers cluster.hosts.placement=pack",
        "cluster.hosts.placement=pack: places the tasks of one job; those of jobs=list go where placement=first",
    ),
    (
        "runtime=virtual jobs=list cluster=star_servers replay.detail=gpus_only straggler=persistent",
        "straggler=persistent: slows nobody down with replay.detail=gpus_only, by which jobs only hold their GPUs; use",
    ),
    (
        "straggler=transient_and_persistent straggler.patterns.persistent.targets=[worker:9]",
        "straggler.patterns.persistent.targets=worker:9: there is no such target",
    ),
    (
        "jobs=list launcher=join launcher.listen=127.0.0.1",
        "jobs=list: sets of jobs share the hosts of this machine; leave launcher=join out, or start one",
    ),
    (
        "straggler=cpu_throttle straggler.targets=[host:0] launcher=join launcher.listen=127.0.0.1",
        "straggler.targets=host:0: launcher=join disturbs workers, servers and links, and no hosts; name worker:0",
    ),
    (
        "straggler=link_throttle launcher=join launcher.listen=127.0.0.1",
        "launcher.link_mbps=null: link:0 has no rate to throttle; set it to that of the slowest machine's interface",
    ),
    (
        "straggler=link_throttle straggler.targets=[link:2] launcher=join launcher.listen=127.0.0.1 "
        "launcher.link_mbps=9",
        "straggler.targets=link:2: there is no such target; valid are worker:0 to worker:3, server:0 to server:1, link",
    ),
    (
        "launcher=join launcher.listen=127.0.0.1 launcher.link_mbps=0",
        "launcher.link_mbps=0: must be more than 0, or null where no link is slowed",
    ),
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
    (
        "topology.transport=shm launcher=join launcher.listen=127.0.0.1",
        "topology.transport=shm: machines share no memory; use topology.transport=tcp",
    ),
    ("topology=allreduce straggler=persistent_server", "straggler"),
    (
        "topology=allreduce strategy=mlfabric",
        "topology=allreduce: strategy=mlfabric does not work on it; choose topology=ps",
    ),
    ("topology.transport=shm strategy=mlfabric", "topology.transport=shm: gradients lie where servers read them"),
    (
        "strategy=mlfabric strategy.tau_max=2",
        "strategy.tau_max=2: while one of 4 workers computes, 3 updates of others",
    ),
    ("strategy=mlfabric strategy.order=fair strategy.tau_max=9", "strategy.tau_max=9: has no effect with order=fair"),
    (
        "strategy=bsp strategy.tree_fanout=1",
        "strategy.tree_fanout=1: a tree of two levels has at most 2 workers, and there are 4; use a larger one",
    ),
    (
        "topology=allreduce strategy=star_h strategy.topology=allreduce strategy.tree_fanout=3",
        "strategy.tree_fanout=3: is for topology=ps; a ring has no server to relieve",
    ),
    (
        "strategy=star_h strategy.tree_wait_s=0.5",
        "strategy.tree_wait_s=0.5: there is no tree; set tree_fanout, or null",
    ),
    (
        "runtime=virtual strategy=mlfabric strategy.lr_rule=unit strategy.num_aggregators=1",
        "strategy: has aggregators (1; num_aggregators or tree_fanout), which are tasks of hosts; choose cluster=hosts",
    ),
    (
        "runtime=virtual strategy=star_h strategy.tree_fanout=3",
        "strategy: has aggregators (3; num_aggregators or tree_fanout), which are tasks of hosts; choose cluster=hosts",
    ),
    (
        "runtime=virtual cluster=hosts strategy=mlfabric strategy.lr_rule=unit strategy.num_aggregators=3",
        "strategy: has aggregators (3; num_aggregators or tree_fanout), each on a host of its own without a server, "
        "and only 2 of 4 hosts have none",
    ),
    (
        "strategy=mlfabric strategy.num_aggregators=1",
        "num_aggregators=1: lr_rule=adadelay weights each gradient by its",
    ),
    (
        "launcher=join launcher.listen=127.0.0.1 strategy=mlfabric strategy.num_replicas=1 strategy.divergence_max=1 "
        "topology.num_servers=1",
        "strategy.num_replicas=1: replicas share memory with their server",
    ),
    (
        "strategy=mlfabric strategy.num_replicas=1 strategy.divergence_max=1 topology.num_servers=1 "
        "topology.transfer_bits=16",
        "topology.transfer_bits=16: strategy.num_replicas=1 bounds steps by norms of gradients that are not rounded",
    ),
    (
        "runtime=virtual strategy=mlfabric strategy.num_replicas=1 topology.num_servers=1",
        "strategy.num_replicas=1: needs a bound on their distance; set divergence_max",
    ),
    (
        "runtime=virtual strategy=mlfabric strategy.divergence_max=1",
        "strategy.divergence_max=1.0: bounds replicas, and there are none; must be null",
    ),
    (
        "runtime=virtual strategy=mlfabric strategy.num_replicas=1 strategy.divergence_max=1",
        "topology.num_servers=2: strategy.num_replicas=1 takes the place of one server",
    ),
    (
        f"{REPLICATED} backend=none workload.target=null",
        "backend=none: computes no gradients, whose norms bound how far replicas are",
    ),
    (
        f"{REPLICATED} workload.optimizer={{name:adagrad,lr:0.1}}",
        "workload.optimizer.name=adagrad: strategy.num_replicas=1 needs steps that norms of gradients bound",
    ),
    (
        f"{REPLICATED} +workload.optimizer.weight_decay=0.1",
        "workload.optimizer.weight_decay=0.1: strategy.num_replicas=1 needs steps that norms of gradients bound",
    ),
    (
        f"{REPLICATED} +workload.optimizer.nesterov=true",
        "workload.optimizer.nesterov=True: strategy.num_replicas=1 needs steps that norms of gradients bound",
    ),
    (
        f"{REPLICATED} workload.lr_schedule.name=step +workload.lr_schedule.milestones=[2] "
        "+workload.lr_schedule.unit=epochs +workload.lr_schedule.gamma=2.0",
        "workload.lr_schedule.gamma=2.0: raises the learning rate",
    ),
    (
        f"{REPLICATED} workload.lr_schedule.name=step +workload.lr_schedule.milestones=[2] "
        "+workload.lr_schedule.unit=epochs +workload.lr_schedule.gamma=half",
        "workload.lr_schedule.gamma=half: must be a number, more than 0",
    ),
    ("failover=checkpoint checkpoint_every_s=null", "failover=checkpoint: needs checkpoints; set checkpoint_every_s"),
    ("cluster=hosts straggler=link_throttle straggler.targets=[link:9]", "straggler.targets=link:9: there is no such"),
    ("straggler=link_transient", "cluster=hosts"),
    (f"{REPLICATED} failover=checkpoint strategy.data=even", "failover=checkpoint: all read a checkpoint after a loss"),
    (
        f"{REPLICATED} strategy.lr_rule=unit strategy.num_aggregators=1",
        "strategy.num_replicas=1: receive gradients from their workers, and num_aggregators=1 sends sums",
    ),
    (f"{REPLICATED} strategy.order=fair", "strategy.num_replicas=1: needs an order; order=fair plans nothing"),
    ("topology.transport=rdma", "topology.transport=rdma: must be one of shm, tcp"),
    ("workload.global_batch_samples=0", "workload.global_batch_samples=0: must be at least 1"),
    ("workload.global_batch_samples=3", "smaller than cluster.num_workers=4, every worker needs at least one sample"),
    ("cluster.num_workers=200", "workload.global_batch_samples=128: smaller than cluster.num_workers=200"),
    ("workload.target=2", "workload.target=2: accuracy is between 0 and 1, so it would never be there"),
    ("workload.target=-0.1", "workload.target=-0.1: accuracy is between 0 and 1"),
    (
        "stop_at_target=true workload.target=null",
        "stop_at_target=true: there is no target to reach; set workload.target",
    ),
    (
        "stop_at_target=true eval_every_s=null",
        "stop_at_target=true: eval_every_s=null evaluates nothing while the job trains; give it seconds, or set",
    ),
    (
        "stop_at_convergence=true workload.convergence={evaluations:5,max_change:0.1} eval_every_s=null",
        "stop_at_convergence=true: eval_every_s=null evaluates nothing while the job trains; give it seconds, or set",
    ),
    (
        "stop_at_convergence=true workload.convergence={evaluations:5,max_change:0.1} workload.target=null "
        "runtime=virtual backend=none",
        "stop_at_convergence=true: backend=none measures no accuracy; estimate it with backend.progress=NAME, or set",
    ),
    ("cluster=hosts cluster.hosts.count=abc", "cluster.hosts.count=abc: must be a whole number, at least 1"),
    ("cluster=hosts cluster.hosts.count=''", "cluster.hosts.count=: must be a whole number, at least 1"),
    ("cluster=hosts cluster.hosts.count=.nan", "cluster.hosts.count=.nan: must be a whole number, at least 1"),
    ("cluster=hosts cluster.hosts.count=[1]", "cluster.hosts.count=[1]: must be a whole number, at least 1"),
    ("cluster=hosts cluster.hosts.count=251", "cluster.hosts.count=251: must be at most 250"),
    ("workload.optimizer.lr=0", "workload.optimizer.lr=0: must be more than 0"),
    ("workload.task.model=rnn", "workload.task.model=rnn: must be one of mlp, cnn"),
    ("workload=ledger backend=numpy workload.batches_per_shard=100", "makes 2 shards of 2000 samples, fewer than two"),
    (
        "workload=resnet20_cifar10 backend=numpy",
        "backend=numpy: cannot train workload=resnet20_cifar10; choose backend=",
    ),
    (
        "workload=resnet20_cifar10 workload.task.model=resnet21",
        "workload.task.model=resnet21: must be one of alexnet, ",
    ),
    ("workload=cnn_fashion_mnist workload.task.model=vgg16", "images of 28 x 28 are too small for it"),
    (
        "workload=lstm_wikitext2 +workload.task.dataset.vocabulary=100",
        "workload.task.dataset.vocabulary=100: WikiText-2 has 33278 different words, so at least that many",
    ),
    ("runtime.evaluator_niceness=20", "runtime.evaluator_niceness=20: must be between 0 and 19"),
    ("runtime.start_deadline_s=0", "runtime.start_deadline_s=0.0: must be more than 0 (null for one that suits)"),
    ("runtime=virtual runtime.start_deadline_s=5", "runtime.start_deadline_s=5: no such setting of runtime=virtual"),
    ("workload=ledger", "backend=torch: cannot train workload=ledger; choose backend=numpy"),
    ("max_time_s=0", "max_time_s=0: must be more than 0"),
    ("max_time_s=-5", "max_time_s=-5: must be more than 0"),
    ("max_time_s=12:30", "max_time_s=12:30: must be a number of seconds"),
    ("straggler=persistent straggler.sleep_s=3ms", "straggler.sleep_s=3ms: must be a number of seconds or null"),
    ("max_time_s=inf", "max_time_s=inf: must be a finite number"),
    ("seed=1.5", "seed=1.5: must be a whole number"),
    ("seed=null", "seed=null: must be a whole number"),
    ("seed=${nope}", "seed: refers to nope, which is not set"),
    ("view=lively", "view=lively: must be one of auto, live, none, plain"),
    ("draw=maybe", "draw=maybe: must be true or false"),
    ("strategy=ssp strategy.bound=-1", "strategy.bound=-1: must be 0 or more (null for no bound)"),
    ("strategy=ssp strategy.bound=three", "strategy.bound=three: must be a whole number or null"),
    ("strategy=asp strategy.lr_rule=none", "strategy.lr_rule=none: must be one of batch_linear, unit"),
    (
        "strategy=zeno_pp strategy.validation_samples=0",
        "strategy.validation_samples=0: must be a whole number, 1 or more",
    ),
    (
        "strategy=zeno_pp strategy.validation_samples=1438",
        "strategy.validation_samples=1438: leaves 0 of the 1438 training samples, fewer than "
        "workload.global_batch_samples=128; hold out fewer",
    ),
    (
        "strategy=zeno_pp runtime=virtual backend=none workload.target=null",
        "backend=none: computes no gradients, and strategy=zeno_pp scores them; choose backend=torch",
    ),
    (
        "topology=allreduce strategy=zeno_pp",
        "topology=allreduce: strategy=zeno_pp does not work on it",
    ),
    ("strategy=zeno_pp strategy.rho_on=both", "strategy.rho_on=both: must be applied or raw"),
    ("strategy=zeno_pp strategy.gamma=0", "strategy.gamma=0.0: must be above 0"),
    ("strategy=bsp strategy.data=dynamical", "strategy.data=dynamical: must be one of"),
    (
        "strategy=backup_workers strategy.num_backup=4",
        "strategy.num_backup=4: must be less than the number of workers (4)",
    ),
    ("strategy=backup_workers strategy.num_backup=-1", "strategy.num_backup=-1: must be a whole number, 0 or more"),
    (
        "strategy=sync_switch workload.epochs=null",
        "strategy.bsp_frac=0.0625: is part of a job without a number of epochs; set workload.epochs, or bsp_frac to 0",
    ),
    (
        "strategy=lb_bsp strategy.min_batch_samples=33",
        "strategy.min_batch_samples=33: 4 workers would need 132 samples, the global batch has 128",
    ),
    ("strategy=antdt_dd strategy.accum_min=0", "strategy.accum_min=0: must be a whole number, 1 or more"),
    (
        "strategy=antdt_dd strategy.max_batch_samples=6",
        "strategy.max_batch_samples=6: the largest micro-batches (type 0 6), 5 per worker, sum to 120 samples",
    ),
    ("hydra.job.chdir=perhaps", "hydra.job.chdir=perhaps"),
    ("hydra.run.dir=/proc/nope", "hydra.run.dir=/proc/nope: cannot be written"),
    (
        "hydra.run.dir=/dev/null/x",
        "hydra.run.dir=/dev/null/x: cannot be written (not a directory); choose another directory",
    ),
    (f"hydra.run.dir={'x' * 300}", "cannot be written (file name too long)"),
    ("hydra.run.dir=${nope}", "hydra.run.dir: refers to nope, which is not set"),
    # form
    ("strategy", "strategy: must be written setting=value"),
    ("'jobs.job_column=Job (id)'", """within those of the shell: 'jobs.job_column="Job (id)"'"""),
    ("seed=[1", "seed=[1: cannot be read"),
    ("seed==3", "seed==3: cannot be read"),
    ("seed=cast(3)", "seed=cast(3): cannot be read"),
    ("seed=0,1", "seed=0,1: several values are a sweep: add -m"),
    ("seed=range(0,3)", "seed=range(0,3): several values are a sweep: add -m"),
    ("strategy=null", "strategy=null: exactly one strategy is chosen ("),
    ("strategy=[bsp,ssp]", "strategy=[bsp,ssp]: exactly one strategy is chosen"),
    ("~strategy", "~strategy: exactly one strategy is chosen"),
    ("~strategy=bsp", "~strategy=bsp: exactly one strategy is chosen"),
    ("~seed", "seed: missing"),
    ("+strategy=ssp", "strategy"),
    ("--multirunn", "unrecognized arguments: --multirunn; --help lists what there is"),
    ("--strategy=asp", "--strategy=asp: a setting has no dashes; write strategy=asp"),
    ("strategy", "strategy: must be written setting=value"),
    ("-o out", "unrecognized arguments: -o; hydra.run.dir=DIR is where a run's record goes"),
    ("--run --multirun", "--run --multirun: only one of these at a time"),
    ("--multirun --cfg job", "--multirun --cfg: only one of these at a time"),
    ("--resolve", "--resolve: only together with --cfg"),
    # code
    ("strategy._target_=os.system", "_target_ cannot be set on the command line"),
    ("+x._target_=os.system", "_target_ cannot be set on the command line"),
    ("strategy={_target_:os.system}", "_target_ cannot be set on the command line"),
    ("strategy={'_target_':os.system}", "_target_ cannot be set on the command line"),
    ("+hydra.callbacks.x={_target_:os.system}", "_target_ cannot be set on the command line"),
    ("strategy=${oc.create:{_target_:os.system}}", "_target_ cannot be set on the command line"),
    ("--experimental-rerun x.pickle", "--experimental-rerun: not supported"),
    # sweeps: every job is checked before the first starts
    ("-m strategy=bsp,spp", "strategy=spp: no such strategy; did you mean ssp?"),
    ("-m strategy=ssp strategy.bound=3,1,-1", "must be 0 or more (null for no bound) (in the job strategy.bound=-1)"),
    ("-m strategy=bsp,ssp strategy.bound=3", "strategy.bound=3: no such setting of strategy=bsp (data, "),
    (
        "strategy=backup_workers -m strategy.num_backup=1,2,3 cluster.num_workers=4,3",
        "(in the job strategy.num_backup=3",
    ),
    ("-m seed=interval(0,1)", "seed=interval(0,1): the basic sweeper needs a list of values"),
    ("-m hydra.sweeper.params={seed:0}", "hydra.sweeper.params={seed:0}: is for files; here write what is swept"),
    ("-m hydra/sweeper=basic hydra.sweeper.params={seed:0}", "hydra.sweeper.params={seed:0}: is for files"),
    ("-m strategy=glob(x*)", "strategy=glob(x*): matches nothing"),
    ("-m seed=range(0,1001)", "--multirun: more than 1000 jobs in one sweep"),
    ("-m seed=range(0,1e12)", "--multirun: more than 1000 jobs in one sweep"),
    ("-m hydra.job.chdir=true,false", "hydra.job.chdir=true,false"),
    ("-m seed=0,1 hydra.sweep.dir=${nope}", "hydra.sweep.dir: refers to nope, which is not set"),
    ("-m hydra.sweep.dir=/proc/nope", "hydra.sweep.dir=/proc/nope: cannot be written"),
    ("hydra.mode=MULTIRUN seed=1,x", "seed=x: must be a whole number, at least 0 (in the job seed=x)"),
]
