"""Which of a module's tensors are tables: what rows are gathered of, and what several are, one behind another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from explorer.runtime.trace.tapes.examples import set_dim
from explorer.runtime.trace.tapes.recorded import ROWS, Given
from explorer.runtime.trace.texts.names import fresh
from explorer.runtime.trace.values.expressions import Node, walk


@dataclass(frozen=True)
class Tables:
    """Tensors whose rows are `gathered`; those of them that are `nodes`, put one table behind another; those that are
    `one` table, put together in an order; and places where the rows of one are cut into several kinds of nodes."""

    gathered: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    one: frozenset[tuple[str, ...]] = frozenset()
    cuts: frozenset[tuple[str, int]] = frozenset()

    def rows_of(self, name: str) -> str:
        """The set that the rows of a table are."""
        return f"{'nodes' if name in self.nodes else 'rows'} of {name}"

    def __or__(self, other: Tables) -> Tables:
        return Tables(
            self.gathered | other.gathered, self.nodes | other.nodes, self.one | other.one, self.cuts | other.cuts
        )

    def parts_of(self, given: Given, taken: Collection[str]) -> list[Given]:
        """The parts that a tensor is cut into; none of one that is not cut. Their names are none of `taken`."""
        cuts = {at for name, at in self.cuts if name == given.name}
        names, found = set(taken), list[Given]()
        for start, stop in pairwise(sorted(cuts | {0, len(given.tensor)})) if cuts else ():
            path = f"{given.path}{ROWS}{start}:{stop}"
            found.append(Given(fresh(given.name, names), path, given.kind, given.tensor[start:stop]))
        return found


class Again(Exception):
    """The tape must be read once more: these turned out to be tables."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.tables = tables


def hold_gathered(names: Collection[str]) -> None:
    """Raises Again for tensors whose rows are gathered."""
    raise Again(Tables(frozenset(names)))


def hold_nodes(
    parts: Sequence[tuple[Node, int]], given: Mapping[str, Given], sets: Collection[str], known: Tables
) -> None:
    """Raises Again where parts of so many rows, one behind another, are each made of the rows of a tensor of the
    module's, or of one of these sets."""
    found = set[str]()
    for part, size in parts:
        names = {str(node.data[0]) for node in walk((part,)) if node.operator == "tensor"}
        tables = {name for name in names if given[name].tensor.shape[:1] == (size,)}
        if any(given[name].kind == "input" for name in tables) or (not tables and part.set not in sets):
            return
        found |= tables
    if found - known.nodes:
        raise Again(Tables(frozenset(found), frozenset(found)))


def hold_homes(homes: Iterable[str], known: Tables) -> None:
    """Raises Again where rows are summed to several tables, which are kinds of nodes."""
    found = frozenset(name for name in known.gathered if f"rows of {name}" in homes)
    if len(found) > 1:
        raise Again(Tables(found, found))


def hold_one(parts: Iterable[Node], known: Tables) -> None:
    """Raises Again where parts are tensors, which are one table together."""
    names = tuple(_tensor_named(each) for each in parts)
    if "" not in names and names not in known.one:
        raise Again(Tables(one=frozenset({names})))


def _tensor_named(node: Node) -> str:
    """The name of a tensor that an expression is, in another shape perhaps; "" of any other."""
    while node.operator == "call" and node.data[0] == "reshape":
        (node,) = node.operands
    return str(node.data[0]) if node.operator == "tensor" else ""


def lengths_of_ids(given: Iterable[Given]) -> set[tuple[int]]:
    """How many ids the buffers of whole numbers have along the dimension that is a set's."""
    own = [each.tensor for each in given if each.kind == "buffer" and not each.tensor.is_floating_point()]
    return {(tensor.shape[dim],) for tensor in own if (dim := set_dim(tensor)) is not None}
