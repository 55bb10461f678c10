"""Read how our strategies and the user's own describe themselves (``about.toml``)."""

from __future__ import annotations

import os
from pathlib import Path

from reading.about import About, read_about

OURS = Path(__file__).resolve().parents[1] / "strategies"
PROJECT = os.environ.get("STRAGGLAB_PROJECT", "")
"""The folder of the project; empty: there is none."""
ABOUT: dict[str, About] = read_about(OURS) | (read_about(Path(PROJECT)) if PROJECT else {})
"""Descriptions of strategies by the name of the configuration."""
COMPARED = tuple(name for name, one in ABOUT.items() if not (one.resizes or one.on_replicas))
"""Strategies for parameter servers that launch no nodes: the gain of one that does depends on its limits."""
