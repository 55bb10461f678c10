"""The words of a command line: Hydra's flags and the settings."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn

from hydra import __version__ as hydra_version

from runtime.config.hydra_internal import get_args_parser
from runtime.errors import ConfigError, refuse
from runtime.version import own_version


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Hydra's arguments; an error raises :class:`ConfigError` instead of printing a usage page."""
    parser = get_args_parser()
    parser.error = _refuse  # type: ignore[method-assign]
    for action in parser._actions:
        if action.dest == "version":
            action.version = f"Stragglab {own_version()} (Hydra {hydra_version})"  # type: ignore[attr-defined]
    args = parser.parse_intermixed_args(list(argv))
    modes = {
        "--run": args.run,
        "--multirun": args.multirun,
        "--cfg": args.cfg,
        "--info": args.info,
        "--shell-completion": args.shell_completion,
    }
    given = [name for name, value in modes.items() if value]
    if len(given) > 1:
        raise ConfigError(f"{' '.join(given)}: only one of these at a time")
    if args.resolve and not (args.cfg or args.help):
        raise ConfigError("--resolve: only together with --cfg")
    if args.experimental_rerun is not None:
        raise ConfigError("--experimental-rerun: not supported, it would execute what a pickle file says")
    return args


def _refuse(message: str) -> NoReturn:
    if re.match(r"unrecognized arguments: (-o|--out)\b", message):
        raise ConfigError(f"{message}; hydra.run.dir=DIR is where a run's record goes, hydra.sweep.dir=DIR a sweep's")
    if words := re.match(r"unrecognized arguments: --([\w.]+=\S*)", message):
        raise ConfigError(f"--{words[1]}: a setting has no dashes; write {words[1]}")
    refuse(message)


def only_shows(args: argparse.Namespace) -> bool:
    """Whether the command line requests no job, so that Hydra itself answers."""
    return bool(args.help or args.hydra_help or args.cfg or args.info or args.shell_completion)
