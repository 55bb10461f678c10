"""Execution traces of Chakra, one per rank: who sends to whom, and how long computing and communication took."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from analysis.files import natural
from analysis.logs.gathering import gather
from analysis.logs.limits import MOST_BYTES, MOST_FILES, MOST_OBJECTS
from analysis.logs.opening import open_bytes
from analysis.logs.several import Counted, read_each
from analysis.logs.step_log import LogError, StepLog, Untimed
from reading import Unreadable
from reading.chakra import COLLECTIVE, COMPUTING, RECEIVING, SENDING, Node, nodes
from reading.unpacked import plain_name

RANK = re.compile(r"(\d{1,9})\.et$")
MICRO = 1e-6
NEVER = "a graph of work without the times of its communication: it cannot tell which rank is late"
ALL_RANKS = "name the folder with the traces of all ranks, linked with their Kineto traces (chakra_trace_link)"
MOST_SHOWN = 32
"""So many ranks of a ring are listed."""


@dataclass
class Graph:
    """One rank's nodes, summed up; times in microseconds."""

    nodes: int = 0
    computing: int = 0
    communicating: int = 0
    to: set[int] = field(default_factory=set)
    source: set[int] = field(default_factory=set)


def is_chakra(path: Path) -> bool:
    """Whether the file is named as an execution trace."""
    return plain_name(path).endswith(".et")


def chakra_in(folder: Path) -> list[Path]:
    """The execution traces of a folder, in natural order.

    Raises:
        LogError: there are too many.
    """
    found = [path for path in folder.iterdir() if is_chakra(path)]
    if len(found) > MOST_FILES:
        raise LogError(f"{folder}: has {len(found):,} execution traces; name a folder of {MOST_FILES:,} at most")
    return sorted(found, key=lambda path: natural(path.name))


def read_chakra(paths: Sequence[Path], counted: Counted = list) -> StepLog:
    """Computing and communication of every rank, as one step.

    Raises:
        Untimed: there is one rank only, or communication has no times; the message has the order of ranks in a ring.
        LogError: a file is no execution trace, or damaged, or its name has no rank or another one's.
    """
    graphs = dict[int, Graph]()
    found, broken = read_each(paths, lambda path: (path, _rank(path), _graph(path)), counted)
    for path, rank, graph in found:
        if rank in graphs:
            raise LogError(f"{path}: is of rank {rank}, as another one is; name the traces of one job")
        graphs[rank] = graph
    source = str(paths[0]) if len(paths) == 1 else f"{len(graphs)} execution traces in {paths[0].parent}"
    ring = ring_line(graphs)
    if len(graphs) == 1:
        only = next(iter(graphs.values()))
        raise Untimed(
            f"{source}: {ring}has {only.nodes:,} nodes of one rank, with {only.computing * MICRO:.4g} s of computing "
            f"and {only.communicating * MICRO:.4g} s of communication; one rank cannot tell which is late: {ALL_RANKS}"
        )
    if not all(graph.communicating for graph in graphs.values()):
        raise Untimed(f"{source}: {ring}{NEVER}; {ALL_RANKS}")
    rows = [
        {"rank": str(rank), "step": 0, "own_s": graph.computing * MICRO, "comm_s": graph.communicating * MICRO}
        for rank, graph in graphs.items()
    ]
    frame = pd.DataFrame(rows)
    frame["round_s"] = frame["own_s"] + frame["comm_s"]
    remarks = [*broken, f"{ring}all of each trace counts as one step"]
    return gather(source, frame, remarks=remarks, job={"one_span": True})


def ring_line(graphs: dict[int, Graph]) -> str:
    """The order in which ranks send to each other, if each sends to one and receives from one; else an empty text."""
    then = {rank: next(iter(graph.to)) for rank, graph in graphs.items() if len(graph.to) == 1}
    then |= {next(iter(graph.source)): rank for rank, graph in graphs.items() if len(graph.source) == 1}
    if any(len(graph.to) != 1 or len(graph.source) != 1 for graph in graphs.values()) or not then:
        return ""
    start = next((rank for rank in sorted(then) if rank not in then.values()), min(then))
    order = [start]
    while (following := then.get(order[-1])) is not None and following != start and len(order) <= len(then):
        order.append(following)
    closed = then.get(order[-1]) == start
    missing = sorted(rank for rank in order if rank not in graphs)
    shown = " -> ".join(map(str, order[:MOST_SHOWN])) + (" -> ..." if len(order) > MOST_SHOWN else "")
    lacks = f" (the files of ranks {', '.join(map(str, missing))} are missing)" if missing else ""
    return f"ring of ranks {shown}{f' -> {start}' if closed else ''}{lacks}; "


def _rank(path: Path) -> int:
    if not (found := RANK.search(plain_name(path))):
        raise LogError(f"{path}: its name has no rank; call it trace.0.et, trace.1.et ...")
    return int(found[1])


def _graph(path: Path) -> Graph:
    graph = Graph()
    try:
        with open_bytes(path) as file:
            data = file.read(MOST_BYTES)
        for at, node in enumerate(nodes(data)):
            if at >= MOST_OBJECTS:
                raise LogError(
                    f"{path}: has more than {MOST_OBJECTS:,} nodes, the most that are read; trace fewer steps"
                )
            _add(graph, node)
    except Unreadable as error:
        raise LogError(f"{path}: is no execution trace of Chakra, or {error}") from None
    if not graph.nodes:
        raise LogError(f"{path}: is no execution trace of Chakra (it has no nodes)")
    return graph


def _add(graph: Graph, node: Node) -> None:
    """Count a node; operators of a host contain the kernels that they start, so only the kernels' times count."""
    kind, micros, words = node.kind, node.micros, node.words
    if kind == 0:
        return
    graph.nodes += 1
    on_device = not words.get(b"is_cpu_op", 0)
    graph.computing += micros * (kind == COMPUTING and on_device)
    graph.communicating += micros * (kind in (SENDING, RECEIVING, COLLECTIVE) and on_device)
    if kind == SENDING and b"comm_dst" in words:
        graph.to.add(words[b"comm_dst"])
    if kind == RECEIVING and b"comm_src" in words:
        graph.source.add(words[b"comm_src"])
