"""Sizes that never change: divided by hand and by brute force over all divisions; who joins later; what is refused."""

from __future__ import annotations

from itertools import product
from math import inf, nan

import pytest

from strategies.parts.load.shares import EnlargedLoad, SteadyLoad, ThroughputLoad, is_speed
from strategies.protocol import Started


def sizes_of(load: SteadyLoad, *batches: int) -> list[int]:
    """By worker, where these are the nominal batches."""
    load.start(Started(t=0.0, workers=tuple(range(len(batches))), batch_samples=batches, num_servers=1))
    return [load.order(worker).num_samples for worker in range(len(batches))]


def test_the_workers_that_are_waited_for_share_the_batch_and_the_others_get_as_much() -> None:
    """32 samples for 3 of 5, and shares of the first two for the rest: any of them hold about the whole batch."""
    assert sizes_of(EnlargedLoad(num_backup=2), 7, 7, 6, 6, 6) == [11, 11, 10, 11, 11]
    assert sizes_of(EnlargedLoad(num_backup=0), 7, 7, 6) == [7, 7, 6]


def test_at_least_one_worker_is_waited_for() -> None:
    EnlargedLoad(num_backup=2).validate(3)
    with pytest.raises(ValueError, match=r"^num_backup=3: must be less than the number of workers \(3\)$"):
        EnlargedLoad(num_backup=3).validate(3)


@pytest.mark.parametrize("throughputs", [(10.0, 1.0, 0.01), (3.0, 2.0, 1.0), (1.0, 1.0, 1.0), (0.2, 7.0, 0.5)])
def test_no_division_of_the_batch_is_done_earlier(throughputs: tuple[float, ...]) -> None:
    """All divisions of 13 samples among three workers, each of which gets one or more."""
    found = sizes_of(ThroughputLoad(throughputs=throughputs), 5, 4, 4)
    assert sum(found) == 13
    assert min(found) >= 1

    def done_s(sizes: tuple[int, ...]) -> float:
        return max(size / speed for size, speed in zip(sizes, throughputs, strict=True))

    best_s = min(done_s(sizes) for sizes in product(range(1, 14), repeat=3) if sum(sizes) == 13)
    assert done_s(tuple(found)) == pytest.approx(best_s)


@pytest.mark.parametrize("throughputs", [(1.0,), (1.0, 1.0, 1.0)])
def test_there_is_a_throughput_for_each_worker(throughputs: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must be one number for each of the 2 workers"):
        ThroughputLoad(throughputs=throughputs).validate(2)
    ThroughputLoad(throughputs=(1.0, 2.0)).validate(2)


@pytest.mark.parametrize("value", [0, 0.0, -1.0, inf, nan, True, "1", None])
def test_what_is_no_speed_is_no_throughput(value: object) -> None:
    assert not is_speed(value)
    assert is_speed(1e-9)
    with pytest.raises(ValueError, match="must be a positive number for each worker"):
        ThroughputLoad(throughputs=(1.0, value))  # type: ignore[arg-type]


def test_a_worker_that_joins_computes_as_much_as_most() -> None:
    load = EnlargedLoad(num_backup=1)
    assert sizes_of(load, 6, 5, 5) == [8, 8, 8]
    load.resize((0, 1, 2, 9))
    assert [load.order(worker).num_samples for worker in (0, 9)] == [8, 8]
