"""A plugin: of the contract suite, what is asked of a user's strategies, without the tests of the worlds."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests whose case, or name, is one of the strategies that were found."""
    from tests.contract.catalogue import NAMES

    kept = [item for item in items if _strategy(item) in NAMES]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def _strategy(item: pytest.Item) -> str:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    case = params.get("case")
    return str(params.get("name", "")) if case is None else str(case.name)
