"""How long every rank kept the others of a log waiting: its own work, and its communication beyond the others'.

Two things make no rank late: a pause of all ranks together (a checkpoint, an evaluation), and the wait for others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.logs.step_log import StepLog, rounds_s
from analysis.measures.slow_steps import MAD_SIGMA, Bools, Floats, quick

PAUSE_SIGMAS = 6.0
NEARBY = 25
"""Steps that determine the usual time at a step; a slowdown that lasts for half of them is no pause."""
FEWEST_RANKS = 3
"""With two ranks it is undecidable whether one sent slowly or the other worked slowly."""
JOINT_FRAC = 0.5
"""A rank's long communication lengthens the step by this part of it, at least, if others wait for it."""


@dataclass(frozen=True)
class Lateness:
    """A log's steps, divided into the time of single ranks and the time of all together.

    Attributes:
        own_s: [steps, ranks] seconds that a rank kept others waiting, of which ``comm_s`` (0 where the log does not
            say) is communication beyond the other ranks'. A step with a pause takes a neighbouring step's values.
        length_s: [steps] seconds of every step, on any activity; their sum is the logged time of the job.
        pause_s: [steps] of these, the pause of all ranks together.
    """

    own_s: Floats
    comm_s: Floats
    length_s: Floats
    pause_s: Floats

    @property
    def rest_s(self) -> Floats:
        """[steps] the rest of a step after its slowest rank and its pause: transfers and barriers."""
        return np.asarray(self.length_s - self.pause_s - np.nanmax(self.own_s, axis=1))

    @property
    def barrier_s(self) -> float:
        """Return the average time of a round beyond its slowest rank."""
        return max(0.0, float(self.rest_s.mean()))


def lateness(log: StepLog, *, barrier: bool, slow_frac: float) -> Lateness:
    """Divide a log with ranks; without barriers no rank waits, and nothing is divided.

    Args:
        log: with ``per_rank``.
        barrier: whether all ranks wait for each other in every step.
        slow_frac: communication counts as late from this part of a step on.
    """
    none = np.zeros(log.own_s.shape)
    if not barrier:
        return Lateness(log.own_s, none, nobody_waits(log.own_s), none[:, 0])
    length_s = rounds_s(log)
    own_s, comm_s = log.own_s, none
    if log.comm_s is not None and log.num_ranks >= FEWEST_RANKS:
        comm_s = _late(log, log.comm_s, length_s, slow_frac)
        if log.own_is_rest:
            loading_s = none if log.data_s is None else _late(log, log.data_s, length_s, slow_frac)
            own_s = _without_waiting(own_s, comm_s + loading_s)
    own_s = own_s + comm_s
    paused = _find_pauses(own_s, length_s)
    if paused.all() or not paused.any():
        return Lateness(own_s, comm_s, length_s, none[:, 0])
    like = _steps_like(paused, length_s)
    pause_s = np.where(paused, np.maximum(0.0, length_s - length_s[like]), 0.0)
    return Lateness(own_s[like], comm_s[like], length_s, pause_s)


def nobody_waits(own_s: Floats) -> Floats:
    """Return the time if n ranks go at their own pace: as many steps in the harmonic mean of their times."""
    return np.asarray(1.0 / np.nanmean(1.0 / own_s, axis=1))


def usual_near(values: Floats) -> Floats:
    """[steps] medians over the steps around each."""
    return np.asarray(pd.Series(values).rolling(NEARBY, center=True, min_periods=1).median())


def _late(log: StepLog, part_s: Floats, length_s: Floats, slow_frac: float) -> Floats:
    """[steps, ranks] communication (or loading) beyond the median rank's, where it kept the others waiting; else 0.

    A rank that waits in a collective communicates for long, too. So it must be late itself: its work and communication
    end after the others', or (if a step is all work or all communication) the step is longer by that.
    """
    assert log.comm_s is not None
    ends_s, usual_s = log.own_s + log.comm_s, float(np.median(length_s))
    more, ends = _over(part_s, quick(part_s)), _over(ends_s, quick(ends_s))
    least = max(slow_frac * usual_s, 4.0 * MAD_SIGMA * float(np.median(np.abs(more - np.median(more)))))
    late = np.where((more > least) & (ends > JOINT_FRAC * more), more, 0.0)
    if log.own_is_rest:
        more = _over(part_s, np.nanmedian(part_s, axis=1))  # those who wait in a collective are most of the ranks
        joint = (length_s - usual_near(length_s))[:, None] > JOINT_FRAC * more
        late = np.where((late == 0) & (more > least) & joint, more, late)
    return late


def _over(values: Floats, level: Floats) -> Floats:
    """[steps, ranks] by how much each exceeds its step's level; unknown ones by nothing."""
    return np.nan_to_num(values - level[:, None])


def _without_waiting(own_s: Floats, late_s: Floats) -> Floats:
    """Own work of the others without the time in which they waited for a rank that loaded or communicated for long."""
    waited = late_s.max(axis=1, keepdims=True)
    usual = np.nanmedian(np.where(waited > 0, np.nan, own_s), axis=0) if not (waited > 0).all() else np.nan
    rest = np.fmax(own_s - waited, np.fmin(usual, own_s))
    return np.where((waited > 0) & (late_s == 0), rest, own_s)


def _find_pauses(own_s: Floats, length_s: Floats) -> Bools:
    """[steps] whether all ranks were long together, or the step although no rank was."""
    usual = float(np.median(length_s))
    rest = length_s - np.nanmax(own_s, axis=1)
    return np.asarray(_jumps(quick(own_s), usual) | _jumps(rest, usual))


def _jumps(values: Floats, usual: float) -> Bools:
    over = values - usual_near(values)
    spread = MAD_SIGMA * float(np.median(np.abs(over)))
    return np.asarray(over > max(0.1 * usual, PAUSE_SIGMAS * spread))


def _steps_like(paused: Bools, length_s: Floats) -> NDArray[np.int64]:
    """[steps] each itself; of one with a pause the last one before it or the first one after it, whichever is shorter.

    The longer one may have been long by a straggler's single slow step.
    """
    usual = np.flatnonzero(~paused)
    place = np.searchsorted(usual, np.arange(len(paused)))
    after = usual[np.minimum(place, len(usual) - 1)]
    before = usual[np.maximum(0, np.where(paused, place - 1, place))]
    return np.where(paused & (length_s[before] < length_s[after]), before, after)
