"""Models that scripts fit to records, stored as small YAML files: finding and reading them, whatever they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

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
            return path.read_bytes()
        except OSError as error:
            known = ", ".join(sorted(file.stem for file in self.directory.glob("*.yaml"))) or "none"
            reason = (error.strerror or str(error)).lower()
            raise ConfigError(
                f"{self.setting}={name}: cannot be read ({reason}); there are {known}, or give a path"
            ) from None

    def path_of(self, name: str) -> Path:
        """Path of the file ``name``, or ``name`` itself if it is a path."""
        return Path(name) if name.endswith((".yaml", ".yml")) or "/" in name else self.directory / f"{name}.yaml"

    def parse(self, data: bytes, name: str) -> dict[Any, Any]:
        """The file's content as plain data; raises :class:`ConfigError` if it is not such a model."""
        import yaml

        where = f"{self.setting}={name}"
        try:
            raw = yaml.safe_load(data)
        except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: not text, or an impossible date
            raise ConfigError(f"{where}: is not a YAML file; {self.script} writes {self.name}s") from None
        if not isinstance(raw, dict) or self.key not in raw:
            raise ConfigError(f"{where}: is not a {self.name}; {self.script} writes them")
        return raw
