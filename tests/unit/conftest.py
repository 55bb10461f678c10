"""Fixtures of several unit tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runtime.virtual.machines import quotas


@pytest.fixture(scope="module")
def even_quotas() -> Iterator[None]:
    """Virtual quotas hold at every moment: simpler numbers. What a period changes is in ``test_virtual_quotas.py``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quotas, "depth_s", lambda cores, period_s: 0.0)
        yield
