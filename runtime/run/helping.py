"""The text of ``--help``: every choice with a line, what this job cannot have marked, examples and settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from reading import Unreadable
from reading.plain import measure_yaml
from runtime.config.anchoring import anchored
from runtime.config.choices import Choice, format_group, ordered, read_choices, sentence
from runtime.config.compose import Composer, announce, to_raw
from runtime.config.hydra_errors import own_part
from runtime.config.parse import NO_JOBS, Config, parse
from runtime.config.shadowing import searched_folders
from runtime.errors import ConfigError
from runtime.run.checks.job import Undisturbed, check_undisturbed, disturbed
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
    try:
        job = check_undisturbed(parse({**raw, "straggler": UNDISTURBED}), start)
        if raw.get("jobs") != NO_JOBS or why_not(job, job.config):
            return {}
    except ConfigError:
        return {}
    own, found = master.straggler, dict[str, str]()
    for choice in choices:
        names = {**raw["names"], "straggler": choice.name}
        try:
            config = parse({**raw, "straggler": straggler_of(composer, master, choice), "names": names})
        except ConfigError as error:
            found[choice.name] = str(error)
            continue
        if reason := why_not(job, anchored(config, start)):
            found[choice.name] = reason
    put(master, own)
    return found


def straggler_of(composer: Composer, master: DictConfig, choice: Choice) -> Any:
    """The section of another pattern as plain data; composed as a whole only if its file needs more than the settings.

    Else it is resolved in ``master`` itself: a composition for each of all patterns took most of the time.
    """
    try:
        if choice.path is not None:
            measure_yaml(choice.path)
    except Unreadable as error:
        raise ConfigError(f"{choice.path}: {error}") from None
    text = choice.path.read_text("utf-8", "replace") if choice.path is not None else "defaults:"
    if not re.search(r"^defaults:|\$\{hydra:", text, re.MULTILINE):
        section = OmegaConf.load(choice.path)  # type: ignore[arg-type]
        if not re.search(r"\$\{|\?\?\?", text):
            return OmegaConf.to_container(section)
        put(master, section)
        return to_raw(master, "straggler")["straggler"]
    one = composer.compose([*composer.lines, f"straggler={choice.name}"])
    announce(one)
    try:
        return to_raw(one, "straggler")["straggler"]
    finally:
        announce(master)


def put(config: DictConfig, section: Any) -> None:
    """Exchange the pattern in a configuration."""
    with open_dict(config):
        config.straggler = section


def why_not(job: Undisturbed, config: Config) -> str:
    """Why the job is refused with the pattern of this configuration; empty if it is not."""
    try:
        disturbed(replace(job, config=config))
    except ConfigError as error:
        return str(error)
    return ""
