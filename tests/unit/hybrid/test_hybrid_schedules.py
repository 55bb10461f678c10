"""The order of a stage's work: the published schedules, written out by hand."""

import pytest

from runtime.hybrid.schedules import orders


def words(schedule: str, stages: int, micro_batches: int, chunks: int = 1) -> list[str]:
    """Each stage's passes, such as F0 F1 B0; with chunks, F0a for the first and F0b for the second."""
    return [
        " ".join(f"{one.kind[0].upper()}{one.micro_batch}{'ab'[one.chunk] if chunks > 1 else ''}" for one in passes)
        for passes in orders(schedule, stages, micro_batches, chunks)
    ]


def test_gpipe_makes_all_forward_passes_first():
    assert words("gpipe", 2, 3) == ["F0 F1 F2 B0 B1 B2"] * 2


def test_1f1b_has_as_many_micro_batches_in_flight_as_stages_follow():
    # PipeDream-flush: Narayanan et al., SC 2021, figure 4 (top), with 4 stages
    assert words("1f1b", 4, 5) == [
        "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4",
        "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4",
        "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4",
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4",
    ]
    assert words("1f1b", 4, 2)[:2] == words("gpipe", 4, 2)[:2], "with few micro-batches it is GPipe"
    assert words("interleaved", 4, 8) == words("1f1b", 4, 8)


def test_interleaved_passes_each_chunk_by_as_many_micro_batches_as_there_are_stages():
    # Narayanan et al., SC 2021, figure 4 (bottom), in small: 2 stages, 2 chunks, 4 micro-batches
    assert words("interleaved", 2, 4, 2) == [
        "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a",
        "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a",
    ]


def test_zb_delays_gradients_of_weights_until_the_forward_passes_are_made():
    # Qi et al., ICLR 2024: 2 (p - s) - 1 forward passes warm a stage up
    assert words("zb", 3, 6) == [
        "F0 F1 F2 F3 F4 B0 F5 B1 W0 B2 W1 B3 W2 B4 W3 B5 W4 W5",
        "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 W0 B4 W1 B5 W2 W3 W4 W5",
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 W0 W1 W2 W3 W4 W5",
    ]


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb"])
@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 1), (1, 3), (3, 1), (4, 2), (3, 9)])
def test_every_micro_batch_passes_every_stage_once(schedule, stages, micro_batches):
    kinds = {"F", "B"} | ({"W"} if schedule == "zb" else set())
    for line in words(schedule, stages, micro_batches):
        assert sorted(line.split()) == sorted(f"{kind}{number}" for kind in kinds for number in range(micro_batches))


def test_an_impossible_schedule_is_refused():
    for asked, said in {
        ("other", 2, 2, 1): "schedule=other: must be gpipe, 1f1b, interleaved or zb",
        ("1f1b", 0, 2, 1): "pipeline=0: must be 1 or more",
        ("1f1b", 2, 0, 1): "micro_batches=0: must be 1 or more",
        ("interleaved", 2, 2, 0): "chunks=0: must be 1 or more",
        ("1f1b", 2, 2, 2): "chunks=2: only schedule=interleaved has several; set chunks=1",
        ("interleaved", 4, 6, 2): "micro_batches=6: schedule=interleaved needs a multiple of pipeline=4, such as 8",
    }.items():
        with pytest.raises(ValueError, match=f"^{said}$"):
            orders(*asked)
