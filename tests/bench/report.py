"""Collects what the benchmarks found: tables for people, ``out/bench.json`` for everything else."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from .goals import FAIL, Verdict
from .probe import Probe
from .rounds import Comparison


class Report:
    """The report of one test session."""

    def __init__(self, probe: Probe, path: Path) -> None:
        self.probe, self.path = probe, path
        self.sections: list[dict[str, Any]] = []
        self.tables: list[str] = []
        self.load_before = os.getloadavg()[0]

    def judge(
        self, title: str, verdicts: Sequence[Verdict], comparison: Comparison | None = None, extra: str = ""
    ) -> None:
        """Keep, store, and fail the test that asks when a goal is missed."""
        __tracebackhide__ = True
        parts = [f"== {title} =="]
        if comparison:
            parts += [medians(comparison), *reasons(comparison)]
        parts += [extra, goals_table(verdicts)]
        text = "\n".join(part for part in parts if part)
        self.tables.append(text)
        goals = [vars(verdict) for verdict in verdicts]
        self.sections.append({"title": title, "goals": goals, **(comparison.as_json() if comparison else {})})
        self.write()
        missed = [verdict.goal for verdict in verdicts if verdict.status == FAIL]
        assert not missed, f"missed: {'; '.join(missed)}\n{text}"

    def write(self) -> None:
        """After every comparison, so that an interrupted session keeps what it has."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({"machine": self.machine(), "comparisons": self.sections}, indent=1) + "\n")

    def machine(self) -> dict[str, Any]:
        """What the figures depend on."""
        return {
            "cpu": _cpu_model(),
            "cpus": len(os.sched_getaffinity(0)),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "load_before": self.load_before,
            "probe": self.probe.kind,
            "probe_best_ns": self.probe.best_ns,
            "probe_limit_ns": self.probe.limit_ns,
            "probe_warning": self.probe.warning,
        }

    def text(self) -> str:
        head = f"{_cpu_model()}, {len(os.sched_getaffinity(0))} CPUs; {self.probe.kind} hop "
        head += (
            f"{self.probe.best_ns:.0f} ns at best; no round counts above {self.probe.limit_ns:.0f} ns or with company"
        )
        notes = [self.probe.warning] if self.probe.warning else []
        if self.load_before > 0.25:
            notes.append(f"load was {self.load_before:.2f} at the start: keep the machine idle while it measures")
        return "\n\n".join([head, *(f"WARNING: {note}" for note in notes), *self.tables, f"written to {self.path}"])


def medians(comparison: Comparison) -> str:
    """Peers side by side, fastest first, with ratios to the fastest."""
    shown = comparison.accepted or comparison.rounds
    figures = {name: [one.seconds[name] * 1e3 for one in shown] for name in comparison.measured}
    order = sorted(figures, key=lambda name: median(figures[name]))
    rows = [
        [name, f"{middle:.3f}", f"{min(values):.3f}-{max(values):.3f}", f"{middle / median(figures[order[0]]):.2f}"]
        for name in order
        if (middle := median(values := figures[name]))
    ]
    footer = f"{len(comparison.accepted)} rounds accepted, {comparison.flagged} flagged"
    footer += "" if comparison.accepted else ": the figures above are of flagged rounds, for orientation only"
    return table(["peer", "median ms", "range ms", "x fastest"], rows) + "\n" + footer


def reasons(comparison: Comparison) -> list[str]:
    """Of those that have no figures; out/bench.json has the whole messages."""
    return [f"not here: {name}: {missing.summary}" for name, missing in comparison.missing.items()]


def goals_table(verdicts: Sequence[Verdict]) -> str:
    """One line per goal."""
    return table(["goal", "wanted", "found", ""], [[v.goal, v.wanted, v.found, v.status] for v in verdicts])


def table(head: list[str], rows: list[list[str]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
