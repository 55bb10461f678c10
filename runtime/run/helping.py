"""The text of ``--help``: every choice with a line, what this job cannot have marked, examples and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Template

from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from runtime.config.choices import Choice, format_group, ordered, read_choices, sentence
from runtime.config.compose import Composer, announce, to_raw
from runtime.config.hydra_errors import own_part
from runtime.config.parse import NO_JOBS, parse
from runtime.config.shadowing import searched_folders
from runtime.errors import ConfigError
from runtime.run.checks.job import check_job
from runtime.training.lr_schedules import SCHEDULES
from runtime.training.optimizers import RULES

UNDISTURBED = {"_target_": "injectors.patterns.NoStragglers"}
RULES_OF: Mapping[str, Mapping[str, type]] = {"workload.optimizer.name": RULES, "workload.lr_schedule.name": SCHEDULES}
"""Settings whose values are classes of ours."""


def help_text(composer: Composer, start: Path, *, resolve: bool = False) -> str:
    """The help about the command line that ``composer`` has read; relative paths in it are below ``start``."""
    master = composer.master()
    folders = list(searched_folders(master))
    lines: list[str] = []
    for group in ordered(composer.groups):
        choices = read_choices(group, composer.loader.get_group_options(group), folders)
        refused = refused_stragglers(composer, master, choices, start) if group == "straggler" else {}
        lines += [*format_group(group, choices, master.hydra.runtime.choices.get(group), refused), ""]
    for setting, classes in RULES_OF.items():
        choices = [Choice(name, sentence(one.__doc__ or "")) for name, one in classes.items()]
        lines += [*format_group(setting, choices, OmegaConf.select(master, setting)), ""]
    return Template(master.hydra.help.template).safe_substitute(
        APP_CONFIG_GROUPS="\n".join(lines), CONFIG=OmegaConf.to_yaml(own_part(master), resolve=resolve)
    )


def refused_stragglers(
    composer: Composer, master: DictConfig, choices: Iterable[Choice], start: Path
) -> Mapping[str, str]:
    """Which patterns the chosen cluster and runtime refuse, and why; none if the job is refused without stragglers."""
    raw = to_raw(master)
    if raw.get("jobs") != NO_JOBS or why_not({**raw, "straggler": UNDISTURBED}, start):
        return {}
    own, name = master.straggler, master.hydra.runtime.choices.get("straggler")
    found: dict[str, str] = {}
    for choice in choices:
        if reason := why_not(to_raw(with_straggler(composer, master, choice)), start):
            found[choice.name] = reason
    put(master, own, name)
    return found


def with_straggler(composer: Composer, master: DictConfig, choice: Choice) -> DictConfig:
    """The configuration with another pattern, announced; composed as a whole only if its file has defaults of its own.

    Else it is ``master`` itself with another section: copies for all patterns took a fifth of the time of ``--help``.
    """
    section = OmegaConf.load(choice.path) if choice.path is not None else None
    if isinstance(section, DictConfig) and "defaults" not in section:
        put(master, section, choice.name)
        return master
    one = composer.compose([*composer.lines, f"straggler={choice.name}"])
    announce(one)
    return one


def put(config: DictConfig, section: DictConfig, name: str) -> None:
    """Exchange the pattern in a configuration, and announce it."""
    with read_write(config.hydra), open_dict(config):
        config.straggler = section
        config.hydra.runtime.choices.straggler = name
    announce(config)


def why_not(raw: Mapping[str, object], start: Path) -> str:
    """Why the job is refused; empty if it is not."""
    try:
        check_job(parse(raw), start)
    except ConfigError as error:
        return str(error)
    return ""
