"""Files of the user that Hydra would never read, because another of that name precedes them on its search path.

Hydra searches its own package, then ``conf/``, then ``--config-dir`` and ``hydra.searchpath``, and takes
the first file of a name without a warning about the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from itertools import combinations
from pathlib import Path

from omegaconf import DictConfig

from runtime.errors import ConfigError


def refuse_shadowed_files(config: DictConfig) -> None:
    """Raise :class:`ConfigError` for the first such file; ``config`` contains the paths that were searched."""
    for first, later in combinations(searched_folders(config), 2):
        for path in sorted(first.rglob("*.yaml")):
            name = path.relative_to(first)
            hidden = later / name
            if hidden.is_file() and not hidden.samefile(path):
                raise ConfigError(
                    f"{hidden}: would never be read, since Hydra takes {path} for that name; give yours another name"
                )


def searched_folders(config: DictConfig) -> list[Path]:
    """The folders of a configuration's search path, in order."""
    return [place for source in config.hydra.runtime.config_sources for place in _folder(source)]


def _folder(source: DictConfig) -> Iterator[Path]:
    """A directory on the search path, if it is one."""
    if source.schema == "file":
        yield Path(source.path)
    elif source.schema == "pkg":
        yield Path(str(files(source.path)))
