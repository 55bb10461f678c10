"""The choices of a config group, and which strategies a grid can compare with one another."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from omegaconf import OmegaConf

from runtime.config.choices import merged
from runtime.config.instantiate import instantiate
from runtime.house import ROOT
from strategies.protocol import Launch


def choices(group: str) -> list[str]:
    """The choices of a config group."""
    return sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml"))


def steady_strategies() -> list[str]:
    """Strategies that leave a job the nodes with which it began: what the others gain depends on what they may have."""
    return [name for name in choices("strategy") if not _launches(name)]


@cache
def _launches(name: str) -> bool:
    spec = OmegaConf.to_container(merged(name, [ROOT / "conf" / "strategy"]), resolve=True)
    return Launch in instantiate(cast("dict[str, Any]", spec), "strategy").needs
