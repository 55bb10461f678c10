"""How much of the cores that their nodes have been given jobs use (DLRover, section 6.4)."""

from __future__ import annotations

from collections import defaultdict
from math import nan

from analysis.records.cluster import Cluster
from analysis.records.load import load_run
from analysis.records.nodes import role_of

ROLES = ("worker", "server")


def granted_use(cluster: Cluster) -> dict[str, float]:
    """Used over given core-seconds of all jobs, of each role (``worker``, ``server``) and of both together (``node``).

    From the samples in the jobs' own records; NaN without samples of nodes that have been given cores.
    """
    used, given = defaultdict[str, float](float), defaultdict[str, float](float)
    for folder in cluster.folders.values():
        if not (folder / "meta.json").is_file():  # a job that never ran, or without a record of its own
            continue
        nodes = load_run(folder).tables.nodes
        nodes = nodes[nodes["limit_cores"].notna() & nodes["cpu_cores"].notna()]
        for role in ROLES:
            mine = nodes[role_of(nodes["node"]) == role]
            for name in (role, "node"):
                used[name] += float((mine["cpu_cores"] * mine["period_s"]).sum())
                given[name] += float((mine["limit_cores"] * mine["period_s"]).sum())
    return {name: used[name] / given[name] if given[name] else nan for name in (*ROLES, "node")}
