"""Reads pickles as data: strings, numbers, containers and byte arrays. Nothing is imported, called or executed.

A pickle is a program for a stack machine that may name any function. This is a stack machine without functions: the
five names that numpy byte arrays need are symbols here, if arrays are expected, and every other name or instruction is
refused.
"""

from __future__ import annotations

import pickletools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Symbol(NamedTuple):
    """A name that a pickle may refer to."""

    name: str


NEW_ARRAY, ARRAY, DTYPE, ENCODE = Symbol("_reconstruct"), Symbol("ndarray"), Symbol("dtype"), Symbol("encode")
SYMBOLS = {
    "numpy.core.multiarray _reconstruct": NEW_ARRAY,
    "numpy._core.multiarray _reconstruct": NEW_ARRAY,
    "numpy ndarray": ARRAY,
    "numpy dtype": DTYPE,
    "_codecs encode": ENCODE,
}
BYTE_TYPES = ("u1", "|u1")
MARK = object()
KEYS = (str, bytes, int, float, type(None))
MOST_INSTRUCTIONS = 16_000_000
"""Each may make an empty container, which takes 64 bytes."""

VALUES = {
    *("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}
"""Instructions whose argument is the value."""
OLD_STRINGS = {"STRING", "BINSTRING", "SHORT_BINSTRING"}
"""Instructions of Python 2 strings, which are bytes."""
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
IGNORED = {"PROTO", "FRAME"}


class Pending:
    """An array or a type whose content follows."""

    def __init__(self, kind: Symbol, code: str = "") -> None:
        self.kind, self.code = kind, code
        self.array: NDArray[np.uint8] | None = None


def is_pickle(begin: bytes) -> bool:
    """Whether a file begins like a pickle of protocol 2 or later."""
    return begin[:1] == b"\x80" and begin[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def read_pickle(content: bytes, *, arrays: bool = True) -> Any:
    """The object; strings of Python 2 become ``bytes``. Raises ``ValueError`` for anything but plain data.

    ``arrays``: whether byte arrays of numpy are plain data, too.
    """
    machine = _Machine(SYMBOLS if arrays else {})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of escapes in texts that are refused
            for count, (opcode, argument, _) in enumerate(pickletools.genops(content)):
                if count >= MOST_INSTRUCTIONS:
                    raise ValueError(f"has more than {MOST_INSTRUCTIONS:,} instructions, the most that are read")
                machine.step(opcode.name, argument)
        return _finish(machine.stack.pop())
    except (IndexError, KeyError, TypeError) as error:
        raise ValueError(f"is a broken pickle ({error})") from error


class _Machine:
    def __init__(self, symbols: Mapping[str, Symbol]) -> None:
        self.symbols = symbols
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.acts: dict[str, Callable[[Any], None]] = {
            "MARK": lambda _: self.stack.append(MARK),
            "EMPTY_DICT": lambda _: self.stack.append({}),
            "EMPTY_LIST": lambda _: self.stack.append([]),
            "EMPTY_TUPLE": lambda _: self.stack.append(()),
            "DICT": lambda _: self.stack.append(_pairs(self._pop_to_mark())),
            "LIST": lambda _: self.stack.append(self._pop_to_mark()),
            "TUPLE": lambda _: self.stack.append(tuple(self._pop_to_mark())),
            "TUPLE1": lambda _: self._tuple(1),
            "TUPLE2": lambda _: self._tuple(2),
            "TUPLE3": lambda _: self._tuple(3),
            "SETITEM": lambda _: self._set(self._last(2)),
            "SETITEMS": lambda _: self._set(self._pop_to_mark()),
            "APPEND": lambda _: self._extend(self._last(1)),
            "APPENDS": lambda _: self._extend(self._pop_to_mark()),
            "MEMOIZE": lambda _: self._remember(len(self.memo)),
            "GLOBAL": self._name,
            "STACK_GLOBAL": lambda _: self._name(" ".join(self._last(2))),
            "REDUCE": lambda _: self.stack.append(_make(*self._last(2))),
            "BUILD": lambda _: self._fill(*self._last(1)),
            "STOP": lambda _: None,
        }
        for name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.acts[name] = self._remember
        for name in ("GET", "BINGET", "LONG_BINGET"):
            self.acts[name] = lambda key: self.stack.append(self.memo[key])

    def step(self, name: str, argument: Any) -> None:
        if name in VALUES:
            self.stack.append(argument)
        elif name in OLD_STRINGS:
            self.stack.append(argument.encode("latin-1"))
        elif name in CONSTANTS:
            self.stack.append(CONSTANTS[name])
        elif name in self.acts:
            self.acts[name](argument)
        elif name not in IGNORED:
            raise ValueError(f"is a pickle with the instruction {name}, which plain data does not need: refused")

    def _remember(self, key: int) -> None:
        self.memo[key] = self.stack[-1]

    def _last(self, count: int) -> list[Any]:
        taken = self.stack[-count:]
        if len(taken) < count or any(item is MARK for item in taken):
            raise IndexError("too little on the stack")
        del self.stack[-count:]
        return taken

    def _pop_to_mark(self) -> list[Any]:
        taken: list[Any] = []
        while (item := self.stack.pop()) is not MARK:
            taken.append(item)
        return taken[::-1]

    def _tuple(self, count: int) -> None:
        self.stack.append(tuple(self._last(count)))

    def _set(self, flat: list[Any]) -> None:
        if not isinstance(self.stack[-1], dict):
            raise TypeError("items without a dict")
        self.stack[-1].update(_pairs(flat))

    def _extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise TypeError("items without a list")
        self.stack[-1].extend(items)

    def _name(self, name: str) -> None:
        if name not in self.symbols:
            raise ValueError(f"is a pickle that names {name.replace(' ', '.')}, which could execute code: refused")
        self.stack.append(self.symbols[name])

    def _fill(self, state: Any) -> None:
        """Set the state of the last object: an array's is (version, shape, type, Fortran order, bytes)."""
        pending = self.stack[-1]
        if not isinstance(pending, Pending):
            raise TypeError("a state without an array")
        if pending.kind is ARRAY:
            _, shape, dtype, fortran, content = state
            if (
                not isinstance(dtype, Pending)
                or dtype.code not in BYTE_TYPES
                or fortran
                or not isinstance(content, bytes)
            ):
                raise ValueError("holds an array that is not one of bytes in C order: refused")
            pending.array = np.frombuffer(content, dtype=np.uint8).reshape([int(size) for size in shape])


def _pairs(flat: list[Any]) -> dict[Any, Any]:
    if not all(isinstance(key, KEYS) for key in flat[::2]):
        raise TypeError("a key that is a container")  # a tuple that holds itself many times has an endless hash
    return {key: _finish(value) for key, value in zip(flat[::2], flat[1::2], strict=True)}


def _make(kind: Any, arguments: tuple[Any, ...]) -> Any:
    if kind is NEW_ARRAY and arguments[0] is ARRAY:
        return Pending(ARRAY)
    if kind is DTYPE:
        code = arguments[0]
        return Pending(DTYPE, code.decode("ascii") if isinstance(code, bytes) else str(code))
    if kind is ENCODE and arguments[1:] == ("latin1",):
        return arguments[0].encode("latin-1")
    raise ValueError("is a pickle that calls something, which plain data does not need: refused")


def _finish(item: Any) -> Any:
    if not isinstance(item, Pending):
        return item
    if item.array is None:
        raise TypeError("an array without content")
    return item.array
