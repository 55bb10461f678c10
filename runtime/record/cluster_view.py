"""The live view of a cluster: waiting, running and ended jobs; a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from typing import final

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from runtime.record.cluster import JobRow, JobTable
from runtime.record.screen import NoView, Redrawn, View, is_redrawn, print_line

MAX_ROWS = 20
"""Running jobs that the table shows before it says how many more there are."""
LINE_EVERY = 8
"""A line for every so many looks, of which there are a few per second."""


def headline(table: JobTable, t: float, num_gpus: int) -> str:
    """One line about all jobs."""
    counts, jobs = table.counts(), len(table.rows)
    running, waiting, later = (counts.get(status, 0) for status in ("running", "waiting", "unsubmitted"))
    held = sum(row.gpus for row in table.rows.values() if row.status == "running")
    return (
        f"{t:10.1f} s  waiting {waiting}  running {running}  ended {jobs - running - waiting - later}/{jobs}  "
        f"GPUs {held}/{num_gpus}"
    )


@final
class PlainClusterView:
    """Prints a line now and then, for logs and pipes."""

    def __init__(self, table: JobTable, title: str, num_gpus: int, console: Console) -> None:
        self._table, self._num_gpus, self._console = table, num_gpus, console
        self._looks = 0
        print_line(console, title)

    def tick(self, t: float) -> None:
        self._looks += 1
        if self._looks % LINE_EVERY == 0:
            self.close(t)

    def close(self, t: float) -> None:
        print_line(self._console, headline(self._table, t, self._num_gpus))


@final
class LiveClusterView(Redrawn):
    """A table of the running jobs."""

    def __init__(self, table: JobTable, title: str, num_gpus: int, console: Console) -> None:
        self._table, self._title, self._num_gpus = table, title, num_gpus
        super().__init__(console)

    def _draw(self, t: float) -> Group:
        running = [row for row in self._table.rows.values() if row.status == "running"]
        table = Table(box=None, pad_edge=False)
        for name in ("job", "model", "GPUs", "servers", "for s", "workers on", "servers on"):
            table.add_column(name, justify="right" if name in ("GPUs", "servers", "for s") else "left")
        for row in running[:MAX_ROWS]:
            table.add_row(*_cells(row, t))
        more = [Text(f"and {len(running) - MAX_ROWS} more", style="dim")] if len(running) > MAX_ROWS else []
        head = Text(headline(self._table, t, self._num_gpus))
        return Group(Text(self._title, style="bold"), head, table, *more)


def _cells(row: JobRow, t: float) -> tuple[str, ...]:
    since_s = t if row.start_s is None else row.start_s
    hosts = (" ".join(map(str, sorted(set(numbers)))) for numbers in (row.worker_hosts, row.server_hosts))
    return (row.job, row.model, str(row.gpus), str(row.servers), f"{t - since_s:.0f}", *hosts)


def make_cluster_view(choice: str, table: JobTable, title: str, num_gpus: int, console: Console | None = None) -> View:
    """The view that ``view=choice`` asks for."""
    console = console or Console(stderr=True)
    if choice == "none":
        return NoView()
    about = (table, title, num_gpus, console)
    return LiveClusterView(*about) if is_redrawn(choice, console) else PlainClusterView(*about)
