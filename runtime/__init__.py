"""Runtimes execute: the pure coordinator (ledger, membership, data service) and what carries its orders out."""

import os
import sys

if os.name != "posix":  # what is below could not even be imported
    print("Stragglab needs Linux (macOS will do for runtime=virtual); on Windows, use WSL", file=sys.stderr)
    raise SystemExit(2)
