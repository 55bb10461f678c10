"""How something is shown while it runs: redrawn in place on a terminal, line by line elsewhere, or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol, final

from rich.console import Console, RenderableType
from rich.live import Live


class View(Protocol):
    """Shows the state of a job, or of a cluster."""

    def tick(self, t: float) -> None:
        """Called a few times per second with its time, in seconds."""

    def close(self, t: float) -> None:
        """Show the final state, after which nothing is shown."""


@final
class NoView:
    """For runs that nobody watches."""

    def tick(self, t: float) -> None: ...

    def close(self, t: float) -> None: ...


class Redrawn(ABC):
    """Is redrawn in place, from the runtime's own loop (no thread of rich's), and stays on the terminal at the end."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._live.start()

    @abstractmethod
    def _draw(self, t: float) -> RenderableType:
        """Draw the view at that time."""

    def tick(self, t: float) -> None:
        self._live.update(self._draw(t), refresh=True)

    def close(self, t: float) -> None:
        self.tick(t)
        self._live.stop()


def print_line(console: Console, text: str) -> None:
    """Print it as it is: one line, however long, without colours for numbers and without markup."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def is_redrawn(choice: str, console: Console) -> bool:
    """Whether ``view=choice`` is redrawn in place there: ``auto`` is ``live`` on a terminal and ``plain`` elsewhere."""
    return choice == "live" or (choice == "auto" and console.is_terminal)
