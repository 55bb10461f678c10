"""A Ray cluster of several nodes on this machine, to try ``launcher=ray``: ``python -m scripts.cluster.ray_local 3``.

Every node is a raylet of its own, as on another machine. Ray listens at all interfaces. Clients authenticate with the
cluster's token; nothing is encrypted. Ctrl-C, or the end of standard input (``--until-eof``), ends all of them; after a
SIGKILL of this program Ray's own reapers do so.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from runtime.errors import ConfigError, print_error, refuse

STORE_BYTES = 80_000_000
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(argv: Sequence[str]) -> int:
    """Start the cluster, say how to use it, and wait; returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/cluster/ray_local.py", description=__doc__.splitlines()[0])
    parser.error = refuse  # type: ignore[method-assign]
    parser.add_argument("nodes", type=int, help="number of nodes")
    parser.add_argument("--cpus", type=int, default=2, help="CPUs that every node declares (default: 2)")
    parser.add_argument(
        "--gpus", type=int, default=0, help="GPUs that every node declares, whether they are there or not"
    )
    parser.add_argument("--until-eof", action="store_true", help="end with standard input")
    try:
        asked = parser.parse_args(argv)
        if asked.nodes < 1 or asked.cpus < 1 or asked.gpus < 0:
            raise ConfigError("nodes and --cpus must be 1 or more, --gpus 0 or more")
        if find_spec("ray") is None:
            raise ConfigError("Ray is not installed; pip install 'stragglab[ray]'")
    except ConfigError as error:
        return print_error("scripts/cluster/ray_local.py", error)
    end_by_signals()
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # its sockets need a short path
    try:
        with contextlib.suppress(SystemExit):  # of a signal
            serve(asked.nodes, asked.cpus, asked.gpus, folder, until_eof=asked.until_eof)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def end_by_signals() -> None:
    """Let a signal end this program in good order; Ray's own handler would wait for nodes that are to go, too."""
    for number in SIGNALS:
        signal.signal(number, _end)


def _end(*_: object) -> None:
    for number in SIGNALS:  # once is enough
        signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


def serve(nodes: int, cpus: int, gpus: int, folder: str, *, until_eof: bool) -> None:
    """Start ``nodes`` raylets whose files are in ``folder``, and wait."""
    token = Path(folder, "token")
    token.touch(0o600)
    token.write_text(secrets.token_hex(32))
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token))
    Path(folder, "ray").mkdir()
    os.environ["RAY_TMPDIR"] = folder  # else Ray notes this cluster in /tmp/ray, which need not exist or names another
    from ray.cluster_utils import Cluster

    each: dict[str, Any] = {"num_cpus": cpus, "num_gpus": gpus, "object_store_memory": STORE_BYTES}
    cluster: Any = Cluster(  # with and without Ray installed the same to a type checker
        initialize_head=True,
        head_node_args={**each, "include_dashboard": False, "temp_dir": folder, "gcs_server_port": 0},
    )
    try:
        for number in range(1, nodes):
            cluster.add_node(**each, labels={"number": str(number)})
        end_by_signals()
        print(f"{nodes} nodes at {cluster.address}; in another terminal:")
        print(f"python run.py launcher=ray launcher.address={cluster.address} launcher.nodes={nodes} \\")
        print(f"    launcher.auth_token_file={token} launcher.listen=127.0.0.1", flush=True)
        if until_eof:
            sys.stdin.read()
        else:
            signal.pause()
    finally:
        for node in cluster.list_all_nodes():
            with contextlib.suppress(Exception):
                node.kill_all_processes(check_alive=False, allow_graceful=False)


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(exit_code)  # at Python's own end Ray would look for its nodes for a minute
