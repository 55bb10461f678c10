"""Do the settings that a record names give the configuration that it stores, and is that what ``meta.json`` describes?

They are composed again from ``conf/``. Nothing is built of them, and nothing else is read that a record names.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict

from analysis.records.settings import CONFIG, OVERRIDES
from analysis.reports.vouching import Check
from reading.errors import shown
from reading.plain import load_yaml
from runtime.config.compose import announce, composing, to_raw
from runtime.config.foreign import taken_from_record
from runtime.config.parse import parse
from runtime.errors import ConfigError
from runtime.run.job import described


def check_settings(run_dir: Path, meta: dict[str, Any], *, same_code: bool) -> Check:
    """One question about ``.hydra/``; with other code than the record's, other settings are no failure."""
    if missing := [name for name in (CONFIG, OVERRIDES) if not (run_dir / name).exists()]:
        return Check("settings", "unchecked", f"no {missing[0]}")
    try:
        stored, lines = (run_dir / CONFIG).read_text(encoding="utf-8"), _lines(run_dir / OVERRIDES)
    except ConfigError as error:
        return Check("settings", "unchecked", f"{OVERRIDES}: {error}")
    except (OSError, ValueError) as error:
        return Check("settings", "failed", f".hydra/: {' '.join(str(error).split())}")
    try:
        text, said = _compose(lines)
    except (ConfigError, ValueError) as error:
        return Check("settings", "unchecked", f"{OVERRIDES} cannot be composed here: {error}")
    wrong = [] if text == stored else [f"{CONFIG} is not what {OVERRIDES} gives"]
    wrong += [f"{name} in meta.json is not that of the settings" for name in _different(said, meta)]
    if wrong:
        why = "" if same_code else " with the code here"
        return Check("settings", "failed" if same_code else "unchecked", "; ".join(wrong) + why)
    written = (run_dir / OVERRIDES).read_text(encoding="utf-8") == OmegaConf.to_yaml(OmegaConf.create(lines))
    files = (CONFIG, OVERRIDES) if written else (CONFIG,)
    return Check("settings", "ok", f"{len(lines)} settings give the stored configuration", files)


def _lines(path: Path) -> list[str]:
    """The settings of the job; raises :class:`ConfigError` for one that is not taken from others."""
    taken = taken_from_record(load_yaml(path), Path.cwd())
    if taken.ignored:
        raise ValueError(f"{path.name}: {shown(taken.ignored[0])}: is no setting of a job")
    return taken.kept


def _compose(lines: list[str]) -> tuple[str, dict[str, Any]]:
    """The configuration as Hydra stores it, and what of ``meta.json`` follows from it; raises :class:`ConfigError`."""
    words = argparse.Namespace(config_dir=None, config_path=None, config_name=None, multirun=False, overrides=lines)
    announced = HydraConfig.instance().cfg
    try:
        with composing(words) as composer:
            config = composer.compose(lines)
            announce(config)
            parsed = parse(to_raw(config))
    finally:
        HydraConfig.instance().cfg = announced
    said = {"seed": parsed.seed} if parsed.is_set else {"seed": parsed.seed, **described(parsed)}
    return _text(config), msgspec.json.decode(msgspec.json.encode(said))


def _text(config: DictConfig) -> str:
    with open_dict(config):
        del config["hydra"]
    return OmegaConf.to_yaml(config)


def _different(said: dict[str, Any], meta: dict[str, Any]) -> list[str]:
    there = {"seed": meta.get("seed"), **(meta.get("job") or {})}
    return [name for name, value in said.items() if name in there and there[name] != value]
