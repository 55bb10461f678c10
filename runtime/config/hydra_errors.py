"""Errors of Hydra and OmegaConf in one line: the setting, and the nearest name that exists."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationKeyError, MissingMandatoryValue, OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from runtime.config import project
from runtime.config.checking import leaves, nearest, suggest
from runtime.errors import ConfigError

REFUSALS = (HydraException, OmegaConfBaseException, UserWarning, YAMLError, UnicodeDecodeError)
"""Exceptions that :func:`explain` explains."""

OF_PLUGINS = ("hydra/launcher", "hydra/sweeper")
"""Groups to which packages add choices."""
PLUGINS = {
    "joblib": "pip install 'stragglab[sweeps]'",
    "ray": "pip install hydra-ray-launcher",
    "submitit_local": "pip install hydra-submitit-launcher",
    "submitit_slurm": "pip install hydra-submitit-launcher",
    "optuna": "pip install hydra-optuna-sweeper",
}
"""How to get launchers and sweepers that Hydra does not bring along."""


def explain(error: Exception) -> ConfigError:
    """One line for an exception of parsing or composing."""
    cause = error.__cause__
    match error:
        case OverrideParseException():
            return ConfigError(f"{error.override}: {_of_word(error.override)}")
        case YAMLError() | UnicodeDecodeError():
            return ConfigError(_in_a_file(error))
        case MissingConfigException():
            return _unknown_option(error)
        case ConfigCompositionException() if isinstance(cause, OmegaConfBaseException):
            where = str(error).removeprefix("Error merging override ") or cause.full_key or "configuration"
            return ConfigError(f"{where}: {_of_merging(cause, where)}")
        case InterpolationKeyError() if key := re.search(r"Interpolation key '(.*)' not found", str(error)):
            return ConfigError(f"{error.full_key}: refers to {key[1]}, which is not set")
        case MissingMandatoryValue():
            return ConfigError(f"{error.full_key}: missing")
        case OmegaConfBaseException():
            return ConfigError(f"{error.full_key or 'configuration'}: {_first_line(error)}")
        case _:
            return ConfigError(_first_line(error))


def _of_merging(cause: OmegaConfBaseException, where: str) -> str:
    """Why a value of the command line does not fit its place."""
    if "Cannot merge DictConfig with ListConfig" not in str(cause):
        return _first_line(cause)
    return "must be settings" if where.partition("=")[2].startswith("[") else "must be a list"


def _of_word(word: str) -> str:
    """Why a word of the command line is no setting."""
    if "=" not in word:
        return "must be written setting=value"
    if re.search(r"\s[\w.@/]+=", word):
        return "is several settings in one word; give each as a word of its own"
    name, _, value = word.partition("=")
    said = "cannot be read; put quotes around values with special characters"
    if re.search(r"""^["'[{]|["']""", value) or not re.search(r"[\s#]", value):
        return said
    return f"""{said}, within those of the shell: '{name}="{value}"'"""


def _in_a_file(error: YAMLError | UnicodeDecodeError) -> str:
    """Where a file is no YAML, as far as that is known, and why."""
    if isinstance(error, MarkedYAMLError) and (mark := error.problem_mark) is not None:
        return f"{mark.name}, line {mark.line + 1}: is no YAML ({error.problem or error.context})"
    return f"configuration: one of its files is no YAML ({_first_line(error)})"


def unknown_setting(error: Exception) -> str | None:
    """The name of the setting that does not exist, if the error is about one."""
    found = re.match(r"Could not override '(.*)'", str(error))
    return found[1] if found else None


def explain_unknown(key: str, line: str, known: DictConfig, groups: Sequence[str]) -> ConfigError:
    """The override ``line`` sets ``key``, which is not in ``known``."""
    tree = OmegaConf.to_container(own_part(known), resolve=False)
    paths = [path for path, _ in leaves(tree) if not path.endswith("_target_")]
    section, _, name = key.rpartition(".")
    siblings = [path.removeprefix(f"{section}.") for path in paths if path.startswith(f"{section}.")]
    if siblings:
        choice = known.hydra.runtime.choices.get(section)
        of = f" of {section}={choice}" if choice else ""
        return ConfigError(f"{line}: no such setting{of}{suggest(name, siblings, section)}")
    return ConfigError(f"{line}: no such setting; {_anywhere(key, [*groups, *paths])}")


def own_part(config: DictConfig) -> DictConfig:
    """Names of all settings without Hydra's own section."""
    return OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])


def _anywhere(key: str, paths: Sequence[str]) -> str:
    """The setting with the same last name in any section, else the nearest of all names."""
    by_tail = {path.rpartition(".")[2]: path for path in reversed(paths)}
    tail = key.rpartition(".")[2]
    found = by_tail.get(tail) or nearest(key, paths, cutoff=0.75) or by_tail.get(nearest(tail, by_tail) or "")
    return f"did you mean {found}?" if found else "python run.py --help lists them all"


def _unknown_option(error: MissingConfigException) -> ConfigError:
    group, _, name = (error.missing_cfg_file or "").removesuffix(".yaml").rpartition("/")
    if not group or error.options is None:
        return ConfigError(_first_line(error))
    near = nearest(name, error.options)
    hint = f"; did you mean {near}?" if near else ""
    cure = f"; {PLUGINS[name]}" if group in OF_PLUGINS and name in PLUGINS else ""
    own = (
        "" if near or cure or group in OF_PLUGINS or project.conf() else "; project=DIR adds those of your own project"
    )
    return ConfigError(f"{group}={name}: no such {group}{hint} ({', '.join(sorted(error.options))}){cure}{own}")


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(":.")
