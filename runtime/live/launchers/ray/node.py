"""The actor: it starts an agent on its node, and waits for its end.

Ray sends this class as it is here, so that a node needs no Stragglab where Ray's workers look for modules; therefore it
imports nothing of ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import final


@final
class Node:
    """Synchronous: its method runs on the main thread of its process, to which the kernel ties the agent's life."""

    def run(self, directory: str, words: tuple[str, ...], token: str) -> tuple[int, str]:
        """Run an agent (``words``: its module and arguments); returns its exit code, and the last line that it said.

        The token comes as an argument of this method, of which Ray keeps no copy in its tables, and goes to the agent's
        standard input: never to an argument or the environment of a process, which other users can read.
        """
        if not os.path.isfile(os.path.join(directory, "runtime", "live", "agent", "__main__.py")):
            return 2, f"launcher.directory={directory}: no Stragglab is there; copy it, or name where it is"
        others = os.environ.get("PYTHONPATH")
        path = f"{directory}{os.pathsep}{others}" if others else directory
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", words[0], "--dies-with", str(os.getpid()), *words[1:]],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        _, said = process.communicate(token.encode() + b"\n")
        lines = said.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        return process.returncode, lines[-1]
