"""The child's end of launch.py: ``python -m bench.driver MODULE FUNCTION JSON-ARGUMENTS`` (run inside tests/).

By hand, to look at one peer alone::

    cd tests && python -m bench.driver peers.gloo_sendrecv push_pull '{"nbytes": 1000000, "iterations": 100}'
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback

from .launch import THREADS, Unavailable, die_with_parent

os.environ.update(THREADS)  # before anything can import numpy


def main(module: str, function: str, arguments: str) -> dict[str, object]:
    """Call it and say what came of it."""
    try:
        measure = getattr(importlib.import_module(f"bench.{module}"), function)
        return {"result": measure(**json.loads(arguments))}
    except Unavailable as reason:
        return {"unavailable": str(reason)}
    except NotImplementedError as reason:
        return {"error": f"not implemented: {reason}"}
    except Exception as error:  # noqa: BLE001  (whatever it is, the launcher must learn of it)
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    die_with_parent()
    answer = main(*sys.argv[1:])
    sys.stdout.flush()
    print(json.dumps(answer), flush=True)
    os._exit(0)  # a peer's background threads must not keep us
