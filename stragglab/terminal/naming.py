"""``--name ID=NAME``: names of strategies and cases in tables and figures for people."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError


def add_names(parser: ArgumentParser) -> None:
    """Add the option; ``names`` of the arguments are its pairs."""
    parser.add_argument(
        "--name",
        dest="names",
        metavar="ID=NAME",
        type=_pairs,
        action="extend",
        default=[],
        help="what people call a strategy (ID: as configurations have it), or the straggler of a case",
    )


def _pairs(text: str) -> list[tuple[str, str]]:
    """Every way to divide the text: labels, too, have ``=`` (``ssp bound=3``), and names may have it."""
    parts = text.split("=")
    found = [("=".join(parts[:cut]), "=".join(parts[cut:])) for cut in range(1, len(parts))]
    if not any(label and name for label, name in found):
        raise ArgumentTypeError(f"{text}: must be ID=NAME, as in ssp='Stale synchronous'")
    return found
