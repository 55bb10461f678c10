"""The timeline of a run's page as HTML: the frame that the script fills, its numbers, and what is there without one."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import msgspec

from analysis.reports.pages.document import image_html

HOW = (
    "Drag or swipe to pan; pinch, double-click or Ctrl + wheel to zoom. Keys: + and - zoom, left and right pan, up and "
    "down choose a lane, comma and full stop walk through its iterations, 0 shows all. Diamonds: commands of the "
    "strategy to nodes, and nodes lost or back. A dark edge: a gradient that was dropped or rolled back."
)
BUTTONS = (("+", "+", "Zoom in"), ("-", "\N{MINUS SIGN}", "Zoom out"), ("0", "whole run", "Show the whole run"))


def timeline_html(lanes: dict[str, Any], picture: Path) -> str:
    """The section's content, of what :func:`analysis.reports.pages.lanes.lanes_of` returns; ``picture``: a PNG."""
    named = dict(zip(lanes["phases"], lanes["colours"], strict=True))
    named |= {"server busy": lanes["busy"], "planned disturbance": lanes["planned"]}
    keys = "".join(f'<li><i style="background:{colour}"></i>{escape(name)}</li>' for name, colour in named.items())
    buttons = "".join(
        f'<button type="button" data-key="{key}" aria-label="{name}">{text}</button>' for key, text, name in BUTTONS
    )
    notes = "".join(f" {escape(note[:1].upper() + note[1:])}." for note in lanes["notes"])
    still = f"<noscript><figure>{image_html(picture, 'timeline')}</figure></noscript>" if picture.exists() else ""
    return (
        f'<div class="timeline" hidden><div class="tools">{buttons}'
        '<output aria-live="polite"></output></div>'
        f'<ul class="keys">{keys}</ul><canvas class="axis" aria-hidden="true"></canvas>'
        '<div class="lanes"><canvas tabindex="0" role="img" aria-label="Timeline of workers and servers. '
        'Arrow keys pan and choose a lane, plus and minus zoom."></canvas></div><div class="tip" hidden></div></div>'
        f'{still}<p class="note">{escape(HOW)}{notes}</p>'
        f'<script type="application/json" class="timeline-data">{_json(lanes)}</script>'
    )


def _json(lanes: dict[str, Any]) -> str:
    """As it may stand within HTML: no text of a record can end the element."""
    return msgspec.json.encode(lanes).decode().replace("<", "\\u003c")
