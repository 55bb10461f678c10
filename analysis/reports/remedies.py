"""What each strategy changes in a job's training, and what it needs; in words, for people who choose one."""

from __future__ import annotations

from typing import NamedTuple


class Remedy(NamedTuple):
    """``changes``: in training, compared with plain synchronous steps; ``needs``: of the job or the cluster."""

    changes: str
    needs: str


NOTHING = "nothing: the same updates"
QUEUE = "a queue of samples instead of fixed shards"
REMEDIES = {
    "bsp": Remedy(NOTHING, "nothing"),
    "asp_even": Remedy(
        "every gradient is applied at once, stale ones included", "parameter servers; a rate tuned for it"
    ),
    "asp": Remedy("every gradient is applied at once, stale ones included", f"parameter servers; {QUEUE}"),
    "ssp": Remedy("stale gradients, within a bound", f"parameter servers; {QUEUE}"),
    "backup_workers": Remedy("the slowest gradients are dropped", QUEUE),
    "first_k": Remedy("the slowest quarter is dropped; smaller updates", QUEUE),
    "static_x": Remedy("smaller updates, some of them stale", f"parameter servers; {QUEUE}"),
    "dynamic_x": Remedy("workers of similar speed update together; stale gradients", f"parameter servers; {QUEUE}"),
    "lgc": Remedy("gradients that are one update late still count, later ones are dropped", QUEUE),
    "lb_bsp": Remedy("batches of unequal size; the same updates", "batch sizes that follow predicted speeds"),
    "lb_bsp_gpu": Remedy("batches of unequal size; the same updates", "batch sizes that move slowly; room in memory"),
    "antdt_nd": Remedy("batches of unequal size; the same updates", "a scheduler with healthy nodes to restart on"),
    "antdt_nd_asp": Remedy("as asp", "parameter servers; a scheduler with healthy nodes to restart on"),
    "antdt_dd": Remedy("batches of unequal size, accumulated; the same updates", "devices of a few types"),
    "sync_switch": Remedy("asynchronous while a worker is slow", "parameter servers; detection"),
    "sync_switch_elastic": Remedy("slow workers are left out for a while", "parameter servers; detection"),
    "coding_cyclic": Remedy(NOTHING, "every worker computes twice as many samples (tolerates one straggler)"),
    "coding_heter_aware": Remedy(NOTHING, "twice as many samples in all, by speed (tolerates one straggler)"),
    "star_h": Remedy("the mode of synchronisation changes with the stragglers", "prediction of times"),
}
"""By the name of a strategy's YAML."""
LEFT_OUT = {
    "coding_fractional": "a code for numbers of workers that s + 1 divides; coding_cyclic does the same",
    "coding_group_based": "a form of coding_heter_aware",
    "coding_naive": "the uncoded control of the codes",
    "composed": "an example of parts that are put together",
    "dlrover": "changes the number of nodes, about which a log is silent",
    "lb_bsp_star": "another setting of lb_bsp_gpu",
    "mlfabric": "orders transfers by the rates of links, about which a log is silent",
    "optimus": "changes the number of nodes, about which a log is silent",
    "or_autoscale": "changes the number of nodes, about which a log is silent",
    "star_ahead": "another predictor of star_h",
    "star_ml": "another predictor of star_h",
    "sync_switch_restart": "another way to switch of sync_switch",
    "zeno_pp": "screens gradients for faults, not for time",
}
"""Strategies that are no answer to the question, and why."""
ASYNCHRONOUS = frozenset({"asp", "asp_even", "antdt_nd_asp"})
"""Strategies in whose logs nobody waits for all."""
