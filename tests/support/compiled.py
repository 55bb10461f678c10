"""The compiled model of shared machines, where it was built, for tests of both twins."""

from __future__ import annotations

from typing import Any

import pytest

from runtime import native

HOSTS: Any = native.native(native.HOSTS)
needs_compiled = pytest.mark.skipif(HOSTS is None, reason="the host model is not compiled; python setup.py build_ext")
