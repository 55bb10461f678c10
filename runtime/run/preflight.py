"""Everything that is checked before the first process starts.

A command line is refused here, with one line and exit code 2, or its jobs can start: every job of a sweep is composed,
parsed and built, its straggler plan made, its output directory and port tried out. No framework is imported.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from runtime.api import Needs
from runtime.config.anchoring import start_directory
from runtime.config.checking import leaves
from runtime.config.composing import BASIC_LAUNCHER, Composer, hydra_for, parse_arguments
from runtime.config.instantiate import TARGET, explain, instantiate, is_allowed, locate
from runtime.config.parse import Config, parse
from runtime.config.shadowing import refuse_shadowed_files
from runtime.containment import is_linux
from runtime.errors import ConfigError
from runtime.run.claiming import holds_record
from runtime.run.probing import probe_folder, reason
from runtime.run.resources import check_fits
from runtime.run.topologies import check_topology
from strategies.protocol import DATA_POLICIES, Partition, Strategy

LOOPBACK = "127.0.0.1"
EXPERIMENT = "experiment"
"""A folder of conf/ that is no group: its files describe many runs."""


class Ready(NamedTuple):
    """A command line that may start."""

    argv: list[str]
    """To hand to Hydra."""
    needs: Needs
    """Of all its jobs together."""


def preflight(argv: Sequence[str]) -> Ready:
    """Check every job of the command line ``argv`` (without the program's name); raises :class:`ConfigError`.

    What only shows something (``--help``, ``--cfg``, ``--info``, ``--shell-completion``) is Hydra's.
    """
    start_directory()
    args = parse_arguments(argv)
    if args.help or args.hydra_help or args.cfg or args.info or args.shell_completion:
        return Ready(list(argv), Needs())
    refuse_targets(args.overrides)
    with hydra_for(args) as hydra:
        composer = Composer(hydra, args)
        refuse_misused_groups(composer)
        master = composer.master()
        refuse_foreign_targets(master)
        refuse_shadowed_files(master)
        needs = Needs()
        for label, raw in composer.jobs(master):
            with _labelled(label):
                config = parse(raw)
                needs = needs.with_those_of(check_job(config))
                check_launcher(master, config, composer.multirun)
        check_output(*composer.output_directory(master))
        return Ready(composer.hydra_argv(argv), needs)


@contextmanager
def _labelled(label: str) -> Iterator[None]:
    """Say which job of a sweep it was."""
    try:
        yield
    except ConfigError as error:
        raise (ConfigError(f"{error} (in the job {label})") if label else error) from None


def refuse_targets(lines: Sequence[str]) -> None:
    """The command line chooses among files; only files name code."""
    for line in lines:
        if TARGET in line:
            raise ConfigError(f"{line}: {TARGET} cannot be set on the command line; name it in a file below conf/")


def refuse_misused_groups(composer: Composer) -> None:
    """Of each group exactly one file is chosen."""
    for override in composer.overrides:
        if override.key_or_group == EXPERIMENT:
            raise ConfigError(f"{override.input_line}: is many runs; make figures EXPERIMENT={override.value()}")
        key, one = override.key_or_group, isinstance(override.value(), str) and not override.is_delete()
        if key in composer.groups and not override.is_sweep_override() and not one:
            options = ", ".join(composer.hydra.config_loader.get_group_options(key))
            raise ConfigError(f"{override.input_line}: exactly one {key} is chosen ({options})")


def refuse_foreign_targets(master: DictConfig) -> None:
    """Hydra would execute whatever its own section names, so that is held to the same allow-list as ours."""
    for path, value in leaves(OmegaConf.to_container(master.hydra, resolve=False), "hydra"):
        foreign = not str(value).startswith(("hydra.", "hydra_plugins.")) and not is_allowed(str(value))
        if path.endswith((TARGET, "()")) and foreign:
            raise ConfigError(f"{path}={value}: not below a package that may be named in a configuration")


def check_launcher(master: DictConfig, config: Config, multirun: bool) -> None:
    """Hydra's launchers but the basic one run several jobs of a sweep at once, or elsewhere."""
    launcher = str(master.hydra.launcher.get(TARGET))
    if multirun and launcher != BASIC_LAUNCHER and locate(config.runtime[TARGET]).real_time:  # type: ignore[attr-defined]
        name = master.hydra.runtime.choices.get("hydra/launcher")
        raise ConfigError(
            f"hydra/launcher={name}: starts jobs at once or elsewhere; those of runtime={config.names.runtime} need "
            "this machine and its namespaces to themselves; leave it out, or choose runtime=virtual"
        )


def check_job(config: Config) -> Needs:
    """Build whatever the configuration names and hold the parts against each other; raises :class:`ConfigError`.

    Returns what the job needs around it.
    """
    from runtime.run.experiment import make_runtime

    strategy = instantiate(config.strategy, "strategy")
    pattern = instantiate(config.straggler, "straggler")
    task = instantiate(config.workload.task, "workload.task")
    backend = instantiate(config.backend, "backend")
    runtime = make_runtime(config)
    instantiate(config.scheduler, "scheduler")
    check_system(runtime, config)
    check_strategy(strategy, config)
    check_sizes(strategy, config)
    check_backend(task, backend, runtime, config)
    check_validation(strategy, task, backend, config)
    check_topology(strategy, backend, config)
    check_record(strategy, runtime, config)
    check_rules(config)
    check_shards(strategy, task, config)
    check_port(config.runtime.get("port"))
    check_fits(config, task, runtime, backend, strategy.validation_samples)
    return check_plan(strategy, pattern, runtime, config)


def check_system(runtime: Any, config: Config) -> None:
    """Real processes are held together, disturbed and measured by what Linux alone has."""
    if runtime.real_time and not is_linux():
        raise ConfigError(
            f"runtime={config.names.runtime}: real processes need Linux, and this is {sys.platform}; choose "
            "runtime=virtual (or a virtual machine with Linux)"
        )


def check_strategy(strategy: object, config: Config) -> None:
    """It is one, and its hyper-parameters fit the number of workers."""
    if not isinstance(strategy, Strategy):
        raise ConfigError(f"strategy={config.names.strategy}: {type(strategy).__name__} is not a strategy")
    if strategy.data not in DATA_POLICIES:
        raise ConfigError(f"strategy.data={strategy.data}: must be one of {', '.join(DATA_POLICIES)}")
    with explained(config.strategy, "strategy"):
        strategy.validate(config.num_workers)


def check_sizes(strategy: Strategy, config: Config) -> None:
    """Its bounds leave a way to split the global batch, and the job is as long as it needs."""
    with explained(config.strategy, "strategy"):
        strategy.validate_batch(config.num_workers, config.workload.global_batch_samples)
        strategy.validate_length(config.workload.epochs)


def is_written_in(task: object, backend: Any) -> bool:
    """A network is a method of the task, ``torch_module`` for instance; without a network there is nothing to miss."""
    return not _networks(task) or f"{backend.framework}_module" in _networks(task)


def _networks(task: object) -> list[str]:
    return [name for name in dir(task) if name.endswith("_module")]


def check_backend(task: object, backend: Any, runtime: Any, config: Config) -> None:
    """A workload says which backends can train it; without gradients there is only time, and what is estimated."""
    name, workload = config.names.backend, config.workload
    if backend.computes:
        if name not in workload.backends or not is_written_in(task, backend):
            cures = " or ".join(f"backend={one}" for one in workload.backends if one != name)
            cures = cures or "runtime=virtual backend=none"
            raise ConfigError(f"backend={name}: cannot train workload={workload.name}; choose {cures}")
        if find_spec(backend.framework) is None:
            raise ConfigError(
                f"backend={name}: {backend.framework} is not installed; pip install 'stragglab[{backend.framework}]'"
            )
        return
    if runtime.needs_gradients:
        raise ConfigError(
            f"backend={name}: computes no gradients; runtime={config.names.runtime} needs them, choose runtime=virtual"
        )
    progress = backend.load_progress()
    if progress is not None:
        progress.model.check(workload.name, workload.metric)
    elif workload.target is not None:
        raise ConfigError(
            f"workload.target={workload.target:g}: backend={name} measures no {workload.metric}; estimate it with "
            "backend.progress=NAME, or set workload.target=null"
        )
    if config.save_parameters:
        raise ConfigError(f"save_parameters=true: backend={name} has no parameters")


def check_validation(strategy: Strategy, task: object, backend: Any, config: Config) -> None:
    """Samples that are held out for reference gradients leave some to train on, and there are gradients."""
    from runtime.run.experiment import refuse_empty

    if not strategy.validation_samples:
        return
    if not backend.computes:
        cures = " or ".join(f"backend={one}" for one in config.workload.backends) or "another workload"
        raise ConfigError(
            f"backend={config.names.backend}: computes no gradients, and strategy={config.names.strategy} scores them; "
            f"choose {cures}"
        )
    if (num_samples := getattr(task, "num_samples", None)) is not None:
        refuse_empty(config, num_samples, strategy.validation_samples)


def check_record(strategy: Strategy, runtime: Any, config: Config) -> None:
    """Rows have no place for what can go wrong with real processes, nor for rounds."""
    if config.record == "iterations" and Partition in strategy.needs:
        raise ConfigError(
            f"record=iterations: rows know no rounds of strategy={config.names.strategy}; use record=events"
        )
    if config.record == "iterations" and runtime.needs_gradients:
        raise ConfigError(f"record=iterations: runtime={config.names.runtime} records events; choose runtime=virtual")


def check_rules(config: Config) -> None:
    """Optimizer and learning-rate schedule exist and take their fields."""
    from runtime.training.lr_schedules import make_schedule
    from runtime.training.optimizers import make_optimizer

    optimizer = {name: value for name, value in config.workload.optimizer.items() if name != "lr"}
    with explained(optimizer, "workload.optimizer"):
        make_optimizer(optimizer.pop("name"), 1, **optimizer)
    with explained(config.workload.lr_schedule, "workload.lr_schedule"):
        make_schedule(**config.workload.lr_schedule, epoch_samples=1)  # whatever the number: a run knows it


def check_shards(strategy: Strategy, task: object, config: Config) -> None:
    """With fewer shards than two per worker some would starve. A task tells its size if it can without its data."""
    num_samples = getattr(task, "num_samples", None)
    if num_samples is None or strategy.data == "even":
        return
    num_samples -= strategy.validation_samples
    workload, num_workers = config.workload, config.num_workers
    num_shards = ceil(num_samples / (workload.batches_per_shard * ceil(workload.global_batch_samples / num_workers)))
    if num_shards < 2 * num_workers:
        raise ConfigError(
            f"workload.batches_per_shard={workload.batches_per_shard}: makes {num_shards} shards of {num_samples} "
            f"samples, fewer than two for each of {num_workers} workers; use fewer batches per shard, a smaller "
            "workload.global_batch_samples or fewer workers"
        )


def check_plan(strategy: Strategy, pattern: Any, runtime: Any, config: Config) -> Needs:
    """The runtime can do what the strategy needs and what the plan of disturbances asks, whose targets all exist."""
    from injectors.plan import validate_plan
    from runtime.run.experiment import circumstances_of, refuse_incapable, shape_of

    refuse_incapable(strategy, runtime)
    shape = shape_of(config, runtime)
    with explained(config.straggler, "straggler"):
        plan = pattern.plan(shape, config.max_time_s, config.seed)
        validate_plan(plan, shape)
    needs: Needs = runtime.check(circumstances_of(config, plan))
    return needs


@contextmanager
def explained(fields: Mapping[str, Any], path: str) -> Iterator[None]:
    """What is raised about one of the fields, under the name that the user knows the field by."""
    try:
        yield
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise explain(error, fields, path) from error


def check_port(port: object) -> None:
    """A port that the runtime is to use must be free now; 0 means any."""
    if not isinstance(port, int) or port == 0:
        return
    if not 0 < port < 65536:
        raise ConfigError(f"runtime.port={port}: must be 0 (any free port) or up to 65535")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((LOOPBACK, port))
        except OSError as error:
            raise ConfigError(f"runtime.port={port}: {reason(error)}; choose another, or 0 for any free one") from None


def check_output(setting: str, directory: Path) -> None:
    """The directory holds no record yet and can be created; nothing stays behind."""
    try:
        if holds_record(directory):
            raise ConfigError(f"{setting}={directory}: holds a record already; choose another directory")
        probe_folder(directory)
    except OSError as error:
        raise ConfigError(f"{setting}={directory}: cannot be written ({reason(error)})") from None
