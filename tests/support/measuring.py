"""A strategy that measures updates, for jobs that are started from the command line."""

from __future__ import annotations

from pathlib import Path

NOISY = """
_target_: strategies.parts.composed.Composed
gate:
  _target_: strategies.parts.gates.AllGate
detectors:
  noise:
    _target_: strategies.star.noise.NoiseMeter
    every_updates: {every}
"""


def noisy(folder: Path, every: int = 2) -> tuple[str, ...]:
    """Words that choose BSP with every ``every``-th update measured; its file is written below ``folder``."""
    (folder / "strategy").mkdir()
    (folder / "strategy" / "noisy.yaml").write_text(NOISY.format(every=every))
    return "--config-dir", str(folder), "strategy=noisy"
