"""When the jobs of a source are submitted (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from runtime.core.cluster.inputs import JobSubmitted
from strategies.protocol import JobRequest


def by_submission(requests: Iterable[JobRequest]) -> list[list[JobSubmitted]]:
    """Those that come at the same time together, the latest first, so that the next ones are popped from the end.

    ``requests``: in the order of submission.
    """
    batches = [[*map(JobSubmitted, batch)] for _, batch in groupby(requests, key=lambda request: request.submit_s)]
    batches.reverse()
    return batches
