"""What surrounds a run: a janitor for what namespaces do not take away, then the namespaces."""

from __future__ import annotations

from runtime.containment import contain
from runtime.spec import Needs


def prepare(needs: Needs) -> None:
    """Go on inside what the run needs; the process that called stays outside, and never returns from here."""
    if needs.janitor:
        from runtime.live.janitor import hire

        hire()
    contain(needs.isolation)
