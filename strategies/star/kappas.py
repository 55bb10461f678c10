"""STAR's price of staleness where a job does not give one (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strategies.parts.checks import check_number
from strategies.star.times import FIGURE_16

FITTED: Mapping[str, Sequence[tuple[float, float]]] = {
    "digits": ((0.03, 1.3), (0.1, 5.8), (0.2, 21.0)),
    "digits_cnn": ((0.003, 1.0), (0.05, 3.2)),
}
"""By workload: learning rates, ascending, and the ``kappa`` that ``scripts/fit_kappa.py WORKLOAD --lr RATES --phi 300``
fitted to 4 workers there (three seeds)."""
UNKNOWN = 16.0
"""For workloads that nobody has fitted: too high a price costs 10 to 18 %, too low a one lets training diverge."""


def kappa_for(mode_cost: str, workload: str | None, lr: float | None) -> float:
    """The price of the workload at the next fitted rate that is not below ``lr``: staleness costs more at higher ones.

    Above all fitted rates it is the highest price or the one of unknown workloads, whichever is more.
    """
    if mode_cost != "pooled":
        return FIGURE_16
    if not isinstance(workload, str | None):
        raise ValueError(f"kappa_workload={workload}: must be the name of a workload, or null")
    if lr is not None:
        check_number("kappa_lr", lr, 0.0)
    fitted = FITTED.get(workload or "", ())
    above = max([UNKNOWN, *(kappa for _, kappa in fitted)])
    return next((kappa for rate, kappa in fitted if lr is not None and lr <= rate), above)
