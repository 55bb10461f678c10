"""Runtimes execute jobs: the pure coordinator (ledger, membership, data service) and the parts that obey its orders."""

import os
import sys

if os.name != "posix":  # the imports below would fail
    print("Stragglab needs Linux (or macOS, for runtime=virtual only); on Windows, use WSL", file=sys.stderr)
    raise SystemExit(2)
