"""Activities that chance starts, stops and disturbs, right and wrong: the same to the last bit as ever."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from math import inf, nan
from random import Random
from typing import Any

from runtime.cluster.hosts import USUAL_PERIOD_S
from runtime.virtual.compiled._hosts import Fluid
from runtime.virtual.machines.quotas import Quota, quota_of
from tests.support.kernel_snapshots import digest, stored

SCENARIOS = 240
NAMES = [f"resource {number}" for number in range(8)]


def same(make: Callable[[], object]) -> Any:
    """What a call returns, or how it fails."""
    try:
        return make()
    except ValueError as error:
        return "refused", str(error).split(":")[0].split("=")[0]


def says(seed: int) -> Iterator[object]:
    """Everything that activities say while chance starts, stops and disturbs them, right and wrong."""
    random, t, number = Random(seed), 0.0, 0
    alike = random.random() < 0.5  # many ties
    value = (lambda: random.choice((0.5, 1.0, 2.0, 4.0))) if alike else (lambda: random.uniform(0.1, 10))
    capacity: Callable[[], float] = lambda: random.choice((inf, inf, 0.0, value(), value(), value()))  # noqa: E731
    fluid = Fluid({name: capacity() for name in NAMES})

    def start() -> object:
        nonlocal number
        number += 1
        uses = tuple(random.sample(NAMES, random.randint(0, 4)))
        return fluid.start(
            t, number, random.choice((0.0, value(), value() / 7)), uses, random.choice((inf, value())),
            random.choice((1.0, 1.0, value())),
        )  # fmt: skip

    def of(cores: float) -> Quota:
        return quota_of(cores, USUAL_PERIOD_S)

    def bad() -> object:
        wrong = random.choice((-1.0, nan, inf))
        return random.choice(
            (
                lambda: fluid.start(t, number + 1000, wrong, (NAMES[0],)),
                lambda: fluid.start(t, number + 1000, 1.0, ("nothing",)),
                lambda: fluid.start(t, number + 1000, 1.0, (NAMES[0], NAMES[0])),
                lambda: fluid.start(t - 1.0, number + 1000, 1.0, (NAMES[0],)),
                lambda: fluid.start(t, number + 1000, 1.0, (NAMES[0],), 1.0, 0.0),
                lambda: fluid.start(t, number, 1.0, (NAMES[0],)),
                lambda: fluid.stop(t, number + 1000),
                lambda: fluid.set_capacity(t, NAMES[0], -1.0),
                lambda: fluid.set_quota(t, "nothing", None),
                lambda: fluid.remove(["nothing"]),
            )
        )()

    def limited() -> object:
        about = random.choice((None, of(value() / 4), of(value() / 50), of(0.0)))
        return fluid.set_quota(t, random.choice(NAMES), about)

    def renewed() -> object:
        name = random.choice(NAMES)
        fluid.remove([name])
        return fluid.add({name: capacity()})

    acts: list[Callable[[], object]] = [
        start, start, start, start,
        lambda: fluid.stop(t, random.randint(1, number + 1)),
        lambda: fluid.set_capacity(t, random.choice(NAMES), capacity()),
        limited,
        lambda: fluid.completed(t),
        lambda: fluid.left(t, random.randint(1, number + 1)),
        lambda: fluid.rate(random.randint(1, number + 1)),
        lambda: fluid.next_s,
        bad,
        renewed,
    ]  # fmt: skip
    for _ in range(random.randint(5, 80)):
        if random.random() < 0.5:
            t += random.choice((value(), value() / 100, 1e-12))
        while random.random() < 0.8 and (next_s := fluid.next_s) < t:
            now = t if random.random() < 0.6 else next_s
            yield next_s, same(partial(fluid.completed, now))
        yield same(random.choice(acts))
        yield fluid.next_s
    for key in range(1, number + 1):
        yield same(lambda key=key: (fluid.rate(key), fluid.left(t, key)))  # type: ignore[misc]


def test_they_say_what_they_said_to_the_last_bit() -> None:
    for seed in range(SCENARIOS):
        assert digest([*says(seed)]) == stored()["fluid"][seed], seed


def test_nothing_is_kept() -> None:
    """Neither keys of ended activities nor those of a model that is dropped, even if they refer to it."""

    class Key:
        alive = 0

        def __init__(self) -> None:
            Key.alive += 1

        def __del__(self) -> None:
            Key.alive -= 1

    fluid = Fluid({"one": 1.0})
    for number in range(100):
        fluid.start(float(number), Key(), 0.25 if number % 2 else 0.0, ("one",))
        fluid.completed(number + 0.5)
    fluid.stop(100.0, key := _begun(fluid, Key()))
    del key
    assert Key.alive == 0
    last = Key()
    last.fluid = fluid  # type: ignore[attr-defined]
    fluid.start(101.0, last, 5.0, ("one",))
    del fluid, last
    gc.collect()
    assert Key.alive == 0


def _begun(fluid: Any, key: object) -> object:
    fluid.start(100.0, key, 5.0, ("one",))
    return key
