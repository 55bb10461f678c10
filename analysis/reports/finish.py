"""The end of a run: its tables and figures, and its summary on the terminal, whatever kind of record it left."""

from __future__ import annotations

from pathlib import Path

from analysis.records.load import CLUSTER_EVENTS


def preload(run_dir: Path) -> None:
    """Import the modules that :func:`finish` needs for this record: most of its time for a short run."""
    if is_set(run_dir):
        import analysis.reports.cluster
        import analysis.reports.cluster_console
    else:
        import analysis.figures.single
        import analysis.reports.pages.run
        import analysis.reports.report  # noqa: F401


def is_set(run_dir: Path) -> bool:
    """Whether it is the record of a set of jobs."""
    return (run_dir / CLUSTER_EVENTS).exists()


def finish(run_dir: Path, *, explain: bool = True) -> list[str]:
    """Write what follows from the record and print its summary; returns warnings to readers of the results.

    ``explain``: what the heads of its table mean, which a sweep says once, at its end.

    Raises:
        RecordError: the record cannot be read.
    """
    return _finish_cluster(run_dir) if is_set(run_dir) else _finish_job(run_dir, explain)


def _finish_job(run_dir: Path, explain: bool) -> list[str]:
    from analysis.measures.warning_lines import stored_warnings
    from analysis.reports.report import finish_run, print_summary, summary_frame

    summary = finish_run(run_dir)
    print_summary(summary_frame(summary), explain=explain)
    return [f"{summary['strategy']}: {one.text}" for one in stored_warnings(summary)]


def objective(run_dir: Path, metric: str) -> float:
    """Return the value for a sweeper of Hydra's (:mod:`analysis.measures.objectives`); NaN if there is none."""
    from analysis.measures.objectives import value_of
    from analysis.records.load import load_run

    return value_of(load_run(run_dir), metric)


def _finish_cluster(run_dir: Path) -> list[str]:
    from analysis.measures.warning_lines import stored_warnings
    from analysis.records.load import load_object
    from analysis.reports.cluster import cluster_frame, finish_cluster
    from analysis.reports.cluster_console import print_clusters

    summary = finish_cluster(run_dir)
    print_clusters(cluster_frame(load_object(run_dir / "meta.json"), summary))
    broken = [f"integrity: {problem}" for problem in summary["integrity"]["problems"]]
    return [*(one.text for one in stored_warnings(summary)), *broken]
