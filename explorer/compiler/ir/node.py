"""What every IR shares: where a node comes from, and how to walk and rewrite trees of nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, fields
from functools import wraps
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeVar

from explorer.compiler.frozen import dataclass, replace

Extent = str | int
"""A dimension: the name of a declared size, or a number."""

Atom = str | int | float
"""An operand from the loops on: a name, an index constant (int) or an f32 constant (float)."""

Unit = Literal["", "access", "execute"]

Level = Literal["", "L2", "LLC", "HBM"]
"""The cache, or the memory, that a decoupled load goes to first; "" is where loads go anyway, the last-level cache."""


class Span(NamedTuple):
    """A piece of the model text; lines and columns count from 1, the end is exclusive. Origins are sorted and hashed
    all the time: as a tuple it is what that takes least for."""

    line: int
    column: int
    end_line: int
    end_column: int


class Made(NamedTuple):
    """What no single operation of the model asked for, but a pass made: `group the rows by r`, made `by` schedule."""

    name: str
    by: str


Origin = tuple[Span | Made, ...]
"""First the primary: the one operation of the model text that a node computes, or what a pass made it for where it
serves several. Then, sorted, the operations that contribute: they are fused into it, or it is there for them too.
Empty: it computes nothing."""


class Line(NamedTuple):
    """A line of a printed stage, with the operations it comes from and, once decoupled, its unit. A compilation makes
    thousands, so it is what is made fastest."""

    text: str
    origin: Origin = ()
    unit: Unit = ""


@dataclass(frozen=True, kw_only=True)
class Node:
    """The base of all IR nodes. Two nodes are equal whatever their origins."""

    origin: Origin = field(compare=False)


AnyNode = TypeVar("AnyNode", bound=Node)
Result = TypeVar("Result")


def merge(own: Origin = (), *others: Origin) -> Origin:
    """An origin with what others add to it: its primary stays, and all their operations contribute. In the place of one
    that is empty stands the first that is not."""
    different = {id(origin): origin for origin in (own, *others) if origin}
    if len(different) < 2:
        return next(iter(different.values()), ())
    primary = next(iter(different.values()))[0]
    return (primary, *sorted(operations_of(*different.values()) - {primary}))


def operations_of(*origins: Origin) -> set[Span]:
    """The operations of the model text in origins, primary or contributing."""
    found: set[Any] = set().union(*origins)
    return found - {origin[0] for origin in origins if origin and isinstance(origin[0], Made)}


def same_operations(one: Origin, other: Origin) -> bool:
    """Whether the same operations are computed or contribute, whichever of them is the primary."""
    return one is other or one == other or operations_of(one) == operations_of(other)


def serving(name: str, by: str, origins: Iterable[Origin], own: Iterable[Origin] = ()) -> Origin:
    """The origin of what serves others: their primary where they, or the `own` among them, have only one, else what the
    pass `by` made it for."""
    origins, own = tuple(origins), tuple(own)
    primaries = {origin[0] for origin in own or origins if origin}
    return merge((primaries.pop(),) if len(primaries) == 1 else (Made(name, by),), *origins)


def made(name: str, by: str, *origins: Origin) -> Origin:
    """The origin of what a pass makes for operations of which none is the one that it computes."""
    return (Made(name, by), *sorted(operations_of(*origins)))


def _members(node_class: type[Node]) -> tuple[str, ...]:
    """The fields of a class that may hold nodes, by their annotations."""
    if node_class not in _MEMBERS:
        _MEMBERS[node_class] = tuple(
            member.name
            for member in fields(node_class)
            if member.name != "origin" and not set(re.findall(r"\w+", str(member.type))) <= PLAIN
        )
    return _MEMBERS[node_class]


_MEMBERS: dict[type, tuple[str, ...]] = {}
PLAIN = frozenset({"str", "int", "float", "bool", "None", "tuple", "Atom", "Extent", "Shape"})
"""Words of the annotations of fields that hold no nodes; a walk need not look into those."""


def walk(node: Node) -> Iterator[Node]:
    """The node and all nodes below it, in program order."""
    return chain((node,), _below(node))


def _below(node: Node) -> tuple[Node, ...]:
    """All nodes below one, kept with it: dozens of passes look through the same programs."""
    kept: tuple[Node, ...] | None = node.__dict__.get("_below")
    if kept is None:
        found: list[Node] = []
        for name in _members(type(node)):
            value = getattr(node, name)
            children = value if isinstance(value, tuple) else (value,)
            for child in children:
                if isinstance(child, Node):
                    found.append(child)
                    if _MEMBERS.get(type(child)) != ():  # a leaf has nothing below
                        found += _below(child)
        kept = node.__dict__["_below"] = tuple(found)
    return kept


def rewrite(node: AnyNode, change: Callable[[Any], Any]) -> AnyNode:
    """The tree with `change` applied to every node, children first."""
    changes: dict[str, Any] = {}
    for name in _members(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            changes[name] = rewrite(value, change)
        elif isinstance(value, tuple) and any(isinstance(child, Node) for child in value):
            changes[name] = tuple(rewrite(child, change) if isinstance(child, Node) else child for child in value)
    changed: AnyNode = change(replace(node, **changes) if changes else node)
    return changed


def once(compute: Callable[[AnyNode], Result]) -> Callable[[AnyNode], Result]:
    """A function of a node that is computed once for each node object: passes hand on what they did not change."""
    key = f"_{compute.__module__}.{compute.__qualname__}"

    @wraps(compute)
    def kept(node: Any) -> Any:
        known = node.__dict__
        result = known.get(key, _ITSELF)
        if result is not _ITSELF:
            return result
        if key in known:
            return node
        result = compute(node)
        known[key] = _ITSELF if result is node else result  # what holds itself is not let go at once
        return result

    return kept


_ITSELF = object()


class Names:
    """Allocates names that are unique in a program: `u`, `u1`, `u2`, ..."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}
        self._given: list[tuple[str, str, str, int]] = []

    def new(self, hint: str) -> str:
        """The hint itself where it is free, else its letters with the next free number."""
        name, letters = hint, hint.rstrip("0123456789")
        before = self._numbers.get(letters, 0)
        while name in self._taken:
            self._numbers[letters] = self._numbers.get(letters, 0) + 1
            name = f"{letters}{self._numbers[letters]}"
        self._taken.add(name)
        self._given.append((hint, name, letters, before))
        return name

    def copy(self) -> Names:
        """Another allocator, that gives what this one would give now."""
        again = Names(self._taken)
        again._numbers.update(self._numbers)
        return again

    def mark(self) -> int:
        """How many names have been given so far."""
        return len(self._given)

    def since(self, mark: int) -> tuple[tuple[str, str], ...]:
        """The names that were given since, each behind the hint that it was given for."""
        return tuple((hint, name) for hint, name, _, _ in self._given[mark:])

    def again(self, given: Sequence[tuple[str, str]]) -> bool:
        """Gives names that were given before; gives none, and says so, where one is no more what its hint is given."""
        mark = self.mark()
        if all(self.new(hint) == name for hint, name in given):
            return True
        self.back_to(mark)
        return False

    def back_to(self, mark: int) -> None:
        """Frees the names that were given since, for what they name has been given up."""
        while len(self._given) > mark:
            _, name, letters, before = self._given.pop()
            self._taken.discard(name)
            self._numbers[letters] = before


class VerificationError(Exception):
    """A program that breaks a rule of its IR: a defect of a pass, never of the model."""
