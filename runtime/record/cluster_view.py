"""The live view of a cluster: who waits, runs and is over; a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from typing import Protocol, final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from runtime.record.cluster import JobRow, JobTable

MAX_ROWS = 20
"""Running jobs that the table shows before it says how many more there are."""
LINE_EVERY = 8
"""A line for every so many looks, of which there are a few per second."""


class ClusterView(Protocol):
    """Shows the state of a cluster while it runs."""

    def tick(self, t: float) -> None:
        """Called a few times per second with the cluster's time."""
        ...

    def close(self, t: float) -> None:
        """Show the final state, after which nothing is shown."""
        ...


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
class NoClusterView:
    """A view for runs that nobody watches."""

    def tick(self, t: float) -> None: ...

    def close(self, t: float) -> None: ...


@final
class PlainClusterView:
    """Prints a line now and then, for logs and pipes."""

    def __init__(self, table: JobTable, title: str, num_gpus: int, console: Console) -> None:
        self._table, self._num_gpus, self._console = table, num_gpus, console
        self._looks = 0
        console.print(title, highlight=False, markup=False, soft_wrap=True)

    def tick(self, t: float) -> None:
        self._looks += 1
        if self._looks % LINE_EVERY == 0:
            self.close(t)

    def close(self, t: float) -> None:
        self._console.print(headline(self._table, t, self._num_gpus), highlight=False, markup=False, soft_wrap=True)


@final
class LiveClusterView:
    """A table of the running jobs that is redrawn in place."""

    def __init__(self, table: JobTable, title: str, num_gpus: int, console: Console) -> None:
        self._table, self._title, self._num_gpus = table, title, num_gpus
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._live.start()

    def tick(self, t: float) -> None:
        self._live.update(self._draw(t), refresh=True)

    def close(self, t: float) -> None:
        self.tick(t)
        self._live.stop()

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


def make_cluster_view(
    choice: str, table: JobTable, title: str, num_gpus: int, console: Console | None = None
) -> ClusterView:
    """``auto`` is ``live`` on a terminal and ``plain`` elsewhere."""
    console = console or Console(stderr=True)
    if choice == "none":
        return NoClusterView()
    live = choice == "live" or (choice == "auto" and console.is_terminal)
    return (LiveClusterView if live else PlainClusterView)(table, title, num_gpus, console)
