"""Lines with a step's number and its seconds: MaxText, verl, and trainers of TensorFlow's Slim."""

from __future__ import annotations

import re
from collections.abc import Iterable

from analysis.logs.epoch_lines import ONE_CLOCK
from analysis.logs.limits import LEAST_PRINTED_S, MOST_SECONDS, MOST_STEP
from analysis.logs.lines import Line, positive, ranks_of, whole
from analysis.logs.rows import Rows

FORMS = {
    "completed step: ": re.compile(r"\bcompleted step: (\d++), seconds: ([\d.]++)"),  # MaxText
    " - timing_s/": re.compile(r"\bstep:(\d++) - .*?\btiming_s/step:([\d.]++)"),  # verl
    " sec/step)": re.compile(r"\bstep {0,3}(\d++)\b.*?\(([\d.]++) sec/step\)"),  # TF-Slim, and many after it
}
"""Forms of lines, each with a text that all its lines have."""
PART = re.compile(r"\btiming_s/(\w++):([\d.]++)")
"""verl's."""
NESTED = "some parts contain others, so that their sum may be more than a step"


def is_step_line(line: Line) -> bool:
    """Whether a line is one of a step."""
    return _match(line.text) is not None


def read_step_lines(source: str, lines: Iterable[Line]) -> Rows:
    """Steps of every process that was printed, with parts if the program prints them.

    Raises:
        LogError: a number is none.
    """
    rows = Rows(source, "a line for every step", sampled=True, remarks=[ONE_CLOCK])
    some = [(line, found) for line in lines if (found := _match(line.text))]
    for rank, (line, found) in zip(ranks_of([line.process for line, _ in some]), some, strict=True):
        where = f"{source}: line {line.number}"
        step_s = max(positive(found[2], "seconds of a step", where, MOST_SECONDS), LEAST_PRINTED_S)
        parts_s = {
            name: positive(seconds, name, where, MOST_SECONDS)
            for name, seconds in PART.findall(line.text)
            if name != "step"
        }
        if parts_s and NESTED not in rows.remarks:
            rows.remarks.append(NESTED)
        rows.add(rank, whole(found[1], "step", where, MOST_STEP), step_s, parts_s=parts_s)
    return rows


def _match(text: str) -> re.Match[str] | None:
    return next((found for word, form in FORMS.items() if word in text and (found := form.search(text))), None)
