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
    found: dict[str, str] = {}
    for choice in choices:
        one = with_straggler(composer, master, choice)
        announce(one)
        if reason := why_not(to_raw(one), start):
            found[choice.name] = reason
    announce(master)
    return found


def with_straggler(composer: Composer, master: DictConfig, choice: Choice) -> DictConfig:
    """The configuration with another pattern; composed as a whole only where its file has defaults of its own."""
    section = OmegaConf.load(choice.path) if choice.path is not None else None
    if not isinstance(section, DictConfig) or "defaults" in section:
        return composer.compose([*composer.lines, f"straggler={choice.name}"])
    one = master.copy()
    with read_write(one.hydra), open_dict(one):
        one.straggler = section
        one.hydra.runtime.choices.straggler = choice.name
    return one


def why_not(raw: Mapping[str, object], start: Path) -> str:
    """Why the job is refused; empty if it is not."""
    try:
        check_job(parse(raw), start)
    except ConfigError as error:
        return str(error)
    return ""
