"""What the kernel of shared machines did when a second implementation, in Python, did the same to the last bit.

Digests of random scenarios and of whole records (``tests/snapshots/kernel.json``), as they were on 2026-11-28 in both;
notes have got other names since (``Starved``, ``Rollback``), ``Deferred`` is new, and what answers a server that has
joined leaves at once (three seeds of ``stormy``).
Random factors and sums of matrices are the same on processors with the same vector units.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from typing import Any

from tests.support.runs import ROOT

STORED = ROOT / "tests" / "snapshots" / "kernel.json"


@functools.cache
def stored() -> dict[str, Any]:
    """By kind: digests by number or by name."""
    found: dict[str, Any] = json.loads(STORED.read_text())
    return found


LATER = re.compile(rb',"loader_s":0\.0|, loader_s=0\.0')
"""A field that records have got since the digests were stored; here it is 0."""


def digest(found: object) -> str:
    """The digest of bytes, or of anything with a literal form."""
    data = LATER.sub(b"", found if isinstance(found, bytes) else repr(found).encode())
    return hashlib.sha256(data).hexdigest()[:12]
