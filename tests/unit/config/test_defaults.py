"""What a strategy's YAML says is the default of its class, or its comment names that, or it is what the variant is."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from runtime.config.choices import merged
from runtime.config.instantiate import locate

CONF = Path(__file__).resolve().parents[3] / "conf" / "strategy"
VARIANTS = {
    "antdt_nd_asp": {"data"},
    "asp_even": {"data"},
    **{f"coding_{name}": {"scheme"} for name in ("cyclic", "fractional", "group_based", "naive")},
    "composed": {"gate", "load", "detectors", "actions"},
    "lb_bsp_gpu": {"kind"},
    "lb_bsp_star": {"unanimous"},
    "star_ahead": {"pause"},
    "star_h": {"kappa_lr"},
    "star_ml": {"learning"},
    "sync_switch_elastic": {"straggler_policy", "data"},
    "sync_switch_restart": {"switch"},
    "watchdog": {"gate", "load", "detectors", "actions", "decide_every_s"},
}
"""Settings by which a YAML differs from others of the same class, and those that it takes from another section."""


def text_of(value: Any) -> str:
    """A default as YAML has it."""
    if isinstance(value, bool | None):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def as_written(word: str) -> str:
    """A word of a comment; numbers as :func:`text_of` writes them."""
    return f"{float(word):g}" if re.fullmatch(r"\d+(\.\d+)?", word) else word


def target_of(path: Path) -> str:
    """The class of a YAML, or of the one that it changes."""
    return str(merged(path.stem, [path.parent])["_target_"])


def unexplained(text: str, target: str) -> Iterator[str]:
    """Settings whose values are not the defaults of the class, without a comment that names these."""
    settings = yaml.safe_load(text)
    for field in dataclasses.fields(locate(target)):
        made = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        default = list(made) if isinstance(made, tuple) else made
        if field.name not in settings or settings[field.name] == default:
            continue
        lines = re.search(rf"^{field.name}:.*(?:\n +#.*)*", text, re.MULTILINE)
        comment = " ".join(line.partition("#")[2] for line in lines[0].splitlines())
        if text_of(default) not in map(as_written, re.findall(r"[\w.]*\w", comment)):
            yield field.name


def test_a_value_that_is_not_the_default_names_it() -> None:
    for path in CONF.glob("*.yaml"):
        assert set(unexplained(path.read_text(), target_of(path))) <= VARIANTS.get(path.stem, set()), path


def test_an_unexplained_value_is_found() -> None:
    text = "bound: 5  # iterations, 13 elsewhere\ndata: even  # not dynamic\n"
    assert list(unexplained(text, "strategies.basic.ssp.SSP")) == ["bound"]


def undocumented(cls: type) -> set[str]:
    """Fields of which no docstring of the class or of one that it extends has a line of their own."""
    docs = "\n".join(one.__doc__ or "" for one in cls.__mro__ if dataclasses.is_dataclass(one))
    own = set(re.findall(r"^ +(\w+): ", docs, re.MULTILINE))
    return {field.name for field in dataclasses.fields(cls)} - own


def test_a_strategy_documents_every_setting() -> None:
    for target in {target_of(path) for path in CONF.glob("*.yaml")}:
        assert undocumented(locate(target)) == set(), target
    cls = dataclasses.make_dataclass("Silent", [("spoken", int), ("silent", int)])
    cls.__doc__ = "Has settings.\n\n    Attributes:\n        spoken: a number.\n"
    assert undocumented(cls) == {"silent"}
