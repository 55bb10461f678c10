"""What the kernel of shared machines did when a second implementation, in Python, did the same to the last bit.

Digests of random scenarios (``tests/snapshots/kernel.json``), as they were on 2026-11-28 in both.
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
    """By kind: digests by number."""
    found: dict[str, Any] = json.loads(STORED.read_text())
    return found


LATER = re.compile(rb',"loader_s":0\.0|, loader_s=0\.0')
"""A field that records have got since the digests were stored; here it is 0."""


def digest(found: object) -> str:
    """The digest of bytes, or of anything with a literal form."""
    data = LATER.sub(b"", found if isinstance(found, bytes) else repr(found).encode())
    return hashlib.sha256(data).hexdigest()[:12]
