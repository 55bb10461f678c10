"""The form of a strategy's answer to an event: a list (or tuple) of commands (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from strategies.protocol import AnyCommand, AnyEvent, Command, ProtocolError, Strategy

SHOWN_CHARS = 80
LISTS = (list, tuple)


def checked(strategy: Strategy, event: AnyEvent, answer: object) -> Sequence[AnyCommand]:
    """The answer, if valid; else :class:`ProtocolError` with the class, the event and the answer, in one line.

    A string is a sequence and a generator can be read only once, so neither is accepted as a list of commands.
    """
    wrong: object = answer
    if isinstance(answer, LISTS):
        for item in answer:
            if not isinstance(item, Command):
                wrong = item
                break
        else:
            return answer
    what = "None" if wrong is None else f"{_show(wrong)} (a {type(wrong).__name__})"
    among = "" if wrong is answer else " among its commands"
    raise ProtocolError(
        f"{type(strategy).__name__}.handle answered {_show(event)} with {what}{among}; it must return a list of "
        "commands, [] for none"
    )


def _show(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 3]}..."
