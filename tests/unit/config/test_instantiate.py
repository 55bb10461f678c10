"""Only classes of the allow-list are built, and their fields are checked against their types."""

from __future__ import annotations

import functools
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from reading.plain import parse_yaml
from runtime.config.instantiate import ALLOW_VARIABLE, instantiate, is_allowed, locate
from runtime.config.roles import ROLES, refuse_role, refuse_room
from runtime.errors import ConfigError
from runtime.house import ROOT

PLUGIN = """
from __future__ import annotations

from dataclasses import dataclass
from os import system
from subprocess import Popen
from typing import Any, Literal

import msgspec

class Profile(msgspec.Struct, frozen=True):
    base_s: float
    per_sample_s: float = 0.0

@dataclass(kw_only=True)
class Wheel:
    spokes: int = 32

@dataclass(kw_only=True)
class Cart:
    wheels: list[Wheel]
    load_kg: float = 1.0
    profile: Profile | None = None
    colour: Literal["red", "blue"] = "red"
    extras: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.load_kg < 0:
            raise ValueError(f"load_kg={self.load_kg}: must be 0 or more")
        if self.load_kg == 99:
            raise ValueError("load_kg is unlucky")
        if self.load_kg == 100:
            raise ValueError("the cart\\n breaks down")

class Plain:
    def __init__(self, size: int, **rest: Any) -> None:
        self.size, self.rest = size, rest
"""


@pytest.fixture(autouse=True)
def carts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A user's package ``depot``, allowed by name."""
    (tmp_path / "depot").mkdir()
    (tmp_path / "depot" / "carts.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(ALLOW_VARIABLE, " other., depot ")
    yield importlib.import_module("depot.carts")
    for name in ("depot.carts", "depot"):
        sys.modules.pop(name, None)


def cart(**fields: Any) -> dict[str, Any]:
    return {"_target_": "depot.carts.Cart", "wheels": [], **fields}


def test_nested_specs_are_built_first(carts: Any) -> None:
    wheel = {"_target_": "depot.carts.Wheel"}
    built = instantiate(cart(wheels=[wheel, {**wheel, "spokes": 24}], extras={"spare": wheel}))
    assert built == carts.Cart(wheels=[carts.Wheel(), carts.Wheel(spokes=24)], extras={"spare": carts.Wheel()})
    assert instantiate(cart(profile={"base_s": 1})).profile == carts.Profile(base_s=1.0)
    plain = instantiate({"_target_": "depot.carts.Plain", "size": 3, "more": [1, {"deep": None}]})
    assert (plain.size, plain.rest) == (3, {"more": [1, {"deep": None}]}), "arguments without types are passed on"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lod_kg": 1}, "cart.lod_kg: no such setting; did you mean cart.load_kg?"),
        ({"xyzzy": 1}, "cart.xyzzy: no such setting (colour, extras, load_kg, profile, wheels)"),
        ({"load_kg": "1e3"}, "cart.load_kg=1e3: must be a number"),
        ({"load_kg": True}, "cart.load_kg=true: must be a number"),
        ({"load_kg": -1}, "cart.load_kg=-1.0: must be 0 or more"),
        ({"load_kg": 99}, "cart.load_kg=99.0: is unlucky"),
        ({"load_kg": 100}, "cart: the cart breaks down"),
        ({"colour": "green"}, "cart.colour=green: must be one of blue, red"),
        ({"profile": {"base_s": 1, "per_smple_s": 1}}, "did you mean cart.profile.per_sample_s?"),
        ({"profile": {}}, "cart.profile.base_s: missing"),
        ({"profile": 3}, "cart.profile=3: must be settings or null"),
        ({"wheels": 3}, "cart.wheels=3: must be a list"),
        ({"wheels": [{"_target_": "depot.carts.Wheel", "spoke": 3}]}, "did you mean cart.wheels[0].spokes?"),
        ({"_partial_": True}, "cart._partial_: no such setting"),
    ],
)
def test_wrong_fields(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        instantiate(cart(**fields), "cart")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("os.system", "not below strategies."),
        ("subprocess.Popen", "not below strategies."),
        ("strategiesx.bsp.BSP", "not below strategies."),
        ("", "not below strategies."),
        ("strategies.basic.bsp.BSP()", "not below strategies."),
        ("depot.carts.system", "has no class system"),  # a function: not a class
        ("depot.carts.Popen", "is defined in subprocess, which is not allowed"),
        ("depot.carts.msgspec.Struct", "there is no module depot.carts.msgspec"),
        ("strategies.basic.ssp.SPP", "strategies.basic.ssp has no class SPP; did you mean SSP?"),
        ("runtime.config.instantiate.importlib.import_module", "there is no module runtime.config.instantiate.impo"),
    ],
)
def test_targets_outside_the_list_are_never_executed(
    target: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.system", lambda *_: pytest.fail("executed"))
    with pytest.raises(ConfigError, match=re.escape(message)):
        instantiate({"_target_": target, "command": "true"}, "x")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"_target_": "depot.carts.Cart"}, "cart.wheels: missing"),
        (
            cart(extras={"evil": {"_target_": "os.system", "command": "true"}}),
            "cart.extras.evil._target_=os.system: not",
        ),
        *[(spec, "cart: has no _target_") for spec in ({}, {"_target_": None}, {"_target_": 3})],
    ],
)
def test_what_is_missing_or_nested_is_held_to_the_list_too(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(said)}"):
        instantiate(spec, "cart")


def test_the_allowance_is_for_whole_package_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for allowed, depot in ((" other., depot ", True), (",,", False), ("", False)):
        monkeypatch.setenv(ALLOW_VARIABLE, allowed)
        assert [is_allowed(name) for name in ("depot.carts.Cart", "os.system")] == [depot, False]
    assert is_allowed("strategies.basic.bsp.BSP")


@pytest.fixture
def built(carts: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the classes whose constructors were called."""
    called: list[str] = []
    for cls in (carts.Wheel, carts.Cart):
        signed = functools.wraps(cls.__init__)  # type: ignore[misc]
        monkeypatch.setattr(cls, "__init__", signed(lambda self, *_, **__: called.append(type(self).__name__)))
    return called


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"_target_": "depot.carts.Wheel"}, "strategy", "strategy._target_=depot.carts.Wheel: is not a strategy (it"),
        ({"_target_": "depot.carts.Wheel"}, "straggler", "is not a straggler pattern (it has no plan)"),
        (cart(wheels=[cart()]), "cart", "cart.wheels[0]._target_=depot.carts.Cart: must be Wheel"),
        (cart(profile={"_target_": "depot.carts.Wheel"}), "cart", "must be Profile"),
        (cart(colour={"_target_": "depot.carts.Wheel"}), "cart", "must be a plain value"),
        (cart(gone={"_target_": "depot.carts.Wheel"}), "cart", "cart.gone: no such setting"),
    ],
)
def test_nothing_is_built_that_is_no_such_thing(
    spec: dict[str, Any], path: str, message: str, built: list[str]
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        instantiate(spec, path)
    assert built == []


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"_target_": "workloads.digits.Digits"}, "strategy", "is not a strategy; those are below strategies"),
        ({"_target_": "runtime.live.tasks.cold.Nothing"}, "jobs", "is not a source of jobs; those are below injectors"),
        *[
            (
                {"_target_": "strategies.parts.composed.Composed", "gate": {"_target_": gate}},
                "strategy",
                f"={gate}: {said}",
            )
            for gate, said in (
                ("runtime.core.ledger.GradientLedger", "cannot be a part of strategy"),
                ("strategies.basic.bsp.BSP", "must be Gate"),
            )
        ],
    ],
)
def test_modules_of_other_rooms_are_not_imported(
    spec: dict[str, Any], path: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.import_module

    def import_module(name: str) -> Any:
        assert name.startswith("strategies.")
        return real(name)

    monkeypatch.setattr("runtime.config.instantiate.importlib.import_module", import_module)
    with pytest.raises(ConfigError, match=re.escape(message)):
        instantiate(spec, path)


@pytest.mark.parametrize("section", ROLES)
def test_our_own_classes_are_of_their_roles(section: str) -> None:
    names = set[str]()
    for path in (ROOT / "conf" / section.partition(".")[0]).glob("*.yaml"):
        content = parse_yaml(path.read_bytes())
        content = content.get("task", {}) if section == "workload.task" else content
        names.update([content["_target_"]] if "_target_" in content else [])
    for name in names:
        refuse_room(name, section, None)
        refuse_role(locate(name), name, section, Any)
