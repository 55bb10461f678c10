"""Combinations of settings that cannot be, as rules in an order (pure).

A rule says when it applies, what is refused and what cures it. The first that applies gives the user's message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from runtime.errors import ConfigError

FactsT = TypeVar("FactsT")


@dataclass(frozen=True)
class Rule(Generic[FactsT]):
    """One combination that is refused. ``refused`` and ``cure`` may name attributes of the facts in braces."""

    name: str
    when: Callable[[FactsT], object]
    """Whether the rule applies; a mapping that is not empty also gives words for the message."""
    refused: str
    """The setting, its value, and what is wrong."""
    cure: str

    def message(self, facts: FactsT) -> str | None:
        """One line for the user; None: the rule does not apply."""
        found = self.when(facts)
        words = _Words(facts, found if isinstance(found, Mapping) else {})
        return f"{self.refused}; {self.cure}".format_map(words) if found else None


def check_combinations(rules: Iterable[Rule[FactsT]], facts: FactsT) -> None:
    """Raise the :class:`ConfigError` of the first rule that applies."""
    for rule in rules:
        if (message := rule.message(facts)) is not None:
            raise ConfigError(message)


@dataclass(frozen=True)
class _Words:
    """Values for the names in braces."""

    facts: object
    found: Mapping[str, object]

    def __getitem__(self, name: str) -> object:
        return self.found[name] if name in self.found else getattr(self.facts, name)
