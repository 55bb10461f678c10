"""Forks the ranks of one peer and collects what each returns.

A fork and not a spawn: the driver has imported torch once and has run no operation, so children start in milliseconds
and own their thread pools (a child hangs where its parent has threads of an operation that it ran: this one has none).
"""

from __future__ import annotations

import os
import socket
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from bench.launch import PeerError, die_with_parent

TIMEOUT_S = 100.0
"""Of every wait below; the launcher's own time-out lies behind it."""


def run(target: Callable[..., Any], world: int, *arguments: Any, timeout_s: float = TIMEOUT_S) -> list[Any]:
    """``target(rank, *arguments)`` in ``world`` processes; their results in rank order. Raises what a rank raised."""
    context = get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(world)]
    ranks = [
        context.Process(target=_rank, args=(pipes[rank][1], target, rank, arguments), daemon=True)
        for rank in range(world)
    ]
    try:
        for process, (_, child_end) in zip(ranks, pipes, strict=True):
            process.start()
            child_end.close()  # so that a rank that dies reads as the end of its pipe and not as silence
        return [_answer(rank, receiver, timeout_s) for rank, (receiver, _) in enumerate(pipes)]
    finally:
        for process in ranks:
            process.kill()
            process.join(10)


def _rank(answer: Connection, target: Callable[..., Any], rank: int, arguments: tuple[Any, ...]) -> None:
    die_with_parent()
    try:
        answer.send((target(rank, *arguments), None))
    except BaseException:  # noqa: BLE001  (the parent raises it)
        answer.send((None, traceback.format_exc()))
    os._exit(0)  # without the shut-down of thread pools whose peers may be gone already


def _answer(rank: int, receiver: Connection, timeout_s: float) -> Any:
    if not receiver.poll(timeout_s):
        raise PeerError(f"rank {rank}: nothing within {timeout_s} s")
    try:
        result, error = receiver.recv()
    except EOFError:
        raise PeerError(f"rank {rank} died") from None
    if error:
        raise PeerError(f"rank {rank}: {error}")
    return result


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def join_gloo(rank: int, world: int, store_path: str) -> None:
    """The default process group over gloo; ranks meet in a file, which needs no port."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.FileStore(store_path, world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=TIMEOUT_S))


def store_path() -> tempfile.TemporaryDirectory[str]:
    """A folder for the ranks' meeting file; a context manager that removes it."""
    return tempfile.TemporaryDirectory(prefix="stragglab-bench-")
