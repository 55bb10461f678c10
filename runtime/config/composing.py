"""Every configuration that a command line asks for, composed by Hydra as it will do it itself when the jobs start.

Hydra's own command-line parser, grammar and loader are used, so that nothing is understood differently here. (Some of
it is internal to Hydra: the version is pinned below 1.4.)
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from hydra import __version__ as hydra_version
from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_automatic_config_search_path, get_args_parser
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from runtime.config.hydra_errors import REFUSALS, explain, explain_unknown, own_part, unknown_setting
from runtime.config.yaml_numbers import refuse_misread_numbers
from runtime.errors import ConfigError
from runtime.version import own_version

ROOT = Path(__file__).resolve().parents[2]
MAX_JOBS = 10_000
BASIC_LAUNCHER = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"
BASIC_SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Hydra's arguments; a mistake raises :class:`ConfigError` instead of printing a usage page."""
    parser = get_args_parser()
    parser.error = _refuse  # type: ignore[method-assign]
    for action in parser._actions:
        if action.dest == "version":
            action.version = f"Stragglab {own_version()} (Hydra {hydra_version})"  # type: ignore[attr-defined]
    args = parser.parse_intermixed_args(list(argv))
    modes = {
        "--run": args.run,
        "--multirun": args.multirun,
        "--cfg": args.cfg,
        "--info": args.info,
        "--shell-completion": args.shell_completion,
    }
    given = [name for name, value in modes.items() if value]
    if len(given) > 1:
        raise ConfigError(f"{' '.join(given)}: only one of these at a time")
    if args.resolve and not (args.cfg or args.help):
        raise ConfigError("--resolve: only together with --cfg")
    if args.experimental_rerun is not None:
        raise ConfigError("--experimental-rerun: not supported, it would execute what a pickle file says")
    return args


def _refuse(message: str) -> NoReturn:
    raise ConfigError(message)


@contextlib.contextmanager
def hydra_for(args: argparse.Namespace) -> Iterator[Hydra]:
    """A Hydra that looks for configurations where ``run.py`` does."""
    version.setbase("1.3")
    run_py = str(ROOT / "run.py")
    search_path = create_automatic_config_search_path(run_py, None, args.config_path or "conf")
    if args.config_dir is not None:
        folder = Path(args.config_dir).resolve()
        if not folder.is_dir():
            raise ConfigError(f"--config-dir {args.config_dir}: no such directory")
        search_path.prepend(provider="command-line", path=f"file://{folder}", anchor=SearchPathQuery(provider="schema"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # such as a search path that is not there
            yield Hydra.create_main_hydra2("run", search_path)
    finally:
        GlobalHydra.instance().clear()


class Composer:
    """Composes the jobs of one command line."""

    def __init__(self, hydra: Hydra, args: argparse.Namespace) -> None:
        self.hydra = hydra
        self.config_name: str = args.config_name or "config"
        self.multirun: bool = args.multirun
        self.groups: list[str] = hydra.config_loader.list_groups("")
        self.overrides = self.parse(args.overrides)
        self.lines = [self._spread(override) for override in self.overrides]
        self._announced: DictConfig | None = None

    def parse(self, lines: Sequence[str]) -> list[Override]:
        """Hydra's reading of each line; raises :class:`ConfigError` for what it cannot read."""
        try:
            return OverridesParser.create(config_loader=self.hydra.config_loader).parse_overrides(list(lines))
        except REFUSALS as error:
            raise explain(error) from None

    def _spread(self, override: Override) -> str:
        """Leave the settings of a swept group to the jobs, by sweeping over their one value.

        Hydra would apply them to the group's default choice first, which may not have them: without this,
        ``-m strategy=asp,ssp strategy.lr_rule=unit`` is refused because of bsp.
        """
        line, group = override.input_line or "", override.key_or_group.partition(".")[0]
        swept = any(other.key_or_group == group and other.is_sweep_override() for other in self.overrides)
        value = line.partition("=")[2]
        if not swept or override.key_or_group == group or override.is_sweep_override() or not value:
            return line
        return f"{override.get_key_element()}=choice({value})"

    def compose(self, lines: Sequence[str], mode: RunMode = RunMode.RUN, *, check: bool = True) -> DictConfig:
        """One configuration, Hydra's own section included; raises :class:`ConfigError`."""
        try:
            config = self.hydra.compose_config(self.config_name, list(lines), mode, validate_sweep_overrides=check)
        except REFUSALS as error:
            if (key := unknown_setting(error)) is None:
                raise explain(error) from None
            raise self._unknown(key, self.parse(lines)) from None
        refuse_misread_numbers(config)
        return config

    def _unknown(self, key: str, overrides: Sequence[Override]) -> ConfigError:
        """Compose again with the choices alone, to see which settings there are."""
        choices = [
            o
            for o in overrides
            if o.key_or_group in self.groups and o.get_key_element() != key and not o.is_sweep_override()
        ]
        if len(choices) == len(overrides):  # it is a file that sets it
            return ConfigError(f"{key}: no such setting")
        line = next((o.input_line for o in overrides if o.get_key_element() == key), None) or key
        known = self.compose([o.input_line for o in choices if o.input_line])
        return explain_unknown(key, line, known, self.groups)

    def master(self) -> DictConfig:
        """The configuration of the command line as a whole: of the one job, or of the sweep."""
        swept = [override for override in self.overrides if override.is_sweep_override()]
        if not self.multirun and swept:
            self.multirun = self.compose(self.lines, RunMode.MULTIRUN, check=False).hydra.mode == RunMode.MULTIRUN
            if not self.multirun:
                raise ConfigError(f"{swept[0].input_line}: several values are a sweep: add -m")
        if not self.multirun:
            config = self.compose(self.lines)
            self.multirun = config.hydra.mode == RunMode.MULTIRUN
        return self.compose(self.lines, RunMode.MULTIRUN) if self.multirun else config

    def jobs(self, master: DictConfig) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every job: what sets it apart from the others, and its configuration as plain data."""
        if not self.multirun:
            self.announce(master)
            yield "", to_raw(master)
            return
        keys, values = self._choices(master)
        fixed = list(master.hydra.overrides.hydra)
        cache: dict[tuple[str, ...], DictConfig] = {}
        for choice in itertools.product(*values):
            lines = [f"{key}={value}" for key, value in zip(keys, choice, strict=True)]
            swept = [line for line, options in zip(lines, values, strict=True) if len(options) > 1]
            yield " ".join(swept), self._job(fixed, lines, cache)

    def output_directory(self, master: DictConfig) -> tuple[str, Path]:
        """The setting that says where the record goes, and its value."""
        setting = "hydra.sweep.dir" if self.multirun else "hydra.run.dir"
        self.announce(master)
        try:
            return setting, Path(str(OmegaConf.select(master, setting)))
        except REFUSALS as error:
            raise explain(error) from None

    def hydra_argv(self, argv: Sequence[str]) -> list[str]:
        """The command line for Hydra, which wants all flags before the settings."""
        given = {override.input_line for override in self.overrides}
        return [*(word for word in argv if word not in given), *self.lines]

    def _choices(self, master: DictConfig) -> tuple[list[str], list[list[str]]]:
        """Keys and their values, as Hydra's basic sweeper multiplies them out."""
        basic = master.hydra.sweeper._target_ == BASIC_SWEEPER  # another one decides while it runs
        params = (
            [f"{key}={value}" for key, value in (master.hydra.sweeper.get("params") or {}).items()] if basic else []
        )
        found: dict[str, list[str]] = {}
        for override in self.parse([*params, *master.hydra.overrides.task]):
            if not override.is_sweep_override():
                found[override.get_key_element()] = [override.get_value_element_as_str()]
            elif basic:
                found[override.get_key_element()] = _values(override)
        if math.prod(len(values) for values in found.values()) > MAX_JOBS:
            raise ConfigError(f"--multirun: more than {MAX_JOBS} jobs in one sweep")
        return list(found), list(found.values())

    def _job(self, fixed: list[str], lines: list[str], cache: dict[tuple[str, ...], DictConfig]) -> dict[str, Any]:
        """Composing costs 0.1 s, so jobs that differ in plain values only share what Hydra composed for them."""
        plain = [override for override in self.parse(lines) if self._is_plain(override)]
        rest = tuple(line for line in lines if line not in {override.input_line for override in plain})
        if rest not in cache:
            cache[rest] = self.compose([*fixed, *lines])
        self.announce(cache[rest])
        return to_raw(cache[rest], plain)

    def announce(self, config: DictConfig) -> None:
        """Interpolations such as ``${hydra:job.name}`` look here."""
        if config is not self._announced:
            HydraConfig.instance().set_config(config)
            self._announced = config

    def _is_plain(self, override: Override) -> bool:
        """A value for a setting that exists; mappings are not, since they are merged into what is there."""
        changes = not (override.is_add() or override.is_force_add() or override.is_delete())
        chooses = override.package is not None or override.key_or_group.partition("/")[0] in self.groups
        return changes and not chooses and not isinstance(override.value(), dict)


def _values(override: Override) -> list[str]:
    if not override.is_discrete_sweep():
        raise ConfigError(f"{override.input_line}: the basic sweeper needs a list of values, or range(...)")
    values = list(itertools.islice(override.sweep_string_iterator(), MAX_JOBS + 1))
    if not values:
        raise ConfigError(f"{override.input_line}: matches nothing")
    return values


def to_raw(config: DictConfig, changes: Sequence[Override] = ()) -> dict[str, Any]:
    """The job's part of a composed configuration as plain data, interpolations resolved, with ``changes`` made to it.

    Raises :class:`ConfigError`.
    """
    own = own_part(config)
    try:
        for change in changes:
            OmegaConf.update(own, change.key_or_group, change.value(), merge=True)
        raw = OmegaConf.to_container(own, resolve=True, throw_on_missing=True)
    except REFUSALS as error:
        raise explain(error) from None
    assert isinstance(raw, dict)
    return {str(key): value for key, value in raw.items()}
