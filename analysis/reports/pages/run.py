"""The page of one run: its numbers, its figures, how to repeat it, and its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.figures.names import shown_name
from analysis.measures.targets import step_text
from analysis.measures.warning_lines import stored_warnings
from analysis.records.load import Run
from analysis.records.provenance import SEPARATOR, caption
from analysis.reports.console import number_text
from analysis.reports.pages.document import (
    Link,
    command_html,
    document,
    figures_html,
    notes_html,
    numbers_html,
    sections_html,
)
from analysis.reports.pages.links import back_to_sweep, record_html
from analysis.reports.pages.table import Head, table_html

FIGURES = {
    "timeline": "Timeline",
    "convergence": "Convergence",
    "bpt": "Batch processing time by worker",
    "staleness": "Staleness of the gradients",
    "elastic": "Nodes and cores",
    "modes": "Modes of synchronisation",
}
FILES = {
    "summary.json": "the numbers of this page and more",
    "timeline.json": "the trace, for Perfetto",
    "decisions.md": "what the strategy decided about nodes",
    "events.jsonl": "every event, and the commands that it caused",
    "iterations.parquet": "a row per iteration",
    "plan.json": "the planned disturbances",
    "meta.json": "what ran, where, with which versions",
    "tables/": "columnar tables",
    "figures/": "the figures, each with its numbers as CSV",
    "logs/": "what the processes printed",
}
PERFETTO = "https://ui.perfetto.dev"
MOST_WORKERS = 200
"""More workers have no row each; the slowest have."""


def run_page(run: Run, summary: dict[str, Any]) -> str:
    """The whole page, for the run's directory, in which the figures are drawn. ``summary``: of ``summary.json``."""
    job = run.job
    strategy, straggler = shown_name(job["strategy"]), job.get("straggler")
    parts = {
        "figures": ("Figures", _figures(run)),
        "workers": ("Workers", _workers(summary)),
        "record": ("Record", _record(run.path)),
    }
    there = {name: part for name, part in parts.items() if part[1]}
    nav = sections_html([Link(f"#{name}", title) for name, (title, _) in there.items()])
    body = "".join(f'<section id="{name}"><h2>{title}</h2>{text}</section>' for name, (title, text) in there.items())
    disturbed = "no" if straggler in (None, "none") else straggler
    title = f"{strategy}, {disturbed} stragglers, seed\N{NO-BREAK SPACE}{run.meta['seed']}"
    return document(
        title,
        caption([run.meta]),
        notes_html(_warnings(run, summary)) + body,
        back=back_to_sweep(run.path),
        lead=numbers_html(_numbers(summary)) + nav,
    )


def _numbers(summary: dict[str, Any]) -> dict[str, tuple[str, str]]:
    metric = str(summary["metric"])
    found = {"completion time" if summary["completed"] else "lasted": (_text(summary["jct_s"], 1), "s")}
    if summary["target"] is not None:
        step = "s" if summary["tta_missed"] else f"s, or up to {step_text(summary['tta_step_s'])} s sooner"
        tta = ("missed", "") if summary["tta_missed"] else (_text(summary["tta_s"], 1), step)
        found[f"time to {metric} {summary['target']:g}"] = tta
    if summary["final_metric"] is not None:
        found[f"final {metric}"] = (_text(summary["final_metric"], 4), "")
    found["updates"] = (f"{summary['updates']:,}".replace(",", "\N{NARROW NO-BREAK SPACE}"), "")
    for name, key in (("waiting", "wait_frac"), ("with a straggler", "iterations_with_straggler_frac")):
        if summary[key] is not None:
            found[name] = (_text(100 * summary[key], 1), "%")
    found["mean staleness"] = (_text(summary["staleness_mean"], 2), "updates")
    if copies := summary.get("memory_copy_s"):
        usual, long = (_text(1e3 * copies[name], 3) for name in ("median", "p90"))
        found["copying 4 MiB of memory"] = (usual, f"ms, 90 %: {long} ms")
    return found


def _text(value: float | None, digits: int) -> str:
    return number_text(float("nan") if value is None else value, digits)


def _warnings(run: Run, summary: dict[str, Any]) -> list[str]:
    found = [f"{summary['status']}: {summary['reason'] or 'no reason is known'}"] if run.status != "done" else []
    if run.status == "done" and not summary["completed"]:
        found.append("its time was up before it was done")
    return [*found, *(one.text for one in stored_warnings(summary))]


def _figures(run: Run) -> str:
    there = [(run.path / "figures" / f"{name}.png", title) for name, title in FIGURES.items()]
    about = f"{run.job['strategy']}{SEPARATOR}{caption([run.meta])}"
    return figures_html(((path, title) for path, title in there if path.exists()), about)


def _workers(summary: dict[str, Any]) -> str:
    busy, batch = summary["use_by_worker_frac"], summary["bpt_by_worker_s"]
    slowest = sorted(batch, key=lambda worker: -(batch[worker]["median"] or 0.0))[:MOST_WORKERS]
    heads = [
        Head("worker"),
        Head("median batch (ms)"),
        Head("90 % (ms)", "middle"),
        Head("99 % (ms)"),
        Head("busy (%)"),
    ]
    rows = []
    for worker in sorted(slowest, key=int):
        times = [
            _text(None if batch[worker][name] is None else 1e3 * batch[worker][name], 1)
            for name in ("median", "p90", "p99")
        ]
        rows.append([worker, *times, _text(100 * busy[worker] if busy.get(worker) is not None else None, 1)])
    left = f'<p class="note">The {len(slowest)} slowest of {len(batch)}.</p>' if len(slowest) < len(batch) else ""
    return table_html(heads, rows) + left if rows else ""


def _record(path: Path) -> str:
    more = ""
    if (path / "timeline.json").exists():
        perfetto = f'<a href="{PERFETTO}" rel="noreferrer">ui.perfetto.dev</a>'
        more = (
            f"<p>To see the trace in Perfetto: open {perfetto}, choose \N{LEFT DOUBLE QUOTATION MARK}Open trace file"
            f"\N{RIGHT DOUBLE QUOTATION MARK}, and this file (it stays in the browser):</p>"
            + command_html(str((path / "timeline.json").resolve()))
            + '<p class="note">Arrows lead from each gradient that is sent to the update that uses it, and from there '
            "to the workers that pull its parameters: click on a slice.</p>"
        )
    return record_html(path, FILES, more)
