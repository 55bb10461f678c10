"""Everything that is checked before the first process starts.

A command line is refused here, with one line and exit code 2, or its jobs can start: every job of a sweep is composed,
parsed and built, its straggler plan drawn, its port tested. The launcher gets these objects
(``runtime/run/launch.py``); the output directory is claimed right before that.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hydra.core.config_loader import ConfigLoader
from omegaconf import DictConfig, OmegaConf

from runtime.config.anchoring import start_directory
from runtime.config.checking import leaves
from runtime.config.command_line import only_shows, parse_arguments
from runtime.config.compose import ComposedJob, Composer, announce, composing, search_users_folders
from runtime.config.hydra_errors import REFUSALS, explain
from runtime.config.hydra_internal import BASIC_LAUNCHER, BASIC_SWEEPER
from runtime.config.instantiate import TARGET, is_allowed
from runtime.config.parse import NO_JOBS
from runtime.config.shadowing import refuse_shadowed_files
from runtime.errors import ConfigError
from runtime.importing import importing
from runtime.record.progress import counted

if TYPE_CHECKING:
    from runtime.api import Needs
    from runtime.run.checking import Checked

EXPERIMENT = "experiment"
"""A folder of conf/ that is not a group: its files describe many runs."""
HYDRAS = ("hydra.", "hydra_plugins.", "optuna.samplers.")
"""Code that Hydra's section may name: Hydra itself, its plugins, and the samplers of its sweeper ``optuna``."""
SWEEPER, BASIC, PARAMS = "hydra/sweeper", "basic", "hydra.sweeper.params"
OF_SETS = ("policy", "placement", "prevention", "replay")
"""Sections that only a set of jobs has a use for."""


class Jobs(NamedTuple):
    """Checked jobs, which may start."""

    master: DictConfig
    """The configuration of the command line as a whole."""
    loader: ConfigLoader
    sweep: bool
    setting: str
    """The setting that determines the record's directory."""
    directory: Path
    needs: Needs
    """Requirements of all of them together."""
    pending: deque[tuple[ComposedJob, Checked]]
    """Checked jobs in order. Empty: another launcher or sweeper than Hydra's basic ones composes and starts them."""


class Ready(NamedTuple):
    """A checked command line."""

    argv: list[str]
    """Arguments for Hydra's own ``main``, which expects all flags before the settings."""
    jobs: Jobs | None = None
    """The jobs; None: something is only shown."""
    shows: str = ""
    """The text to show; empty: Hydra shows its own."""


def preflight(argv: Sequence[str]) -> Ready:
    """Check every job of the command line ``argv`` (without the program's name); raises :class:`ConfigError`.

    Flags that only show something (``--cfg``, ``--info``, ``--shell-completion``) are left to Hydra; ``--help`` is not.
    """
    start = start_directory()
    args = parse_arguments(argv)
    search_users_folders()
    if args.help:
        with importing():
            from runtime.run.helping import help_text
        with composing(args) as composer:
            return Ready(list(argv), shows=help_text(composer, start, resolve=args.resolve))
    if only_shows(args):
        return Ready(list(argv))
    refuse_targets(args.overrides)
    with composing(args) as composer:
        refuse_misused_groups(composer)
        refuse_params(composer)
        master = composer.master()
        refuse_foreign_targets(master)
        refuse_shadowed_files(master)
        from runtime.run.checking import check

        needs: list[Needs] = []
        pending: deque[tuple[ComposedJob, Checked]] = deque()
        for composed in counted(composer.jobs(master), composer.num_jobs(master), "checking jobs"):
            with _label(composed.label):
                refuse_without_jobs(composer, composed)
                job = check(composed.raw, start, functools.partial(recomposed, composer, composed))
                check_launcher(composer, master, job)
            needs.append(job.needs)
            if is_ours(composer, master):
                pending.append((composed, job))
        if composer.multirun:  # jobs have been announced in between
            announce(master)
        setting, directory = output_directory(composer, master)
        together = functools.reduce(lambda one, other: one.with_those_of(other), needs)
        jobs = Jobs(master, composer.loader, composer.multirun, setting, directory, together, pending)
        return Ready(hydra_argv(composer, argv), jobs)


@contextmanager
def _label(label: str) -> Iterator[None]:
    """Name the job of a sweep in an error."""
    try:
        yield
    except ConfigError as error:
        raise (ConfigError(f"{error} (in the job {label})") if label else error) from None


def refuse_targets(lines: Sequence[str]) -> None:
    """Refuse targets on the command line: only files may name code."""
    for line in lines:
        if TARGET in line:
            raise ConfigError(f"{line}: {TARGET} cannot be set on the command line; name it in a file below conf/")


def refuse_misused_groups(composer: Composer) -> None:
    """Check that exactly one file of each group is chosen."""
    for override in composer.overrides:
        if override.key_or_group == EXPERIMENT:
            raise ConfigError(f"{override.input_line}: is many runs; make figures EXPERIMENT={override.value()}")
        key, one = override.key_or_group, isinstance(override.value(), str) and not override.is_delete()
        if not one and not override.is_sweep_override() and key in composer.groups:
            options = ", ".join(composer.loader.get_group_options(key))
            raise ConfigError(f"{override.input_line}: exactly one {key} is chosen ({options})")


def refuse_params(composer: Composer) -> None:
    """Refuse the basic sweeper's own list of sweeps, which Hydra cannot take from a command line."""
    if any(override.key_or_group == SWEEPER and override.value() != BASIC for override in composer.overrides):
        return  # another one, which has settings of its own
    for override in composer.overrides:
        key = override.key_or_group
        none = key == PARAMS and override.value() is None
        if not none and (key == PARAMS or key.startswith(f"{PARAMS}.")):
            raise ConfigError(f"{override.input_line}: is for files; here write what is swept by itself: -m seed=0,1")


def refuse_foreign_targets(master: DictConfig) -> None:
    """Apply our allow-list to Hydra's own section, too, because Hydra would execute whatever it names."""
    for path, value in leaves(OmegaConf.to_container(master.hydra, resolve=False), "hydra"):
        foreign = not str(value).startswith(HYDRAS) and not is_allowed(str(value))
        if path.endswith((TARGET, "()")) and foreign:
            raise ConfigError(f"{path}={value}: not below a package that may be named in a configuration")


def is_ours(composer: Composer, master: DictConfig) -> bool:
    """Whether this program starts the jobs itself, one after another."""
    basic = (BASIC_LAUNCHER, BASIC_SWEEPER)
    return not composer.multirun or (master.hydra.launcher.get(TARGET), master.hydra.sweeper.get(TARGET)) == basic


def recomposed(composer: Composer, composed: ComposedJob, settings: tuple[str, ...]) -> dict[str, Any]:
    """The configuration of a job of a sweep (or of the one) with more settings; raises :class:`ConfigError`."""
    raw = composer.raw([*composed.lines, *settings])
    announce(composed.config)
    return raw


def refuse_without_jobs(composer: Composer, composed: ComposedJob) -> None:
    """Settings of sets of jobs would have no effect on one job."""
    if composed.raw.get("jobs") != NO_JOBS:
        return
    for override in composer.overrides:
        if override.key_or_group.partition(".")[0] in OF_SETS:
            raise ConfigError(
                f"{override.input_line}: there is one job only, and nothing waits or is placed; choose a set of jobs "
                "(jobs=NAME), or leave it out"
            )


def check_launcher(composer: Composer, master: DictConfig, job: Checked) -> None:
    """Refuse real-time jobs with Hydra's other launchers, which run several at once, or elsewhere."""
    if composer.multirun and master.hydra.launcher.get(TARGET) != BASIC_LAUNCHER and job.real_time:
        name = master.hydra.runtime.choices.get("hydra/launcher")
        raise ConfigError(
            f"hydra/launcher={name}: starts jobs at once or elsewhere; those of runtime={job.config.names.runtime} "
            "need this machine and its namespaces to themselves; leave it out, or choose runtime=virtual"
        )


def output_directory(composer: Composer, master: DictConfig) -> tuple[str, Path]:
    """The setting of the record's directory, and its value; raises :class:`ConfigError`."""
    setting = "hydra.sweep.dir" if composer.multirun else "hydra.run.dir"
    try:
        return setting, Path(str(OmegaConf.select(master, setting)))
    except REFUSALS as error:
        raise explain(error) from None


def hydra_argv(composer: Composer, argv: Sequence[str]) -> list[str]:
    """The command line with all flags before the settings."""
    given = {override.input_line for override in composer.overrides}
    return [*(word for word in argv if word not in given), *composer.lines]
