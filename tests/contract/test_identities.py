"""Strategies that are others at the ends of their range, in random worlds on the virtual clock: the same events, the
same commands, at the same times, and the same parameters. Live: ``tests/live/test_equalities.py``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pytest

from runtime.cluster.device import DeviceProfile
from runtime.virtual.costs import Costs
from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from strategies.gradient_coding import GradientCoding
from strategies.protocol import Strategy
from strategies.zeno_pp import ZenoPP
from tests.support.long_tests import long_after
from tests.support.virtual_runs import VirtualRun, World, draw_host_world, draw_world, still_world

Make = Callable[[int], Strategy]
Draw = Callable[[int, int], World]


def asp(num_workers: int) -> Strategy:
    """With a queue, as the others."""
    return ASP(data="dynamic")


def bsp(num_workers: int) -> Strategy:
    return BSP()


SAME: dict[str, tuple[Make, Make]] = {
    "ssp, bound 0": (lambda n: SSP(bound=0), bsp),
    "naive coding": (lambda n: GradientCoding(scheme="naive", s=0), bsp),
    "cyclic coding, s=0": (lambda n: GradientCoding(scheme="cyclic", s=0), bsp),
    "heter-aware coding, s=0": (lambda n: GradientCoding(scheme="heter_aware", s=0), bsp),
    "group-based coding, s=0": (lambda n: GradientCoding(scheme="group_based", s=0), bsp),
    "ssp, no bound": (lambda n: SSP(bound=None), asp),
}
"""One gate stands for all that ``tests/paper/test_limits.py`` compares event for event."""

every_pair = pytest.mark.parametrize("name", SAME)


def received(run: VirtualRun) -> list[Any]:
    """Everything that was said; what a strategy records of its state is its own affair."""
    return [(line["t"], line["event"], line["commands"]) for line in run.lines if line["kind"] == "event"]


@cache
def run_of(draw: Draw, num_workers: int, seed: int, make: Make) -> VirtualRun:
    """What several are compared with runs once."""
    return VirtualRun(draw(num_workers, seed), make(num_workers))


def difference(first: VirtualRun, second: VirtualRun) -> str:
    """Where two runs part, or that their parameters differ; empty if neither."""
    pairs = zip(received(first), received(second), strict=False)
    parted = next((f"{this} is not {that}" for this, that in pairs if this != that), "")
    if parted or len(received(first)) != len(received(second)):
        return parted or "one of them continues for longer"
    return "" if first.uses() == second.uses() else "other parameters"


@pytest.mark.few(9)
@every_pair
@pytest.mark.parametrize("num_workers", [*(pytest.param(number, marks=pytest.mark.long) for number in (1, 2)), 4])
@pytest.mark.parametrize("draw", [draw_world, draw_host_world])
@pytest.mark.parametrize("seed", long_after(range(3), always=1))
def test_it_is_the_same_in_every_respect(name: str, num_workers: int, draw: Draw, seed: int) -> None:
    make, make_other = SAME[name]
    one = VirtualRun(draw(num_workers, seed), make(num_workers))
    assert difference(one, run_of(draw, num_workers, seed, make_other)) == ""


@pytest.mark.few(3)
@every_pair
def test_what_is_not_the_same_is_found(name: str) -> None:
    """Negative control: none of them is what stands at the other end."""
    make, make_other = SAME[name]
    wrong = asp if make_other is bsp else bsp
    assert difference(VirtualRun(draw_world(4, 0), make(4)), run_of(draw_world, 4, 0, wrong))


def asp_on_as_many_samples(num_workers: int) -> Strategy:
    """The same are held out, although it asks for no score."""
    strategy = asp(num_workers)
    strategy.validation_samples = 5
    return strategy


def paced_world(num_workers: int, seed: int) -> World:
    """Devices alone take time: neither messages nor servers do, nor the computation of a reference."""
    profile = DeviceProfile(base_s=1.0)
    return msgspec.structs.replace(still_world(num_workers, seed), costs=Costs(), profile=profile)


def decided(run: VirtualRun) -> list[Any]:
    """What arrived, and what was done about it, scores apart."""
    events = [line for line in run.lines if line["kind"] == "event"]
    arrived = [line["event"] for line in events if line["event"]["type"] != "Scored"]
    commands = [(line["t"], one) for line in events for one in line["commands"] if one["type"] != "Score"]
    return [arrived, commands, run.uses()]


@pytest.mark.few(1)
@pytest.mark.parametrize("num_workers", [1, 2, 4])
def test_zeno_without_a_screen_is_asp_where_a_score_takes_no_time(num_workers: int) -> None:
    """rho 0, eps without bound, no rescaling."""
    for seed in range(3):
        world = paced_world(num_workers, seed)
        zeno = VirtualRun(world, ZenoPP(rho=0.0, eps=None, rescale=False, validation_samples=5))
        assert zeno.refused == ""
        assert len(zeno.events("Scored")) == len(
            [one for one in zeno.events("Arrived") if one["event"]["grad"]["samples"]]
        )
        assert decided(zeno) == decided(VirtualRun(world, asp_on_as_many_samples(num_workers)))


def test_zeno_with_a_screen_is_not_asp() -> None:
    """Negative control: here gradients are orthogonal to the reference, so the penalty decides."""
    world = paced_world(2, 0)
    screened = VirtualRun(world, ZenoPP(rho=0.001, rescale=False, validation_samples=5, discard=True))
    assert screened.refused == ""
    assert decided(screened) != decided(VirtualRun(world, asp_on_as_many_samples(2)))
