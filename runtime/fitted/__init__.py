"""Models that scripts fit to records, stored as small YAML files: finding and reading them, whatever they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from reading import Unreadable
from reading.files import read_bytes
from reading.plain import MAX_YAML_BYTES, parse_yaml
from runtime.errors import ConfigError

ROOT = Path(__file__).resolve().parent


class Kind(NamedTuple):
    """A kind of fitted model: ``setting`` chooses one in the config, ``script`` writes one, ``key`` is required."""

    name: str
    setting: str
    script: str
    key: str
    directory: Path

    def read(self, name: str) -> bytes:
        """Content of the file ``name`` of the directory (without its ending), or of a path that ends in ``.yaml``.

        Raises :class:`ConfigError` with one line for a file that cannot be read.
        """
        path = self.path_of(name)
        try:
            return read_bytes(path, MAX_YAML_BYTES)
        except Unreadable as error:
            known = ", ".join(sorted(file.stem for file in self.directory.glob("*.yaml"))) or "none"
            raise ConfigError(f"{self.setting}={name}: {error}; there are {known}, or give a path") from None

    def path_of(self, name: str) -> Path:
        """Path of the file ``name``, or ``name`` itself if it is a path."""
        return Path(name) if name.endswith((".yaml", ".yml")) or "/" in name else self.directory / f"{name}.yaml"

    def parse(self, data: bytes, name: str) -> dict[Any, Any]:
        """The file's content as plain data; raises :class:`ConfigError` if it is not such a model."""
        where = f"{self.setting}={name}"
        try:
            raw = parse_yaml(data)
        except Unreadable as error:
            raise ConfigError(f"{where}: {error}; {self.script} writes {self.name}s") from None
        if not isinstance(raw, dict) or self.key not in raw:
            raise ConfigError(f"{where}: is not a {self.name}; {self.script} writes them")
        return raw
