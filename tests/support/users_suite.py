"""A plugin: of the contract suite, what is asked of a user's strategies, without the tests of the worlds."""

from __future__ import annotations

import pytest

from runtime.record.progress import Progress


class _Shown:
    """How many cases are done, and about how long the rest takes, in the place of a dot for each."""

    def __init__(self, cases: int, config: pytest.Config) -> None:
        self._progress = Progress(cases, "cases of the contract suite", config.get_terminal_writer()._file)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        return ("passed", "", "") if report.when == "call" and report.passed else None

    def pytest_runtest_logfinish(self) -> None:
        self._progress.one_more()

    def pytest_sessionfinish(self) -> None:
        self._progress.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests whose case, or name, is one of the strategies that were found."""
    from tests.contract.catalogue import NAMES

    kept = [item for item in items if _strategy(item) in NAMES]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count what is left when others have left something out, too."""
    session.config.pluginmanager.register(_Shown(len(session.items), session.config))


def _strategy(item: pytest.Item) -> str:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    case = params.get("case")
    return str(params.get("name", "")) if case is None else str(case.name)
