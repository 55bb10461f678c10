"""DLRover's rules for a running job on drawn jobs, against the formulas of sections 4.2 and 5.4."""

from __future__ import annotations

from math import ceil, isqrt
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.dlrover.adjust import JobNow, Rules, adjust
from strategies.parts.scaling.changes import AddWorkers, Replace
from strategies.protocol import NodeId
from tests.support.brain import PAPER, job, observed, using


def by_the_text(
    workers: int, used: list[float], busy: list[float], update_cores: float, iterations: int | None
) -> tuple[str, Any] | None:
    """Sections 4.2 and 5.4 for servers of 16 cores, as formulas, with the guards that the card names."""
    servers, total = range(len(used)), sum(used)
    needs = [min(ceil(own / total * update_cores * workers), 32) for own in used]
    hot = [server for server in servers if used[server] >= 0.9 * 16]
    loaded = [server for server in servers if used[server] > 1.2 * total / len(used)]
    slow = [server for server in servers if busy[server] >= 1.5 * sum(busy) / len(busy) and server not in loaded]
    if larger := [(server, needs[server]) for server in hot if needs[server] > 16]:
        return "hot server", larger
    if total < 0.9 * 16 * len(used) and not hot and not slow:
        wanted = ceil(16 * len(used) / (total / workers))
        if (wanted := wanted if iterations is None else min(wanted, isqrt(iterations))) > workers:
            return "idle servers", wanted - workers
    if larger := [(server, needs[server]) for server in loaded if needs[server] > 16]:
        return "loaded server", larger
    return ("slow server", slow) if slow else None


@settings(max_examples=200)
@given(
    workers=st.integers(1, 30),
    use=st.floats(0.3, 1.0),
    shapes=st.lists(
        st.tuples(st.sampled_from([1.0, 1.0, 1.07, 1.33, 0.71]), st.sampled_from([1.0, 1.0, 4.3])),
        min_size=1,
        max_size=8,
    ),
    update_cores=st.floats(0.21, 7.9),
    iterations=st.sampled_from([None, 150, 400, 10_000]),
)
def test_what_is_done_is_what_the_text_says(
    workers: int, use: float, shapes: list[tuple[float, float]], update_cores: float, iterations: int | None
) -> None:
    """Sections 4.2 and 5.4, on drawn jobs."""
    used, busy = [min(15.97, 16 * use * load) for load, _ in shapes], [0.21 * slowness for _, slowness in shapes]
    expected = by_the_text(workers, used, busy, update_cores, iterations)
    busy_frac = {NodeId.server(server): own for server, own in enumerate(busy)}
    nodes, cores = job((workers, 3, 2.5), (16, used))
    usage = observed(nodes, using(cores, busy_frac=busy_frac))
    finding = adjust(JobNow(usage=usage, update_cores=update_cores, limits=PAPER, iterations=iterations), Rules())
    if finding is None or expected is None:
        assert (finding, expected) == (None, None)
        return
    replaced = [change for change in finding.changes if isinstance(change, Replace)]
    ours: Any = [(one.node.number, one.cores) for one in replaced]
    if finding.rule == "slow server":
        ours = [one.node.number for one in replaced]
    if finding.rule == "idle servers":
        ours = sum(change.count for change in finding.changes if isinstance(change, AddWorkers))
    assert (finding.rule, ours) == expected
