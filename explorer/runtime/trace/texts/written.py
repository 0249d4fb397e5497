"""What is written of a trace: a text, and what its names are of the module's tensors and ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from explorer.runtime.trace.joins.joined import Fetched, Joined, Mixed, Placed, Typed, sources_of, stacks_of
from explorer.runtime.trace.joins.kinds import Kinds
from explorer.runtime.trace.tapes.examples import rows_told
from explorer.runtime.trace.tapes.recorded import Given
from explorer.runtime.trace.tapes.tape import Where
from explorer.runtime.trace.values.expressions import Node, walk
from explorer.runtime.trace.values.tensors import NO_ROWS

OWN = "each element's own"
"""In the place of a map's name: an element's own number."""


def number_of(of: str) -> str:
    """Under which name, beside ids, it is how many elements a set has."""
    return f"number of {of}"


class Rows(NamedTuple):
    """Where it is told how many rows a set has: a dimension of the tensor of a place; the number that this is, where it
    is NO_ROWS; or the largest of ids and one, of an `end` of a graph's."""

    place: str
    dim: int
    end: int | None = None

    def count(self, tensors: Mapping[str, Any]) -> int:
        """How many there are, of tensors by place."""
        tensor = tensors[self.place]
        if self.end is not None:
            return rows_told(tensors, (self.place, self.end))
        return int(tensor if self.dim == NO_ROWS else tensor.shape[self.dim])


class Result(NamedTuple):
    """The shape of one of the module's results on the example, and the dimension that its rows are, NO_ROWS where none
    is."""

    shape: tuple[int, ...]
    set_at: int


@dataclass(frozen=True)
class Written:
    """A text. `ids` says by which name the compiled module takes which map ("" for none), `tensors` which tensors it
    has, and whether they are tables; `results` are in the text's order; `counted` is a tensor with a row for each node,
    or where there is none `counted_ids` a map with an id, and where that is none either ids say how many; `typed` are
    sets whose edges or rows are of types that a loop gave them, and `homes` what the sets of rows are of a graph: node,
    edge or group; `numbers` are the tensors of what depends
    on ids alone, with the dimension that their rows are;
    `counts` are by set of nodes, or of groups of them, the arguments that say how many there are;
    `lines` are, by line of the text, the user's lines that ask for what it computes; `sizes` are, by set that kinds of
    nodes or edges are, where it is told how many rows it has."""

    text: str
    family: str
    ids: Mapping[str, str]
    tensors: Mapping[str, bool]
    results: tuple[Result, ...]
    counted: str = ""
    typed: tuple[Typed, ...] = ()
    homes: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[frozenset[Where], ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    counted_ids: str = ""
    sizes: Mapping[str, tuple[Rows, ...]] = field(default_factory=dict)
    counts: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def counted_by_ids(self) -> dict[str, str]:
        """By set, the arguments for which what ids are made of says how many there are."""
        told = bool(self.counted or self.counted_ids) or any(isinstance(each, Kinds) for each in self.typed)
        return {of: name for of, name in self.counts.items() if self.homes[of] == "group" or not told}

    def extents(self, ids: Mapping[str, Any], nodes: int) -> dict[str, int]:
        """How many nodes there are, and groups of them, as the compiled layer's arguments."""
        return {
            name: nodes if self.homes[of] == "node" else int(ids[number_of(of)]) for of, name in self.counts.items()
        }

    @cached_property
    def own(self) -> Mapping[str, bool]:
        """The tensors that a module, or a call, has itself: neither made of others nor of ids."""
        made = {*stacks_of(self.typed), *self.made_of_ids, *self.padded}
        return {name: table for name, table in self.tensors.items() if name not in made}

    @cached_property
    def made_of_ids(self) -> set[str]:
        """The tensors that count edges or tell whose they are, and those of numbers that depend on ids alone."""
        made = set(self.numbers)
        for each in self.typed:
            made |= set(each.counts) if isinstance(each, Joined) else set[str]()
            made |= set(each.own) if isinstance(each, Mixed | Kinds) else set[str]()
        return made

    @cached_property
    def padded(self) -> Mapping[str, tuple[str, ...]]:
        """The tensors that are made of others' rows, with those."""
        return {name: sources for each in self.typed for name, sources in sources_of(each).items()}

    def lengths(self, whole: Mapping[str, Any]) -> dict[str, int]:
        """How many rows each kind has, of what ids are made of, by place. Raises ValueError where inputs of one kind
        have other numbers of rows."""
        found = {of: [rows.count(whole) for rows in places] for of, places in self.sizes.items()}
        for of, lengths in found.items():
            if len(set(lengths)) > 1:
                names = ", ".join(rows.place for rows in self.sizes[of])
                raise ValueError(
                    f"{names} had as many rows in the example, and have {lengths}: trace with an example where kinds "
                    "differ in their numbers."
                )
        return {of: lengths[0] for of, lengths in found.items()}

    def of_results(self, results: Iterable[Any], ids: Mapping[str, Any], lengths: Mapping[str, int]) -> Iterable[Any]:
        """The module's results, of the text's."""
        for each in reversed(self.typed):  # the last of them made the text
            if isinstance(each, Mixed):
                results = each.of_results(ids, results)
            if isinstance(each, Kinds):
                results = each.of_results(results, lengths)
        return results

    def with_padded(
        self, ids: Mapping[str, Any], tensors: Mapping[str, Any], lengths: Mapping[str, int]
    ) -> dict[str, Any]:
        """The text's tensors, of which those are made of others."""
        found = dict(tensors)
        for each in self.typed:
            if isinstance(each, Kinds):
                found |= each.with_rows(found, lengths)
            if isinstance(each, Mixed | Fetched):
                found |= each.with_rows(ids, tensors)
        return {name: found[name] for name in self.tensors}

    def nodes(self, ids: Mapping[str, Any], tensors: Mapping[str, Any], lengths: Mapping[str, int]) -> int:
        """How many nodes a call's graph has; `tensors` are by their names in the text."""
        for each in self.typed:
            if isinstance(each, Kinds):
                return each.nodes(lengths)
        if not self.counted and not self.counted_ids:
            return int(ids[number_of(next(of for of in self.counts if self.homes[of] == "node"))])
        return len(tensors[self.counted] if self.counted else ids[self.counted_ids])

    def given_by_ids(self, ids: Mapping[str, Any]) -> dict[str, Any]:
        """Those tensors, with their rows first."""
        over = {name: max(self.numbers.get(name, 0), 0) for name in self.made_of_ids}
        return {name: ids[name].movedim(at, 0) if ids[name].dim() else ids[name] for name, at in over.items()}

    def with_types(self, ids: Mapping[str, Any], nodes: int, lengths: Mapping[str, int]) -> dict[str, Any]:
        """Ids of the module's maps, with those of the typed sets and their counts. Raises ValueError where a row has no
        type."""
        found = dict(ids)
        for each in self.typed:
            if isinstance(each, Kinds):
                found |= each.made(found, lengths)
            if isinstance(each, Joined | Mixed):
                found |= each.made(found)
        ends = (self.ids.get(role, "") for role in ("g_dst", "g_src", "dst", "src"))
        edges = next((len(found[of]) for of in ends if of in found), 0)
        for each in self.typed:
            if isinstance(each, Placed):
                found |= each.made(found, nodes if self.homes[each.of] == "node" else edges)
        return found


def used_tensors(results: Iterable[Node]) -> dict[str, Node]:
    """By their names in the text, the tensors that results are made of."""
    leaves = [node for node in walk(tuple(results)) if node.operator == "tensor"]
    return {str(node.data[0]): node for node in leaves}


def declarations(used: Mapping[str, Node], given: Mapping[str, Given], sets: Mapping[str, str]) -> Iterable[str]:
    """The lines that declare tensors; `sets` are by tensor, of those that are tables."""
    for kind, kinds in (("param", ("param", "input")), ("input", ("buffer",))):
        parts = []
        for name in (each for each in given if each in used):
            if given[name].kind in kinds:
                node = used[name]
                inner = [*([sets[name]] if name in sets else []), *map(str, node.shape)]
                parts.append(f"{name}[{', '.join(inner)}]" if inner else name)
        line = ""
        for part in parts:
            if line and len(line) + len(part) > 100:
                yield f"{kind} {line}"
                line = ""
            line += f", {part}" if line else part
        if line:
            yield f"{kind} {line}"
