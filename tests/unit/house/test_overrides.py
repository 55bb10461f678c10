"""Systems are made of parts: no class of ``strategies`` overrides what another one does; and whoever does is caught."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import is_dataclass
from inspect import isabstract, isfunction
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import strategies
from strategies.basic.bsp import BSP
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import AllGate, BoundedGate
from strategies.parts.load.shares import SteadyLoad
from strategies.protocol import Strategy

ROOT = Path(__file__).resolve().parents[3]


def modules() -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(strategies.__path__, "strategies."):
        yield importlib.import_module(module.name)


def own_classes() -> list[type]:
    found = {
        value: None
        for module in modules()
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
    }
    return list(found)


def is_interface(cls: type) -> bool:
    return bool(getattr(cls, "_is_protocol", False))


def behaviour(cls: type) -> Iterator[str]:
    """What the class itself does: methods and properties that are not abstract. Python's own hooks are no behaviour of
    the class (``__post_init__`` of a dataclass, ``__init__``, ...), nor is what an interface says about itself."""
    for name, value in vars(cls).items():
        function: Any = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        dunder = name.startswith("__") and name.endswith("__")
        method = (isfunction(function) or isinstance(function, property)) and not dunder
        if method and not getattr(function, "__isabstractmethod__", False) and not is_interface(cls):
            yield name


def is_settings(cls: type) -> bool:
    """Fields alone, which a system has in common with its part."""
    return is_dataclass(cls) and not list(behaviour(cls)) and not hasattr(cls, "__post_init__")


def overridden(cls: type) -> list[str]:
    """Concrete methods of a base class of this project that the class defines again, as ``Base.method``."""
    own = set(vars(cls))
    bases = [base for base in cls.__mro__[1:] if base.__module__.startswith(("strategies", __name__))]
    return [f"{base.__name__}.{name}" for base in bases for name in behaviour(base) if name in own]


def supers(text: str) -> list[int]:
    """Lines with a call of ``super()``."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)] if "super" in text else []
    return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "super"]


def test_no_class_overrides_a_concrete_method() -> None:
    assert {cls.__name__: found for cls in own_classes() if (found := overridden(cls))} == {}


def test_nobody_calls_super() -> None:
    """Where nothing is overridden there is nothing to call."""
    found = {path: supers(path.read_text()) for path in (ROOT / "strategies").rglob("*.py")}
    assert {str(path): lines for path, lines in found.items() if lines} == {}
    assert supers("class A(B):\n    def f(self):\n        return super().f()") == [3]


def test_every_class_is_abstract_or_nobodys_base() -> None:
    """An interface, an abstract class, settings alone, or something that is made: never two of these."""
    bases = {base for cls in own_classes() for base in cls.__bases__ if base.__module__.startswith("strategies.")}
    data = ("strategies.protocol.events", "strategies.protocol.commands")  # tagged structs share their fields
    made = [base for base in bases if base.__module__ not in data and not is_settings(base)]
    assert [base for base in made if not is_interface(base) and not isabstract(base)] == []


def test_a_strategy_is_a_composition_or_decides_alone() -> None:
    """One step from the interface to what is made: systems with parts differ in their parts alone."""
    for cls in own_classes():
        if Strategy in cls.__mro__[1:] and not isabstract(cls):
            assert cls.__bases__[-1] in (Composition, Strategy)
            assert all(map(is_settings, cls.__bases__[:-1])), f"{cls.__name__} has a base that does something"


class Interface(Protocol):
    def handle(self) -> int:
        return 0


class Impatient(BoundedGate):  # type: ignore[misc]
    def arrived(self, grad: Any) -> Any:
        return super().arrived(grad)


class Meddling(Composition):
    def compose(self) -> Parts:
        return Parts(gate=AllGate())

    def handle(self, event: Any) -> Any:  # type: ignore[misc]
        return ()


class Loud(SteadyLoad):
    def split(self, started: Any) -> Any:
        return ()

    @property
    def sizes_of(self) -> int:
        return 0


class Louder(Loud):
    sizes_of = 1  # type: ignore[assignment]


class Answers(Interface):
    def handle(self) -> int:
        return 1


def test_an_override_is_caught_and_what_is_abstract_may_be_filled_in() -> None:
    assert overridden(Impatient) == ["BoundedGate.arrived"]
    assert overridden(Meddling) == ["Composition.handle"]
    assert overridden(Louder) == ["Loud.sizes_of"]
    assert [overridden(cls) for cls in (Loud, Answers, BSP)] == [[]] * 3
