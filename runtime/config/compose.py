"""Composition of every job of a command line, once, by Hydra's public interface.

Hydra's grammar and its loader are used, so that every setting has the same meaning as with Hydra's own ``main``.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from hydra import initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict

from runtime.config import project
from runtime.config.hydra_errors import REFUSALS, explain, explain_unknown, unknown_setting
from runtime.config.hydra_internal import BASIC_SWEEPER, read_in_c, read_once
from runtime.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
MAX_JOBS = 1000
"""Most jobs of one sweep: all are composed and checked before the first starts, a tenth of a second each."""


class UserFolders(SearchPathPlugin):
    """The folders of ``--config-dir`` and of the user's project, which are searched after ``conf/``."""

    folder: ClassVar[Path | None] = None

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add the folders; Hydra calls this whenever it is initialised."""
        if self.folder is not None:
            search_path.append(provider="command-line", path=f"file://{self.folder}")
        if (own := project.conf()) is not None:
            search_path.append(provider="project", path=f"file://{own}")


def search_users_folders() -> None:
    """Let Hydra ask for them whenever it is initialised, by us or by itself; it reads our own files quickly."""
    read_in_c(ROOT / "conf")
    Plugins.instance().register(UserFolders)


@contextmanager
def composing(args: argparse.Namespace) -> Iterator[Composer]:
    """A composer that looks for configurations where ``run.py`` does."""
    if args.config_dir is not None:
        if not Path(args.config_dir).is_dir():
            raise ConfigError(f"--config-dir {args.config_dir}: no such directory")
        UserFolders.folder = Path(args.config_dir).resolve()
    search_users_folders()
    folder = os.path.normpath(ROOT / (args.config_path or "conf"))
    hydra = initialize_config_dir(folder, job_name="run", version_base="1.3")
    UserFolders.folder = None
    with hydra:
        yield Composer(args)


class ComposedJob(NamedTuple):
    """One composed job of a command line."""

    label: str
    """Overrides by which it differs from the other jobs of its sweep."""
    lines: tuple[str, ...]
    """All overrides of the job."""
    config: DictConfig
    """The configuration with Hydra's own section."""
    raw: dict[str, Any]
    """The configuration without it, as plain data with interpolations resolved."""


class Composer:
    """Composes the jobs of one command line; :func:`composing` makes it."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.loader = GlobalHydra.instance().config_loader()
        read_once(self.loader)
        self.config_name: str = args.config_name or "config"
        self.multirun: bool = args.multirun
        self.overrides = self.parse(args.overrides)
        self.lines = [self._spread(override) for override in self.overrides]

    @cached_property
    def groups(self) -> list[str]:
        """All config groups; to find them takes a tenth of the time of composing, and few command lines need them."""
        return list(self.loader.list_groups(""))

    def parse(self, lines: Sequence[str]) -> list[Override]:
        """Overrides as Hydra parses each line; raises :class:`ConfigError` for one that it cannot parse."""
        try:
            return OverridesParser.create(config_loader=self.loader).parse_overrides(list(lines))
        except REFUSALS as error:
            raise explain(error) from None

    def _spread(self, override: Override) -> str:
        """Turn settings of a swept group into sweeps over one value, so that they are applied to each job.

        Hydra would apply them to the group's default choice first, which may not have them: without this,
        ``-m strategy=asp,ssp strategy.lr_rule=unit`` is refused because of bsp.
        """
        line, group = override.input_line or "", override.key_or_group.partition(".")[0]
        swept = any(other.key_or_group == group and other.is_sweep_override() for other in self.overrides)
        value = line.partition("=")[2]
        if not swept or override.key_or_group == group or override.is_sweep_override() or not value:
            return line
        return f"{override.get_key_element()}=choice({value})"

    def compose(self, lines: Sequence[str], mode: RunMode = RunMode.RUN) -> DictConfig:
        """One configuration, Hydra's own section included; raises :class:`ConfigError`.

        In the mode of sweeps, swept settings are left as they are.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # such as a missing search path
                return self.loader.load_configuration(self.config_name, list(lines), mode)
        except REFUSALS as error:
            if (key := unknown_setting(error)) is None:
                raise explain(error) from None
            raise self._unknown(key, lines, mode) from None

    def raw(self, lines: Sequence[str]) -> dict[str, Any]:
        """The configuration of the job with these settings as plain data; raises :class:`ConfigError`."""
        config = self.compose(lines)
        announce(config)
        return to_raw(config)

    def _unknown(self, key: str, lines: Sequence[str], mode: RunMode) -> ConfigError:
        """Compose again without the setting, to find the existing ones."""
        overrides = self.parse(lines)
        wrong = [override for override in overrides if override.get_key_element() == key]
        if not wrong:  # a file sets it
            return ConfigError(f"{key}: no such setting")
        known = self.compose([str(one.input_line) for one in overrides if one not in wrong], mode)
        return explain_unknown(key, str(wrong[0].input_line), known, self.groups)

    def master(self) -> DictConfig:
        """The configuration of the command line as a whole: of the one job, or of the sweep."""
        swept = [override for override in self.overrides if override.is_sweep_override()]
        config = self.compose(self.lines, RunMode.MULTIRUN if swept or self.multirun else RunMode.RUN)
        self.multirun = self.multirun or config.hydra.mode == RunMode.MULTIRUN
        if swept and not self.multirun:
            raise ConfigError(f"{swept[0].input_line}: several values are a sweep: add -m")
        mode = RunMode.MULTIRUN if self.multirun else RunMode.RUN
        if config.hydra.mode != mode:
            config.hydra.mode = mode
            config.hydra.overrides.hydra.append(f"hydra.mode={mode.name}")
        announce(config)
        return config

    def num_jobs(self, master: DictConfig) -> int:
        """How many :meth:`jobs` there are; raises :class:`ConfigError`."""
        return math.prod(len(values) for values in self._choices(master)[1]) if self.multirun else 1

    def jobs(self, master: DictConfig) -> Iterator[ComposedJob]:
        """Every job, in order; raises :class:`ConfigError`. All have the date of ``master``."""
        if not self.multirun:
            yield ComposedJob("", tuple(self.lines), master, to_raw(master))
            return
        with suppress(*REFUSALS):  # an error shows when the directory is read; all jobs have its date
            OmegaConf.select(master, "hydra.sweep.dir")
        keys, values = self._choices(master)
        fixed = written_lines(master.hydra.overrides.hydra)
        for number, choice in enumerate(itertools.product(*values)):
            lines = tuple(f"{key}={value}" for key, value in zip(keys, choice, strict=True))
            label = " ".join(line for line, options in zip(lines, values, strict=True) if len(options) > 1)
            config = self.compose([*fixed, *lines])
            OmegaConf.copy_cache(from_config=master, to_config=config)
            with open_dict(config.hydra.job):
                config.hydra.job.id = config.hydra.job.num = number
            announce(config)
            yield ComposedJob(label, lines, config, to_raw(config))

    def _choices(self, master: DictConfig) -> tuple[list[str], list[list[str]]]:
        """Keys and their values, as Hydra's basic sweeper multiplies them out."""
        basic = master.hydra.sweeper._target_ == BASIC_SWEEPER
        params = (
            [f"{key}={value}" for key, value in (master.hydra.sweeper.get("params") or {}).items()] if basic else []
        )
        found: dict[str, list[str]] = {}
        for override in self.parse([*params, *written_lines(master.hydra.overrides.task)]):
            if not override.is_sweep_override():
                found[override.get_key_element()] = [override.get_value_element_as_str()]
            elif basic:
                found[override.get_key_element()] = _values(override)
        if math.prod(len(values) for values in found.values()) > MAX_JOBS:
            raise ConfigError(f"--multirun: more than {MAX_JOBS} jobs in one sweep")
        return list(found), list(found.values())


def written_lines(lines: ListConfig) -> list[str]:
    """Settings as they were written: jobs resolve their interpolations."""
    written = OmegaConf.to_container(lines, resolve=False)
    assert isinstance(written, list)
    return [str(line) for line in written]


def _values(override: Override) -> list[str]:
    if not override.is_discrete_sweep():
        raise ConfigError(f"{override.input_line}: the basic sweeper needs a list of values, or range(...)")
    values = list(itertools.islice(override.sweep_string_iterator(), MAX_JOBS + 1))
    if not values:
        raise ConfigError(f"{override.input_line}: matches nothing")
    return values


def announce(config: DictConfig) -> None:
    """Interpolations such as ``${hydra:job.name}`` look into this configuration from now on."""
    HydraConfig.instance().set_config(config)


def to_raw(config: DictConfig, *only: str) -> dict[str, Any]:
    """The job's part of a composed configuration (or ``only`` these sections) as plain data, interpolations resolved.

    Raises :class:`ConfigError`.
    """
    try:
        return {str(key): _plain(config[key]) for key in only or config if key != "hydra"}
    except REFUSALS as error:
        raise explain(error) from None


def _plain(value: Any) -> Any:
    """A section, or a setting, without a copy of the whole configuration."""
    return OmegaConf.to_container(value, resolve=True, throw_on_missing=True) if OmegaConf.is_config(value) else value


def composed_again(settings: Sequence[str]) -> dict[str, Any]:
    """The configuration of the job that Hydra has started here, with more settings; raises :class:`ConfigError`."""
    hydra = HydraConfig.get()
    config = (
        GlobalHydra.instance()
        .config_loader()
        .load_configuration(hydra.job.config_name, [*hydra.overrides.task, *settings], RunMode.RUN)
    )
    announced = HydraConfig.instance().cfg
    announce(config)
    try:
        return to_raw(config)
    finally:
        HydraConfig.instance().cfg = announced
