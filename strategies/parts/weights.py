"""Averaging and learning-rate rules that every gate shares (pure algebra)."""

from __future__ import annotations

import math

STALENESS_RULES = ("inverse", "linear", "adadelay")
"""Rules that add a penalty for late gradients to ``batch_linear``: ADJUST_LR (AntDT V-E1, Table II), AdaDelay."""
LR_RULES = ("batch_linear", "unit", *STALENESS_RULES)
LINEAR_PENALTY_PER_UPDATE = 0.3


def mean_weight(num_samples: int) -> float:
    """Weight of every gradient sum in an update of ``num_samples`` samples in all; nothing else averages."""
    return 1.0 / num_samples


def lr_scale(rule: str, assigned_samples: int, global_batch_samples: int) -> float:
    """Learning-rate factor of an update that waited for ``assigned_samples`` of the global batch.

    ``batch_linear`` (STAR's r_new = y/N r_SSGD, Sync-Switch's n*eta for BSP against eta for ASP) scales with the share
    of the global batch; ``unit`` leaves the rate unchanged, as native TensorFlow ASP does. Assigned and not actually
    received samples count, so that the short last round of an epoch keeps the full rate.
    """
    return 1.0 if rule == "unit" else assigned_samples / global_batch_samples


def staleness_factor(rule: str, staleness_updates: int, updates: int) -> float:
    """Factor on the weight of a gradient that was computed ``staleness_updates`` versions ago, in update ``updates``.

    ``inverse`` is 1 / staleness (after Zhang et al., "Staleness-aware async-SGD", IJCAI 2016), ``linear``
    1 / (1 + 0.3 staleness). The weights of an update are not normalised again: a late gradient moves the parameters
    less and no other moves them more. ``adadelay`` is sqrt(t / (t + staleness)) in update t, counted from 1 (after Sra
    et al., "AdaDelay: delay adaptive distributed stochastic optimization", AISTATS 2016): it matters early in a job.
    """
    if rule == "adadelay":
        return math.sqrt(updates / (updates + staleness_updates))
    if rule == "inverse":
        return 1.0 / max(1, staleness_updates)
    return 1.0 / (1.0 + LINEAR_PENALTY_PER_UPDATE * staleness_updates) if rule == "linear" else 1.0


def worst_case_factor(tau_max: float) -> float:
    """Factor on every rate where delays up to ``tau_max`` versions are possible: 1 / sqrt(tau_max) (MLfabric, slide 6).

    It is the bound's own rate C / sqrt(tau_max t) without the schedule C / sqrt(t); not late at all counts as 1.
    """
    return 1.0 / math.sqrt(max(1.0, tau_max))


def check_lr_rule(rule: str) -> None:
    """Raise ``ValueError`` unless ``rule`` is one of ``LR_RULES``."""
    if rule not in LR_RULES:
        raise ValueError(f"lr_rule={rule}: must be one of {', '.join(LR_RULES)}")
