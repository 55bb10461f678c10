"""Combinations of settings that are refused: every rule has a command line."""

from __future__ import annotations

import re
from itertools import chain
from shlex import split
from string import Formatter
from typing import Any

import pytest

from runtime.config.abilities import UNABLE, Unable, commands_on
from runtime.config.parse import parse
from runtime.config.rules import Rule
from runtime.errors import ConfigError
from runtime.run.checks.job import check_job
from runtime.run.checks.rules import SECTIONS as OF_JOB
from runtime.run.jobs.checks import check_set
from runtime.run.jobs.rules import SECTIONS as OF_SETS
from tests.support.runs import ROOT
from tests.unit.run.refused_lines import REFUSED_LINES
from tests.unit.strategies.whole_jobs import composer

SECTIONS: dict[str, tuple[Rule[Any], ...]] = {**OF_JOB, **OF_SETS}
RULES: dict[str, Rule[Any]] = {rule.name: rule for rule in chain.from_iterable(SECTIONS.values())}


def pattern(rule: Rule[Any]) -> str:
    """A regular expression of the rule's messages; sets of jobs name the job before."""
    parts = Formatter().parse(f"{rule.refused}; {rule.cure}")
    return "(jobs=.+: job .+?: )?" + "".join(re.escape(text) + (".+" if name else "") for text, name, _, _ in parts)


def names_of(message: str) -> list[str]:
    """The rules that give this message."""
    return [name for name, rule in RULES.items() if re.fullmatch(pattern(rule), message)]


def test_every_rule_has_a_line_and_every_line_a_rule() -> None:
    assert list(REFUSED_LINES) == list(RULES)
    assert len(RULES) == sum(len(rules) for rules in SECTIONS.values()), "two rules have one name"


@pytest.mark.few(26)
@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule not in UNABLE])
def test_the_line_is_refused_by_this_rule_and_by_no_other(name: str) -> None:
    raw = composer().raw(split(REFUSED_LINES[name]))
    of_sets = any(RULES[name] in rules for rules in OF_SETS.values())
    with pytest.raises(ConfigError) as refused:
        check_set(raw, parse(raw), ROOT, lambda words: {}) if of_sets else check_job(parse(raw))
    assert names_of(str(refused.value)) == [name], str(refused.value)


@pytest.mark.parametrize("rule", UNABLE, ids=lambda rule: rule.name)
def test_the_rule_says_why_its_abilities_are_missing(rule: Unable) -> None:
    can = commands_on(parse(composer().raw(split(REFUSED_LINES[rule.name]))))
    reasons = {ability: names_of(reason) for ability, reason in can.items() if reason is not None}
    assert {ability for ability, names in reasons.items() if rule.name in names} == set(rule.abilities)
