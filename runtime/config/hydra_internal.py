"""Parts of Hydra and OmegaConf outside their public interfaces: flags, callbacks, built-in classes, how files are read.

No other module uses Hydra's internals. Because of this file its version is pinned below 1.4.
"""

from __future__ import annotations

import copy
import functools
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import omegaconf._utils as omegaconf_utils
import yaml
from hydra._internal.callbacks import Callbacks
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.utils import get_args_parser
from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult

__all__ = ["BASIC_LAUNCHER", "BASIC_SWEEPER", "Callbacks", "get_args_parser", "read_in_c", "read_once"]

BASIC_LAUNCHER = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"
"""Hydra's launcher that starts one job after another, in this process."""
BASIC_SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
"""Hydra's sweeper over all combinations; any other chooses values while jobs run."""


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
    """Let the loader read no file again that this process has read, until it changes.

    Hydra parses the same thirty files for every configuration that it composes.
    """
    loader.repository = ReadOnce(loader.repository)  # type: ignore[attr-defined]


class ReadOnce(ConfigRepository):
    """Hydra's search for files, which keeps what is in them, by where they are and when they changed."""

    read: ClassVar[dict[tuple[object, ...], ConfigResult]] = {}

    def __init__(self, repository: ConfigRepository) -> None:
        self.sources = repository.sources

    def load_config(self, config_path: str) -> ConfigResult | None:
        """The file, as if read now: a composed configuration is made of these very nodes, and then changed."""
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        if source is None or source.scheme() not in ("file", "pkg"):
            return super().load_config(config_path)
        key: tuple[object, ...] = (source.provider, source.path, config_path)
        if source.scheme() == "file":  # those of a package stay as they are
            about = os.stat(os.path.join(source.path, source._normalize_file_name(config_path)))
            key += (about.st_mtime_ns, about.st_size, about.st_ino)
        if key not in self.read and (loaded := super().load_config(config_path)) is not None:
            self.read[key] = loaded
        return replace(self.read[key], config=copy.deepcopy(self.read[key].config))
