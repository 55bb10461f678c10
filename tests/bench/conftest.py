"""Fixtures of the benchmarks: one probe and one report per session."""

from __future__ import annotations

import os

import pytest

from .probe import Probe
from .report import Report

_REPORT = pytest.StashKey[Report]()


@pytest.fixture(scope="session")
def probe() -> Probe:
    """Primed, so that the first round has something to be compared with."""
    probe = Probe()
    for _ in range(5):
        probe.read()
    return probe


@pytest.fixture(scope="session")
def report(probe: Probe, pytestconfig: pytest.Config) -> Report:
    """Printed at the session's end, written to out/bench.json all along."""
    report = Report(probe, pytestconfig.rootpath / "out" / "bench.json")
    pytestconfig.stash[_REPORT] = report
    return report


@pytest.fixture(scope="session")
def rounds() -> int:
    """Accepted rounds of every comparison; STRAGGLAB_BENCH_ROUNDS=1 is a smoke test."""
    return int(os.environ.get("STRAGGLAB_BENCH_ROUNDS", "5"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The tables, passed goals included."""
    report = config.stash.get(_REPORT, None)
    if report is not None:
        terminalreporter.section("bench")
        terminalreporter.write_line(report.text())
