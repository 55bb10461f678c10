"""When a lab jumps and how far, worked out by hand."""

from __future__ import annotations

import math

import pytest

from runtime.core.jumping.jumps import STEP_S, Measured, Outlook, span_s

USUAL = Outlook(settled=True, round_s=2.0, left_s=100.0)


@pytest.mark.parametrize(
    ("fixed_s", "jobs", "expected_s"),
    [
        (1060.0, [USUAL], 50.0),  # the next timer
        (1500.0, [USUAL], 94.0),  # its end in 100 s, less three rounds
        (1500.0, [USUAL, Outlook(settled=True, round_s=0.5, left_s=60.0)], 58.5),  # the first of both ends
        (1500.0, [USUAL, Outlook(settled=True, round_s=0.5, known_s=20.0)], 20.0),  # as far as is known
        (math.inf, [Outlook(settled=True, round_s=1.0)], 0.0),  # nothing to jump to
        (1500.0, [USUAL, Outlook(settled=False)], 0.0),  # one is not measured
        (1011.0, [USUAL], 0.0),  # no round fits
        (1012.0, [USUAL], 2.0),  # one does
        (1011.0, [USUAL, Outlook(settled=True, round_s=0.9)], 1.0),  # of the fastest
        (1500.0, [], 0.0),
    ],
)
def test_a_jump_ends_before_what_comes_first(fixed_s: float, jobs: list[Outlook], expected_s: float) -> None:
    assert span_s(1010.0, fixed_s, jobs, margin=3) == expected_s


def test_a_jump_never_reaches_what_it_ends_for() -> None:
    now_s, fixed_s = 0.1, 12345.678
    span = span_s(now_s, fixed_s, [Outlook(settled=True, round_s=1.0)], margin=1)
    assert fixed_s - now_s - 2 * STEP_S < span <= fixed_s - now_s
    assert span / STEP_S == int(span / STEP_S)


@pytest.mark.parametrize("name", ["warm_up", "rounds", "apart", "margin", "reach"])
def test_settings_out_of_range_are_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=-1"):
        Measured(**{name: -1})
