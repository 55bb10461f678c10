"""Parts of Hydra and OmegaConf outside their public interfaces: flags, callbacks, built-in classes, how files are read.

No other module uses Hydra's internals. Because of this file its version is pinned below 1.4.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import hydra._internal.hydra as hydra_itself
import omegaconf._utils as omegaconf_utils
import omegaconf.base
import yaml
from hydra._internal import config_loader_impl, defaults_list
from hydra._internal.callbacks import Callbacks
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.utils import get_args_parser
from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult

from reading.plain import measure_yaml
from runtime.errors import ConfigError

__all__ = ["BASIC_LAUNCHER", "BASIC_SWEEPER", "Callbacks", "get_args_parser", "read_all_once", "read_in_c", "read_once"]

BASIC_LAUNCHER = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"
"""Hydra's launcher that starts one job after another, in this process."""
BASIC_SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
"""Hydra's sweeper over all combinations; any other chooses values while jobs run."""
OURS = "main"
"""The provider of ``conf/`` itself, which needs no limits."""


@functools.cache
def read_in_c(folder: Path) -> None:
    """Let OmegaConf read the YAML below ``folder`` by libyaml, where PyYAML has it: an eighth of the time.

    For files that are known: libyaml ends the process where brackets are nested some thousands deep.
    """
    if not yaml.__with_libyaml__:
        return
    known = omegaconf_utils.get_yaml_loader()

    class InC(yaml.cyaml.CParser, known):  # type: ignore[misc, valid-type]
        def __init__(self, stream: Any) -> None:
            yaml.cyaml.CParser.__init__(self, stream)
            yaml.constructor.SafeConstructor.__init__(self)
            yaml.resolver.Resolver.__init__(self)

    def loader(stream: Any) -> Any:
        name = str(getattr(stream, "name", ""))
        return InC(stream) if name.startswith(f"{folder}{os.sep}") else known(stream)

    omegaconf_utils.get_yaml_loader = lambda: loader


def read_once(loader: ConfigLoader) -> None:
    """Let the loader read no file again that this process has read, until it changes, and merge the same files once.

    Hydra parses and merges the same thirty files for every configuration that it composes, searches its folders for
    every group that it lists, and OmegaConf parses the same interpolations.
    """
    loader.repository = ReadOnce(loader.repository)  # type: ignore[attr-defined]
    merge, merged = loader._compose_config_from_defaults_list, Kept()  # type: ignore[attr-defined]

    def compose(defaults: Sequence[Any], repo: Any) -> Any:
        files = (*map(repr, defaults), *map(repr, repo.get_sources()))
        return merged.copy_of(files, lambda: merge(defaults=defaults, repo=repo))

    loader._compose_config_from_defaults_list = compose  # type: ignore[attr-defined]
    search = functools.cache(loader._parse_overrides_and_create_caching_repo)  # type: ignore[attr-defined]

    def options(group_name: str, results_filter: ObjectType | None = ObjectType.CONFIG) -> list[str]:
        found: list[str] = search(None, ())[1].get_group_options(group_name, results_filter)
        return found

    loader.get_group_options = options  # type: ignore[assignment]
    _work_once()


def read_all_once() -> None:
    """The same for every loader that Hydra makes for itself from now on, where it only shows something.

    (Launchers of others may send Hydra's loader to other processes, which this one cannot be sent to.)
    """
    make = hydra_itself.ConfigLoaderImpl  # type: ignore[attr-defined]

    def made(*args: Any, **more: Any) -> ConfigLoader:
        loader: ConfigLoader = make(*args, **more)
        read_once(loader)
        return loader

    hydra_itself.ConfigLoaderImpl = made  # type: ignore[attr-defined, assignment]


@functools.cache
def _work_once() -> None:
    """Interpolations are parsed once; which files a configuration is made of is found once per choice of them.

    Where the list of a file has no interpolation, nothing is made that could be interpolated.
    """
    base: Any = omegaconf.base
    base.parse = functools.lru_cache(maxsize=4096)(base.parse)
    lists: Any = defaults_list
    make_map = lists._create_interpolation_map

    def map_if_needed(overrides: Any, names: list[Any], self_added: bool) -> Any:
        return make_map(overrides, names, self_added) if any("${" in str(vars(one)) for one in names) else None

    lists._create_interpolation_map = map_if_needed
    find = config_loader_impl.create_defaults_list  # type: ignore[attr-defined]

    def found(repo: Any, overrides_list: list[Any], **how: Any) -> Any:
        files = getattr(repo, "delegate", None)
        if not isinstance(files, ReadOnce):
            return find(repo=repo, overrides_list=overrides_list, **how)
        chooses = {
            id(one): not isinstance(one.value(), dict) and repo.group_exists(one.key_or_group)
            for one in overrides_list
            if not one.is_sweep_override()
        }
        choices = [str(one.input_line) for one in overrides_list if chooses.get(id(one))]
        key = (*choices, *how.items(), *map(repr, repo.get_sources()))
        lists = files.lists.by_key
        if key not in lists:
            lists[key] = find(repo=repo, overrides_list=overrides_list, **how)
        values = [one for one in overrides_list if chooses.get(id(one)) is False]
        return dataclasses.replace(lists[key], config_overrides=values)

    module: Any = config_loader_impl
    module.create_defaults_list = found


class Kept:
    """A cache that keeps a value from its second use on, so that the first needs no copy."""

    def __init__(self) -> None:
        self.by_key: dict[object, Any] = {}

    def __deepcopy__(self, _memo: object) -> Kept:
        return self  # Hydra copies its search for files with every composition

    def copy_of(self, key: object, make: Callable[[], Any]) -> Any:
        """Return ``make``'s result for this key, which nobody else changes."""
        if key not in self.by_key:
            self.by_key[key] = None
            return make()
        if self.by_key[key] is None:
            self.by_key[key] = make()
        return copy.deepcopy(self.by_key[key])


class ReadOnce(ConfigRepository):
    """Hydra's search for files, which keeps what is in them, by where they are and when they changed."""

    read: ClassVar[Kept] = Kept()

    def __init__(self, repository: ConfigRepository) -> None:
        self.sources = repository.sources
        self.lists = Kept()

    def load_config(self, config_path: str) -> ConfigResult | None:
        """The file, as if read now: a composed configuration is made of these very nodes, and then changed."""
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        if source is None or source.scheme() not in ("file", "pkg"):
            return super().load_config(config_path)
        key: tuple[object, ...] = (source.provider, source.path, config_path)
        file = None
        if source.scheme() == "file":  # files of a package stay as they are
            file = Path(source.path, source._normalize_file_name(config_path))
            about = os.stat(file)
            key += (about.st_mtime_ns, about.st_size, about.st_ino)

        def read() -> ConfigResult | None:
            with _within_limits(None if source.provider == OURS else file):
                return super(ReadOnce, self).load_config(config_path)

        found: ConfigResult | None = self.read.copy_of(key, read)
        return found


@contextmanager
def _within_limits(file: Path | None) -> Iterator[None]:
    """Refuse a file, of ``--config-dir`` for example, that stands for more than is read, in one line."""
    try:
        if file is not None:
            measure_yaml(file)
        yield
    except (HydraException, UnicodeDecodeError):  # which composing explains
        raise
    except (OSError, RecursionError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ConfigError(f"{file}: {' '.join(str(error).split())}") from None
