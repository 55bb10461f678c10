"""Causes that are on an earlier line than their effects: timers, orders to nodes, orders that waited."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from analysis.records.nodes import Node, parse_node
from analysis.reports.story.lines import Fields, RawLine
from analysis.reports.story.words import command_in_words, event_in_words

TO_NODES = ("Restart", "Launch", "Retire")


@dataclass
class Causes:
    """The orders and settings of earlier lines."""

    timers: dict[str, list[tuple[float, float, str]]] = field(default_factory=dict)
    """For each tag a heap of (when it is due, when it was set, the event at which), in seconds of the job."""
    orders: dict[str, str] = field(default_factory=dict)
    """For each node the last order to it that has had no effect yet, in words."""
    restarts: dict[str, float] = field(default_factory=dict)
    """Servers that are to restart as soon as all have stored their parts, and when that was ordered."""
    waiting: dict[str, str] = field(default_factory=dict)
    """For each node a waiting order of an operator or the cluster, in words; a join waits under the name ``join``."""

    def note_orders(self, line: RawLine) -> None:
        """Remember what the commands of a line cause later."""
        for command in line.commands:
            kind, node = command.get("type"), str(command.get("node", ""))
            if kind == "Wake":
                at_s = command.get("at_s")
                due_s = float(at_s) if isinstance(at_s, int | float) else inf
                text = event_in_words(line.event or {})
                heappush(self.timers.setdefault(str(command.get("tag")), []), (due_s, line.t, text))
            elif kind in TO_NODES:
                self.orders[node] = f"{command_in_words(command)} at {line.t:.3f} s"
                if kind == "Restart" and parse_node(node).role == "server":
                    self.restarts[node] = line.t

    def of_timer(self, event: Fields) -> str:
        """When and why a timer that has fired was set; empty for one that sets itself again, or unknown."""
        timers = self.timers.get(str(event.get("tag")))
        if event.get("type") != "Woke" or not timers:
            return ""
        _, set_s, text = heappop(timers)
        return (
            "" if text in (event_in_words(event), event_in_words({"type": "Started"})) else f"{text} at {set_s:.3f} s"
        )

    def of_event(self, event: Fields) -> str:
        """The order of which a loss, a join or a denial is the effect."""
        role = "server" if "server" in event else "worker"
        node = str(event.get("node") or Node(role, (int(event.get(role, 0)),)))
        match event.get("type"):
            case "Lost" | "ServerLost":
                self.restarts.pop(node, None)
                return self.orders.get(node, "") if event.get("cause") in ("restarted", "retired") else ""
            case "Joined" | "ServerJoined" | "Denied":
                return self.orders.pop(node, "")
        return ""

    def note_deferred(self, line: RawLine) -> None:
        """An order waits until all tasks continue."""
        note = line.note or {}
        order = str(note.get("order"))
        self.waiting[order if order == "join" else str(note.get("node"))] = f"{order} ordered at {line.t:.3f} s"

    def of_note(self, note: Fields) -> str:
        """The order of which a request for a node, a restart or an eviction is the effect."""
        if note.get("type") not in ("Requested", "Evicting"):
            return ""
        waited = self.waiting.pop(str(note.get("node")), "") or self.waiting.pop("join", "")
        return f"{waited}, which waited while all tasks went back" if waited else ""

    def overtaken(self) -> list[tuple[str, float]]:
        """Servers whose restart has not begun although all tasks continue, and when it was ordered."""
        restarts, self.restarts = sorted(self.restarts.items()), {}
        for node, _ in restarts:
            self.orders.pop(node, None)
        return restarts
