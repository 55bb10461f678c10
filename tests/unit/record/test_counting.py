"""How far something is: silent where it is quick, a line every so often elsewhere, one rewritten line on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from threading import Event

from runtime.record.progress import CLEARED, Progress, counted, said_late


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def said(stream: StringIO, *, num_items: int, each_s: float) -> str:
    """What is said of so many items, each of which takes so long."""
    now = [0.0]

    def items() -> Iterator[int]:
        for number in range(num_items):
            now[0] += each_s
            yield number

    assert list(counted(items(), num_items, "checking jobs", stream, lambda: now[0])) == list(range(num_items))
    return stream.getvalue()


def test_elsewhere_a_line_now_and_then_without_control_codes() -> None:
    assert said(StringIO(), num_items=40, each_s=1.0).splitlines() == [
        "checking jobs: 3 of 40, about 37 s left",
        "checking jobs: 13 of 40, about 27 s left",
        "checking jobs: 23 of 40, about 17 s left",
        "checking jobs: 33 of 40, about 7 s left",
    ]


def test_a_terminal_has_one_line_which_leaves_at_the_end() -> None:
    text = said(Terminal(), num_items=5, each_s=70.0)
    assert "\n" not in text
    assert text.split(CLEARED) == [
        "",
        "checking jobs: 1 of 5, about 5 min left",
        "checking jobs: 2 of 5, about 4 min left",
        "checking jobs: 3 of 5, about 2 min left",
        "checking jobs: 4 of 5, about 1 min left",
        "",
    ]


def test_what_cannot_be_counted_is_said_once_if_it_lasts() -> None:
    class Awaited(StringIO):
        printed = Event()

        def flush(self) -> None:
            self.printed.set()

    stream = Awaited()
    with said_late("converting", stream, after_s=0.0):
        assert stream.printed.wait(30)
    assert stream.getvalue() == "converting\n"
    quick = StringIO()
    with said_late("converting", quick, after_s=3600.0):
        pass
    assert quick.getvalue() == ""


def test_a_part_is_said_in_percent_and_the_rest_once_it_can_be_known() -> None:
    stream, now = StringIO(), [0.0]
    progress = Progress(4, "repeating", stream, lambda: now[0], quiet_s=1.0)
    for now[0], part in ((0.5, 0.1), (1.5, 0.001), (12.0, 0.125), (13.0, 0.2), (22.0, 0.75), (32.0, 1.0)):
        progress.reached(part)
    assert stream.getvalue().splitlines() == [
        "repeating: 0 %",
        "repeating: 12 %, about 1 min left",
        "repeating: 75 %, about 8 s left",
    ]
