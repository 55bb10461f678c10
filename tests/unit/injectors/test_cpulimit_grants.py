"""cpulimit's own loop, simulated: against shares that were measured with the program, and the percents that follow."""

from __future__ import annotations

import math

import pytest

from injectors.actuators.cpulimit_grants import TOLERANCE_FRAC, granted_cores, percent_for

MEASURED = {75: 0.719, 50: 0.536, 25: 0.295, 10: 0.133, 5: 0.069}
"""Share of a core that a busy process had under cpulimit 2.8, by percent: five or more iterations of 1 s."""


@pytest.mark.parametrize(("percent", "share"), MEASURED.items())
def test_the_loop_grants_what_the_program_was_measured_to_grant(percent: int, share: float) -> None:
    assert granted_cores(percent) == pytest.approx(share, rel=0.04)


@pytest.mark.parametrize(("left", "running_cores"), [(0.75, 0.4), (0.5, 1.0), (0.1, 2.0)])
def test_the_percent_grants_what_is_asked_for(left: float, running_cores: float) -> None:
    percent, granted = percent_for(left * running_cores, running_cores)
    assert granted == granted_cores(percent, running_cores)
    assert granted == pytest.approx(left * running_cores, rel=TOLERANCE_FRAC)


def test_a_neighbouring_percent_is_no_better() -> None:
    for cores in (0.07, 0.3, 0.66):
        percent, granted = percent_for(cores)
        for other in (percent - 1, percent + 1):
            assert abs(granted_cores(other) - cores) >= abs(granted - cores)


@pytest.mark.parametrize("cores", [0.005, 0.03, 0.0, -1.0, math.nan])
def test_what_no_percent_grants_is_refused(cores: float) -> None:
    with pytest.raises(ValueError, match=r"cores: cpulimit"):
        percent_for(cores)


def test_more_than_the_target_can_use_is_no_limit() -> None:
    assert percent_for(1.5, 1.0) == (150, 1.5)
