"""The page of a comparison of a set of jobs live and on the virtual clock (``scripts/measure/fidelity_jobs.py``)."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.markup import markdown_lines
from analysis.measures.cluster.fidelity import TOLERANCE_FRAC, AtLiveSpeed, ClusterFidelity
from analysis.reports.sheets import yes

HEADS = (
    *("placement", "job", "GPUs", "JCT live (s)", "virtual (s)", "ratio", "training live (s)", "virtual (s)", "ratio"),
    *("JCT at live's processor speed (s)", "ratio"),
)
SHOWN = ("live_jct_s", "virtual_jct_s", "jct_ratio", "live_train_s", "virtual_train_s", "train_ratio")
PACED = ("virtual_jct_s", "jct_ratio")
QUESTION = "How far are the completion times of jobs that share hosts, on the virtual clock, from live ones?"
NOTE = """\
The JCT is from submission to end. Training begins when all tasks of a job compute: live, its agent imports the
framework before, which the virtual clock does not model. Ratios are virtual over live. At live's processor speed: the
virtual set once more, on processors so much slower or faster than while the costs were fitted that it takes as much
processor time as live, one factor for all of its jobs; what differs then is not how fast this machine computed."""


def page(met: Mapping[str, ClusterFidelity], paced: Mapping[str, AtLiveSpeed], made: str, source: str) -> str:
    """``met`` and ``paced`` by placement; ``made``: by which command; ``source``: the caption of the runs."""
    within = f"JCT (job completion time) within {TOLERANCE_FRAC:.0%}: {_within(met)}"
    speeds = ", ".join(f"{name} {one.factor:.2f}" for name, one in paced.items())
    same = (
        f"at live's processor speed ({speeds} of the fit's): {_within({name: one.met for name, one in paced.items()})}"
    )
    kept = f"order of the jobs by JCT kept: {', '.join(f'{name} {yes(one.order_kept)}' for name, one in met.items())}"
    cells = []
    for placement, found in met.items():
        again = paced[placement].met.jobs.set_index("job")
        for _, row in found.jobs.iterrows():
            times = [(name, row[name]) for name in SHOWN] + [(name, again.loc[row["job"], name]) for name in PACED]
            texts = [format(value, ".3f" if name.endswith("ratio") else ".1f") for name, value in times]
            cells.append((placement, str(row["job"]), str(row["gpus"]), *texts))
    lines = ["# A set of jobs, live against virtual", "", f"{QUESTION} {made}", "", f"from: {source}.", ""]
    lines += [f"- {within}", f"- {same}", f"- {kept}", "", NOTE, "", *markdown_lines(HEADS, cells), ""]
    return "\n".join(lines)


def _within(met: Mapping[str, ClusterFidelity]) -> str:
    rows = [row for found in met.values() for _, row in found.jobs.iterrows()]
    return f"{sum(row['within'] for row in rows)} of {len(rows)} jobs"
