"""The file that holds a fitted network: its numbers, its inputs, and the command that made it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from predictors.fitted_file import FITTED, FittedKind, read_fitted
from predictors.network import Network

FORMAT = "stragglab-network-1"
CURE = "fit one with scripts/fitting/train_modes.py"


class FittedNetwork(NamedTuple):
    """A network, its targets in words, the command that made it, and the name of its file in records."""

    network: Network
    about: str
    command: str
    known_as: str


def network_bytes(network: Network, features: Sequence[str], about: str, command: str) -> bytes:
    """The content of a file.

    Args:
        network: fitted.
        features: names of the columns of its inputs.
        about: its targets in words, such as the settings under which they were computed.
        command: how it was made.
    """
    content = io.BytesIO()
    told: dict[str, Any] = {"format": FORMAT, "features": np.array(list(features)), "about": about, "command": command}
    np.savez_compressed(content, **(told | network.arrays()))
    return content.getvalue()


@lru_cache(maxsize=8)
def load_network(path: str, name: str, features: tuple[str, ...]) -> FittedNetwork:
    """The network in a file, or the one called ``name`` that comes along (an empty ``path``); not to be changed.

    Raises:
        ValueError: there is no such file, it holds something else, or a network of other features; in one line that
            starts with ``weights=``.
    """
    place = Path(path) if path else FITTED / f"{name}.npz"
    found, known_as = read_fitted(place, FittedKind("a network", FORMAT, "train_modes.py"), CURE)
    given = tuple(str(one) for one in found.get("features", ()))
    if given != features:
        raise ValueError(f"weights={place}: is a model of {difference(given, features)}; {CURE}")
    try:
        network = Network.of_arrays(found)
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise ValueError(f"weights={place}: has not the numbers of a fitted network ({error}); {CURE}") from None
    if network.sizes[0] != len(features):
        raise ValueError(f"weights={place}: has {network.sizes[0]} inputs for {len(features)} features; {CURE}")
    return FittedNetwork(network, str(found.get("about", "")), str(found.get("command", "")), known_as)


def difference(given: Sequence[str], wanted: Sequence[str]) -> str:
    """The first feature that two models do not have in common, in words."""
    only = [one for one in given if one not in wanted]
    lacking = [one for one in wanted if one not in given]
    first = f"{len(given)} features instead of {len(wanted)}"
    if only:
        return f"{first}, among them {only[0]!r}"
    return f"{first}, without {lacking[0]!r}" if lacking else f"{first}, in another order"
