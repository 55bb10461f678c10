"""Numbers in YAML files that are not what they seem.

PyYAML follows YAML 1.1, where ``010`` is octal and ``12:30`` sexagesimal: 8 and 750. By the time a configuration is
composed nobody can tell, so the chosen files themselves are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig

from runtime.errors import ConfigError

MISREAD = re.compile(r"(?:[:,\[{-]\s+|[\[,])([-+]?(?:0[0-9_]+|[1-9][0-9_]*(?::[0-5]?[0-9])+))\s*(?:[,\]}]|$)")


def refuse_misread_numbers(config: DictConfig) -> None:
    """Raise :class:`ConfigError` for such a number in a file that ``config`` was composed from."""
    for path in chosen_files(config):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if found := MISREAD.search(line.partition("#")[0]):
                raise ConfigError(
                    f"{path}:{number}: YAML does not read {found[1]} as it is written; "
                    "write a decimal number, or quotes around a text"
                )


def chosen_files(config: DictConfig) -> Iterator[Path]:
    """The primary configuration and the choice of each group, wherever on the search path they are files."""
    names = [f"{group}/{choice}" for group, choice in config.hydra.runtime.choices.items()]
    for source in config.hydra.runtime.config_sources:
        if source.schema == "file":
            files = (Path(source.path) / f"{name}.yaml" for name in (config.hydra.job.config_name, *names))
            yield from (path for path in files if path.is_file())
