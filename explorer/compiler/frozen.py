"""Frozen dataclasses that are cheap to define and to make: the compiler has so many that those of the standard library,
which writes and compiles six functions for each, take most of the time in which the compiler is imported.

Here only `__init__` is written; comparing, hashing, printing and refusing assignments are the same few functions for
all classes. Type checkers take `dataclass` for the standard one; `fields` and `replace` work as always.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool, kw_only: bool = False) -> Callable[[type], type]:
        """As `dataclasses.dataclass(frozen=True)`; fields may have defaults, but no factories."""
        assert frozen

        def define(plain: type) -> type:
            made = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(plain)
            compared = [field.name for field in dataclasses.fields(made) if field.compare]
            made._compared = attrgetter(*compared) if compared else type
            made.__init__ = _init(made, kw_only)
            made.__eq__, made.__hash__, made.__repr__ = _equal, _hash, _repr
            made.__setattr__ = made.__delattr__ = _refuse
            return made

        return define


def _init(made: type, kw_only: bool) -> Callable[..., None]:
    """The function that fills an instance: the one that is written for each class."""
    fields = dataclasses.fields(made)
    defaults = {f"default_{field.name}": field.default for field in fields}
    wanted = [
        field.name + (f"=default_{field.name}" if field.default is not dataclasses.MISSING else "") for field in fields
    ]
    head = ", ".join(["self", *(["*"] if kw_only and fields else []), *wanted])
    values = ", ".join(f"{field.name!r}: {field.name}" for field in fields)
    namespace: dict[str, Any] = {"put": object.__setattr__, **defaults}
    exec(f"def __init__({head}):\n  put(self, '__dict__', {{{values}}})", namespace)
    written: Callable[..., None] = namespace["__init__"]
    written.__qualname__ = f"{made.__qualname__}.__init__"
    return written


def _equal(self: Any, other: object) -> Any:
    if self is other:
        return True
    if type(self) is not type(other):
        return NotImplemented
    compared: Callable[[Any], Any] = type(self)._compared  # type: ignore[attr-defined]
    return compared(self) == compared(other)


def _hash(self: Any) -> int:
    return hash(type(self)._compared(self))


def _repr(self: Any) -> str:
    values = ", ".join(
        f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
    )
    return f"{type(self).__qualname__}({values})"


def _refuse(self: Any, name: str, *value: Any) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field '{name}'")
