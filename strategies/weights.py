"""Averaging and learning-rate rules that every gate shares (pure algebra)."""

from __future__ import annotations

STALENESS_RULES = ("inverse", "linear")
"""Rules that add a penalty for late gradients to ``batch_linear`` (ADJUST_LR, AntDT section V-E1, Table II)."""
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


def staleness_factor(rule: str, staleness_updates: int) -> float:
    """Factor on the weight of a gradient that was computed ``staleness_updates`` versions ago.

    ``inverse`` is 1 / staleness (after Zhang et al., "Staleness-aware async-SGD", IJCAI 2016), ``linear``
    1 / (1 + 0.3 staleness). The weights of an update are not normalised again: a late gradient moves the parameters
    less and no other moves them more.
    """
    if rule == "inverse":
        return 1.0 / max(1, staleness_updates)
    return 1.0 / (1.0 + LINEAR_PENALTY_PER_UPDATE * staleness_updates) if rule == "linear" else 1.0


def check_lr_rule(rule: str) -> None:
    """Raise ``ValueError`` unless ``rule`` is one of ``LR_RULES``."""
    if rule not in LR_RULES:
        raise ValueError(f"lr_rule={rule}: must be one of {', '.join(LR_RULES)}")
