"""The live view of a job: a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from injectors.plan import Disturbance, target_of, task_of
from runtime.record.picture import Picture, effect
from runtime.record.screen import NoView, Redrawn, View, is_redrawn, print_line
from strategies.protocol import NodeId

PLAIN_EVERY_S = 5.0
BAR_CHARS = 24
MAX_MACHINES = 16
"""Number of machines that the table names before it says how many more there are."""


class PlainView:
    """Prints a line every few seconds, for logs and pipes."""

    def __init__(self, picture: Picture, console: Console) -> None:
        self.picture, self.console = picture, console
        self._next_s = 0.0
        print_line(console, picture.title)

    def tick(self, t: float) -> None:
        """Print if the interval has passed."""
        if t >= self._next_s and self.picture.version:
            self._next_s = t + PLAIN_EVERY_S
            self._print(t)

    def close(self, t: float) -> None:
        """Print the last line."""
        self._print(t)

    def _print(self, t: float) -> None:
        print_line(self.console, f"{self.picture.headline(t)}  injected: {self.picture.injections(t)}")


class LiveView(Redrawn):
    """A table of the workers."""

    def __init__(self, picture: Picture, console: Console) -> None:
        self.picture = picture
        super().__init__(console)

    def _draw(self, t: float) -> Group:
        picture = self.picture
        parts: list[Any] = [Text(picture.title, style="bold"), Text(picture.headline(t)), self._table(t)]
        parts += [Text(line) for line in picture.machines()[:MAX_MACHINES]]
        if (more := len(picture.machines()) - MAX_MACHINES) > 0:
            parts.append(Text(f"{more} more machines"))
        if picture.last_note:
            parts.append(Text(picture.last_note, style="dim"))
        if not picture.version:
            parts.append(Text("starting processes ...", style="dim"))
        return Group(*parts)

    def _table(self, t: float) -> Table:
        table = Table(box=None, pad_edge=False)
        for name in ("worker", "iterations", "samples", "BPT (ms)", "wait (ms)", "busy", "injected now"):
            table.add_column(name, justify="left" if name in ("busy", "injected now") else "right")
        now = self.picture.injected(t)
        for worker, lane in self.picture.lanes.items():
            bpt_s, wait_s = (fmean(values) if values else 0.0 for values in (lane.bpt_s, lane.wait_s))
            busy = bpt_s / (bpt_s + wait_s) if bpt_s else 0.0
            bar = "█" * round(busy * BAR_CHARS)
            words = ", ".join(_words(d) for d in now if task_of(d.target) == str(NodeId.worker(worker)))
            restarts = f"  ({lane.restarts} restarts)" if lane.restarts else ""
            row = (str(worker), str(lane.iterations), str(lane.samples), f"{bpt_s * 1e3:.1f}", f"{wait_s * 1e3:.1f}")
            table.add_row(*row, Text(bar.ljust(BAR_CHARS, "·"), style="green"), Text(words + restarts, style="red"))
        for item in now:
            if target_of(item.target).form == "server":
                table.add_row(item.target, "", "", "", "", "", Text(effect(item), style="red"))
        return table


def _words(item: Disturbance) -> str:
    """The effect on a worker; of a part of it, with the part's name."""
    return f"{item.target} {effect(item)}" if target_of(item.target).is_inside else effect(item)


def make_view(choice: str, picture: Picture, console: Console | None = None) -> View:
    """The view that ``view=choice`` asks for."""
    console = console or Console(stderr=True)
    if choice == "none":
        return NoView()
    return LiveView(picture, console) if is_redrawn(choice, console) else PlainView(picture, console)
