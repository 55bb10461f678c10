"""Files of the user that Hydra would never read, since another of that name comes first on its search path.

Hydra looks into its own package, then into ``conf/``, then into ``--config-dir`` and ``hydra.searchpath``, and takes
the first file of a name without a word about the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from itertools import combinations
from pathlib import Path

from omegaconf import DictConfig

from runtime.errors import ConfigError


def refuse_shadowed_files(config: DictConfig) -> None:
    """Raise :class:`ConfigError` for the first of them; ``config`` knows where it was composed from."""
    folders = [place for source in config.hydra.runtime.config_sources for place in _folder(source)]
    for first, later in combinations(folders, 2):
        for path in sorted(first.rglob("*.yaml")):
            name = path.relative_to(first)
            hidden = later / name
            if hidden.is_file() and not hidden.samefile(path):
                raise ConfigError(
                    f"{hidden}: would never be read, since Hydra takes {path} for that name; give yours another name"
                )


def _folder(source: DictConfig) -> Iterator[Path]:
    """A directory on the search path, if it is one."""
    if source.schema == "file":
        yield Path(source.path)
    elif source.schema == "pkg":
        yield Path(str(files(source.path)))
