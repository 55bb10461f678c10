"""No job gives anything up for another (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from strategies.protocol import Asked, Grant


@final
@dataclass(frozen=True, kw_only=True)
class NoPrevention:
    """Grants everything, and takes nothing from other jobs."""

    takes: ClassVar[bool] = False

    def answer(self, asked: Asked) -> Grant:
        return Grant(ok=True)
