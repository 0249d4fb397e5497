"""Frozen dataclasses that are cheap to define and to make: the compiler has hundreds, and those of the standard
library, which writes and compiles six functions for each, take half the time in which the compiler is imported.

Here only `__init__` is written, when the first instance is made; comparing, hashing, printing and refusing assignments
are the same few functions for all classes. Type checkers take `dataclass` for the standard one; `fields` and `replace`
work as always.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
else:

    def replace(instance: Any, /, **changes: Any) -> Any:
        """As `dataclasses.replace`, but for the classes of this module without a call of `__init__`, in a half to two
        thirds of the time: thousands of statements are edited for a program. What is kept with an instance beside its
        fields is not handed on."""
        made = type(instance)
        names = getattr(made, "_plain", None)
        if names is None:
            return dataclasses.replace(instance, **changes)
        known = instance.__dict__
        values = known.copy() if len(known) == len(names) else {name: known[name] for name in names}
        values.update(changes)
        if len(values) > len(names):
            raise TypeError(f"{made.__qualname__} has no {', '.join(changes.keys() - set(names))}")
        changed = object.__new__(made)
        object.__setattr__(changed, "__dict__", values)
        return changed

    def dataclass(*, frozen: bool, kw_only: bool = False, eq: bool = True) -> Callable[[type], type]:
        """As `dataclasses.dataclass(frozen=True)`."""
        assert frozen

        def define(plain: type) -> type:
            plain.__doc__ = plain.__doc__ or plain.__name__  # else the standard library writes down a signature
            made = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(plain)
            made.__init__ = _first_init(made)
            filled = all(field.init for field in dataclasses.fields(made)) and not hasattr(made, "__post_init__")
            made._plain = tuple(field.name for field in dataclasses.fields(made)) if filled else None
            _define(made, __repr__=_repr, __setattr__=_refuse, __delattr__=_refuse)
            if eq:
                compared = [field.name for field in dataclasses.fields(made) if field.compare]
                made._compared = attrgetter(*compared) if compared else type
                _define(made, __eq__=_equal, __hash__=_hash)
            return made

        return define


def _define(made: type, **functions: Any) -> None:
    """Gives a class functions, but those that it has of its own."""
    for name, function in functions.items():
        if made.__dict__.get(name) is None:  # a class that says what is equal has a `__hash__` that is none
            setattr(made, name, function)


def _first_init(made: type) -> Callable[..., None]:
    """An `__init__` that is there until the first instance is made, then the one that is written for the class."""

    def first(self: Any, *values: Any, **named: Any) -> None:
        init = _init(made)
        made.__init__ = init  # type: ignore[misc]
        init(self, *values, **named)

    return first


def _init(made: type) -> Callable[..., None]:
    """The function that fills an instance: the one that is written for each class."""
    fields = dataclasses.fields(made)
    namespace: dict[str, Any] = {"put": object.__setattr__, "MISSING": dataclasses.MISSING}
    parameters: dict[bool, list[str]] = {False: [], True: []}  # by whether they are given by name alone
    values = []
    for field in fields:
        default, value = "", field.name
        if field.default is not dataclasses.MISSING:
            namespace[f"default_{field.name}"] = field.default
            default = f"=default_{field.name}"
        elif field.default_factory is not dataclasses.MISSING:
            namespace[f"make_{field.name}"] = field.default_factory
            default, value = "=MISSING", f"make_{field.name}() if {field.name} is MISSING else {field.name}"
        if field.init:
            parameters[bool(field.kw_only)].append(field.name + default)
        elif field.default_factory is not dataclasses.MISSING:
            value = f"make_{field.name}()"
        values.append(f"{field.name!r}: {value}")
    head = ", ".join(["self", *parameters[False], *(["*", *parameters[True]] if parameters[True] else [])])
    then = "; self.__post_init__()" if hasattr(made, "__post_init__") else ""
    exec(f"def __init__({head}):\n  put(self, '__dict__', {{{', '.join(values)}}}){then}", namespace)
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
