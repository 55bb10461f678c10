"""Parts of steps that show on a device: communication that no computing hides, and loading while it is idle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.logs.intervals import Floats, inside, union


class Exposed(NamedTuple):
    """[steps] lengths in the unit of the spans."""

    step: Floats
    communication: Floats
    loading: Floats


def divide_steps(steps: Floats, working: Floats, sending: Floats, loading: Floats) -> Exposed:
    """Divide steps; all arguments are [n, 2]: begin and end of spans.

    Args:
        steps: ascending.
        working: kernels and copies of the device that are no communication.
        sending: its communication.
        loading: of the host, in the data loader.
    """
    busy = union(np.concatenate([working, sending]))
    in_busy = inside(busy, steps)
    with_loading = inside(union(np.concatenate([busy, loading])), steps)
    return Exposed(
        steps[:, 1] - steps[:, 0],
        (in_busy - inside(union(working), steps)).clip(min=0.0),
        (with_loading - in_busy).clip(min=0.0),
    )
