"""``--name ID=NAME``: what tables and figures for people call a strategy or a case."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError


def add_names(parser: ArgumentParser) -> None:
    """Add the option; ``names`` of the arguments are its pairs."""
    parser.add_argument(
        "--name",
        dest="names",
        metavar="ID=NAME",
        type=_pair,
        action="append",
        default=[],
        help="what people call a strategy (ID: as configurations have it), or the straggler of a case",
    )


def _pair(text: str) -> tuple[str, str]:
    label, sign, name = text.partition("=")
    if not (label and sign and name):
        raise ArgumentTypeError(f"{text}: must be ID=NAME, as in ssp='Stale synchronous'")
    return label, name
