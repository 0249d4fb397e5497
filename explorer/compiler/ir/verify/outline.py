"""The outline of a kernel: all that its rules go by, without what they do not read.

Two kernels with the same outline differ in what things are called and in numbers that are only computed with, so that
one keeps the rules where the other does. An edit of a name, or of a constant, changes no outline.

- Rules read of a name whether it is another one: in an outline it is the number of its first occurrence. Where a name
  itself says something (`node_ends` counts `nodes`; `_i` stands for any index in a fact), that is told beside it, or it
  stays as it is.
- Of a number that is computed with, rules read whether a sum or a product begins there. All integers stay, and so do
  numbers that go into arrays of indices: what an index may be comes from these.
- Of an origin, rules read whether there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from hashlib import sha256
from math import isfinite
from operator import attrgetter
from typing import Any, NamedTuple
from unicodedata import normalize

from explorer.compiler.ir.facts import WORD, Fact
from explorer.compiler.ir.index_sets import ENDS, counted
from explorer.compiler.ir.kernels import Count, ScheduledKernel, Tile
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.node import Node, once, walk

AS_IT_IS = frozenset(
    {"bind", "comparison", "function", "kind", "level", "memory", "precision", "reduction", "storage", "type"}
    | {"apart", "columns", "copies", "depth", "lanes", "padding", "rows", "step", "swizzled", "threads", "unroll"}
    | {"warps", "width"}
)
"""The fields of nodes that hold words of the IR, numbers and whether something is so."""
NAMES = frozenset(
    {"buffer", "column", "kept", "left", "lower", "name", "parts", "result", "right", "target", "upper", "value"}
    | {"variable"}
)
"""Those that hold a name, or a number in its place."""
ROWS_OF_NAMES = frozenset(
    {"buffer_indices", "checked", "extents", "indices", "left_indices", "right_indices", "streamed"}
)
"""Those that hold several."""
NESTED = frozenset({"body", "buffers", "counts", "extent", "sizes", "terms", "times"})
"""Those that hold nodes, and what is made of names and numbers."""
COMPUTED = frozenset({"operands", "start"})
"""Those that hold what is computed with: names and numbers."""
UNREAD: Mapping[type, frozenset[str]] = {
    Buffer: frozenset({"sharing"}),
    ScheduledKernel: frozenset({"busy", "chosen", "facts", "name", "once", "resident", "schedule", "template"}),
}
"""What no rule reads of an array, and of a kernel; where facts matter they are told besides."""
BEGINNINGS = (0.0, 1.0)
"""The numbers that a sum and a product begin with."""
PRINTED_NUMBERS = frozenset({"inf", "nan"})
"""Names that look like numbers where these are printed."""


class Numbered(dict[str, str]):
    """What stands for names in an outline, from where each is first asked for."""

    def __missing__(self, name: str) -> str:
        if not name.isidentifier() or name.startswith("_") or name in PRINTED_NUMBERS:
            return self.setdefault(name, f"'{name}")
        told = self[name] = f"~{len(self)}"
        return f"{told} ends {self[counted(name)]}" if name.endswith(ENDS) else told


class Outline:
    """A kernel's outline: its `digest`, and what stands for its names."""

    def __init__(self, kernel: ScheduledKernel) -> None:
        self.numbered = Numbered()
        tiles = (node for node in walk(kernel) if isinstance(node, Tile))
        arrays: tuple[Buffer | Tile, ...] = (*kernel.buffers, *tiles)
        told = _Told(self.numbered, {array.name for array in arrays if array.type == "i32"})
        told.add_node(kernel)
        self.digest = told.digest()

    def with_more(self, *facts: Sequence[Fact], known: tuple[object, ...]) -> tuple[bytes, Numbered]:
        """The digest of the outline with facts, whatever they are said for, and with what else is known, in numbers and
        names; and what stands for all names."""
        told = _Told(Numbered(self.numbered), set())
        for each in facts:
            told.add_facts(each)
        told.add(known)
        return self.digest + told.digest(), told.numbered


@once
def outline(kernel: ScheduledKernel) -> Outline:
    """The outline of a kernel."""
    return Outline(kernel)


class _Fields(NamedTuple):
    """The fields of a class that an outline tells, by what they hold."""

    as_it_is: Callable[[object], object]
    names: tuple[str, ...]
    rows_of_names: tuple[str, ...]
    computed: tuple[str, ...]
    nested: tuple[str, ...]


@cache
def fields_of(of_class: type) -> _Fields:
    """The fields of a class that an outline tells. Raises TypeError for one of which it is not said above how."""
    unread = UNREAD.get(of_class, frozenset()) | {"origin"}
    own = [field.name for field in fields(of_class) if field.name not in unread]
    kinds = (AS_IT_IS, NAMES, ROWS_OF_NAMES, COMPUTED, NESTED)
    unknown = sorted(set(own).difference(*kinds))
    if unknown:
        raise TypeError(f"what rules read in {', '.join(unknown)} of {of_class.__name__} is not said")
    as_it_is, *others = (tuple(name for name in own if name in kind) for kind in kinds)
    return _Fields(attrgetter(*as_it_is) if as_it_is else _nothing, *others)


class _Told:
    """What an outline tells, in order: `shape` has nodes with their fields, and how many atoms each has, which `atoms`
    has in a row. So all can be had again from both, but for what numbers leave out."""

    def __init__(self, numbered: Numbered, indices: set[str]) -> None:
        self.numbered = numbered
        self._indices = indices  # the arrays of indices
        self._shape: list[object] = []
        self._atoms: list[object] = []

    def digest(self) -> bytes:
        """What tells this outline from any other."""
        numbered = self.numbered
        atoms = [numbered[atom] if type(atom) is str else atom for atom in self._atoms]
        return sha256(repr((self._shape, atoms)).encode()).digest()

    def add(self, value: object) -> None:
        """Tells a value."""
        match value:
            case Node() | Count():
                self.add_node(value)
            case tuple():
                self._shape.append(len(value))
                for each in value:
                    self.add(each)
            case _:
                self._shape.append("")
                self._atoms.append(value)

    def add_node(self, node: Node | Count) -> None:
        """Tells a node, and whether it has an origin."""
        of_class: type = type(node)
        as_it_is, names, rows_of_names, computed, nested = fields_of(of_class)
        shape, atoms, known = self._shape, self._atoms, node.__dict__
        shape += (of_class.__name__, not known.get("origin"), as_it_is(node))
        for field in names:
            atoms.append(known[field])
        for field in rows_of_names:
            row = known[field]
            shape.append(len(row))
            atoms += row
        for field in computed:
            self._add_computed(known[field], known.get("target") in self._indices)
        for field in nested:
            self.add(known[field])

    def _add_computed(self, operands: Any, are_indices: bool) -> None:
        """Tells what is computed with, and of numbers that are no indices only whether something begins there."""
        row = operands if type(operands) is tuple else (operands,)
        self._shape.append(len(row))
        self._atoms += row if are_indices else map(_known_of, row)

    def add_facts(self, facts: Sequence[Fact]) -> None:
        """Tells what facts say: their texts, with what stands for the words in these."""
        self._shape.append(len(facts))
        for fact in facts:
            shape, words = _words_of(fact.text)
            self._shape.append(shape)
            self._atoms += words


@lru_cache(maxsize=4_096)  # every kernel of a program has the same of them
def _words_of(text: str) -> tuple[str, list[str]]:
    """The text of a fact without its words, and these, as its names are read."""
    plain = normalize("NFKC", text)
    return WORD.sub("@", plain), WORD.findall(plain)


def _known_of(operand: object) -> object:
    """What rules know of something that is computed with."""
    is_unread = type(operand) is float and operand not in BEGINNINGS and isfinite(operand)
    return None if is_unread else operand


def _nothing(_: object) -> tuple[()]:
    """What is told as it is of classes without such fields."""
    return ()
