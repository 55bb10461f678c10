"""The command line of the agent that joins."""

from __future__ import annotations

import argparse
import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from runtime.errors import ConfigError, refuse
from runtime.house import module_name

ENDPOINT = re.compile(r"(?P<host>[^:]+):(?P<port>[0-9]{1,5})")
DESCRIPTION = "Joins a run of `python run.py launcher=join` on another machine, and starts its tasks on this one."


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The command line's request."""

    host: str = ""
    port: int = 0
    token_file: str = ""
    new_token: Path | None = None
    address: str = ""
    wait_s: float = 60.0
    folder: Path | None = None
    again: bool = False
    tls: bool = False
    dies_with: int = 0
    """Process id of the parent with which it ends; 0: with none."""
    start: int = 0
    """The number under which the driver's launcher started this agent; 0: somebody else has started it."""


def parse(argv: Sequence[str]) -> Asked:
    """The arguments; raises :class:`ConfigError` in one line. ``--help`` exits."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module_name('runtime.live.agent')}", description=DESCRIPTION, allow_abbrev=False
    )
    parser.error = refuse  # type: ignore[method-assign]
    add = parser.add_argument
    add("--join", metavar="HOST:PORT", help="where the driver waits (launcher.listen and launcher.port)")
    add("--token-file", metavar="FILE", default="", help="file with the driver's token; - reads it from standard input")
    add("--new-token", metavar="FILE", type=Path, help="write a new token to a new file, and exit")
    add(
        "--address",
        default="",
        help="IPv4 address of this machine for other machines (default: that of the connection)",
    )
    add("--wait-s", type=float, default=60.0, metavar="S", help="seconds to try to reach the driver (default: 60)")
    add(
        "--dir",
        metavar="DIR",
        type=Path,
        help="where logs and checkpoints are kept while the job runs (default: memory)",
    )
    add(
        "--again",
        action="store_true",
        help="after a job, or when the driver was lost, join again: for sweeps and rejoin_s",
    )
    add("--tls", action="store_true", help="encrypt all connections; the run has launcher.tls=true")
    add(
        "--dies-with", type=int, default=0, metavar="PID", help="end with the process that has started it, which is PID"
    )
    add("--start", type=int, default=0, metavar="N", help="number that launcher=ray gives it, to know it again")
    given = parser.parse_args(argv)
    if given.new_token is not None:
        return Asked(new_token=given.new_token)
    if given.join is None or not given.token_file:
        raise ConfigError("--join HOST:PORT and --token-file FILE are needed (or --new-token FILE); see --help")
    host, port = _endpoint(given.join)
    if not given.wait_s >= 0:
        raise ConfigError(f"--wait-s {given.wait_s:g}: must be 0 or more")
    if given.dies_with < 0:
        raise ConfigError(f"--dies-with {given.dies_with}: is the number of a process, which is 1 or more")
    if given.start < 0:
        raise ConfigError(f"--start {given.start}: must be 0 or more")
    if given.address:
        _check_address(given.address)
    if given.dir is not None and not given.dir.is_dir():
        raise ConfigError(f"--dir {given.dir}: is no directory")
    return Asked(
        host=host,
        port=port,
        token_file=given.token_file,
        address=given.address,
        wait_s=given.wait_s,
        folder=given.dir,
        again=given.again,
        tls=given.tls,
        dies_with=given.dies_with,
        start=given.start,
    )


def _endpoint(text: str) -> tuple[str, int]:
    if not (known := ENDPOINT.fullmatch(text)) or not 0 < int(known["port"]) < 65536:
        raise ConfigError(f"--join {text}: is not HOST:PORT, like 10.0.0.1:7077")
    return known["host"], int(known["port"])


def _check_address(text: str) -> None:
    try:
        unspecified = ipaddress.IPv4Address(text).is_unspecified
    except ValueError:
        raise ConfigError(f"--address {text}: is no IPv4 address") from None
    if unspecified:
        raise ConfigError(f"--address {text}: would listen to everybody; name one interface's address")
