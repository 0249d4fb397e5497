"""From a tape to expressions: what each tensor of floats is, over which index set, along which maps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, NoReturn

import torch

from explorer.runtime.trace.operators.table import entry_of
from explorer.runtime.trace.tapes.ids import column
from explorer.runtime.trace.tapes.recorded import Given
from explorer.runtime.trace.tapes.signatures import signatures
from explorer.runtime.trace.tapes.tape import Call, Tape, TraceError, Where, tensors_in
from explorer.runtime.trace.texts.names import assigned_names
from explorer.runtime.trace.values.elementwise import realized
from explorer.runtime.trace.values.expressions import Node, Nodes, set_of, walk
from explorer.runtime.trace.values.tensors import REPEATED, SET, Unsayable, Value, of_node, splat, viewed

REACH = "docs/TRACE.md says what can be traced."
NO_ROWS = -1
_TYPES = torch.float32, torch.bool, torch.int64
"""Of tensors that depend on floats; whole numbers count what is true."""
INDEXES = {"embedding": 1, "index_select": 2, "index_add": 2, "scatter_add": 2, "scatter_reduce.two": 2}
"""Where operators along maps have their ids; `index.Tensor` has a list of them."""


@dataclass(frozen=True, eq=False)
class Map:
    """Ids that rows are gathered or summed by, along a dimension of a tensor: from the set `domain` to `codomains`. All
    tensors of the tape that hold the same ids, and were made the same way, are one map."""

    name: str
    domain: str
    ids: Any
    along: int
    codomains: set[str] = field(default_factory=set)


class Again(Exception):
    """The tape must be read once more: rows of these tensors turned out to be gathered."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(names)
        self.names = names


def translate(tape: Tape, given: Iterable[Given], sizes: Iterable[int], result: Any) -> Translation:
    """What a tape computes. `sizes` are those of the inputs' index sets, which no other dimension has."""
    tables: set[str] = set()
    given = list(given)
    for _ in range(len(given) + 1):
        translation = Translation(tape, given, sizes, tables)
        try:
            translation.read(result)
            return translation
        except Again as again:
            tables = tables | again.names
    raise TraceError(f"tables are gathered from in a circle. {REACH}")


class Translation:
    """The expressions of a tape's tensors. It is the context of the operators' entries."""

    def __init__(self, tape: Tape, given: list[Given], sizes: Iterable[int], tables: set[str]) -> None:
        self.nodes = Nodes()
        self.maps: dict[object, Map] = {}
        self.homes: set[str] = set()  # to which rows were summed
        self.tables, self.given = tables, {each.name: each for each in given}
        self._tape = tape
        self._values: dict[int, Value] = {}
        self._stale: set[int] = set()
        self._parts: dict[int, int] = {}  # by tensor, the call that it is one of several results of, which lie apart
        self._call: Call | None = None
        self.totals: dict[Node, Call] = {}  # what goes over all elements of a set
        self._named: tuple[Where | None, list[Node]] = None, []
        self._sets = {size: f"set{at}" for at, size in enumerate(_set_sizes(tape, sizes))}
        for name in tables:  # whose rows may be a graph's nodes
            self._sets.setdefault(self.given[name].tensor.shape[0], f"rows of {name}")
        self._fixed = {id(each.tensor) for each in given}
        self._ways = signatures(tape, {id(each.tensor): each.name for each in given})
        for each in given:
            if each.tensor.is_floating_point():
                self._values[id(each.tensor)] = self._loaded(each)

    def read(self, result: Any) -> None:
        """Reads the tape; `result` is the tensor that the module returned."""
        for call in self._tape.calls:
            if call.floating:
                self._call = call
                try:
                    self._read(call)
                except (Unsayable, AssertionError, KeyError, IndexError, TypeError, ValueError) as error:
                    if isinstance(error, TraceError):
                        raise
                    what = (
                        str(error) if isinstance(error, Unsayable) else f"its arguments are not known here ({error!r})"
                    )
                    raise TraceError(f"{call.operator}: {what}. {REACH}", call.where) from error
        self.result = self.value(result)

    def _read(self, call: Call) -> None:
        entry, in_place = entry_of(call.operator)
        if entry is None:
            raise TraceError(
                f"aten.{call.operator} is not in the table of operators that the model language has words for. Write "
                f"the line with others. {REACH}",
                call.where,
            )
        made = entry(self, call)
        values = list(made) if isinstance(made, list | tuple) else [made]
        _hold(call, values)
        if in_place:
            self._overwritten(call, made)
            return
        if len(values) > 1:
            self._parts |= {id(tensor): id(call) for tensor in tensors_in(call.returned)}
        for tensor, value in zip(tensors_in(call.returned), values, strict=False):
            if value is not None:
                assert value.shape == tuple(tensor.shape), f"{value.shape} for {tuple(tensor.shape)}"
                self._values[id(tensor)] = value
                self._stale.discard(id(tensor))
        self._name(values, call.where)

    def _name(self, values: list[Value | None], where: Where) -> None:
        """The last expressions of a statement have the names of the variables that this assigns."""
        if where == self._named[0]:
            for node in self._named[1]:
                self.nodes.names.pop(node, None)
        names = assigned_names(where)
        nodes = [value.node for value in values if value is not None]
        nodes = nodes if len(names) == len(nodes) else []
        new = {node: name for node, name in zip(nodes, names, strict=False) if node not in self.nodes.names}
        self.nodes.names |= new
        self._named = where, list(new)

    def _overwritten(self, call: Call, made: Value) -> None:
        target = call.arguments[0]
        if id(target) in self._fixed:
            raise TraceError(
                f"{call.operator}: a parameter, buffer or input is changed in place. Make a new tensor of it.",
                call.where,
            )
        memory = target.untyped_storage().data_ptr()
        for other in self._tape.kept_at(memory):
            if other is not target and (
                id(other) not in self._parts or self._parts[id(other)] != self._parts.get(id(target))
            ):
                if id(other) in self._fixed:
                    raise TraceError(
                        f"{call.operator}: a part of a parameter or input is changed in place.", call.where
                    )
                self._stale.add(id(other))
        self._values[id(target)] = made
        self._stale.discard(id(target))

    def value(self, each: Any) -> Value:
        """See `Context`."""
        if isinstance(each, bool | int | float):
            return splat(self.nodes.number(float(each)), ())
        if id(each) in self._stale:
            raise Unsayable("it reads a tensor that shares its memory with one that was changed in place")
        if id(each) in self._values:
            return self._values[id(each)]
        if not isinstance(each, torch.Tensor) or not each.is_floating_point():
            raise Unsayable("whole numbers, or a mask made of them, are computed with as if they were floats")
        if each.numel() == 1 and not each.requires_grad:
            return splat(self.nodes.number(float(each)), tuple(each.shape))
        raise Unsayable("it reads a tensor that is no parameter, buffer or input: register_buffer makes it one")

    def _loaded(self, each: Given) -> Value:
        shape = tuple(each.tensor.shape)
        is_table = each.name in self.tables
        over = 0 if shape and (is_table or (each.kind == "input" and shape[0] in self._sets)) else None
        of = "" if over is None else f"rows of {each.name}" if is_table else self._sets[shape[0]]
        inner = tuple(size for place, size in enumerate(shape) if place != over and size != 1)
        return of_node(self.nodes.make("tensor", (), inner, of, (each.name,)), shape, over)

    def map_of(self, ids: Any, dim: int | None = None, home: str = "") -> tuple[str, str, int]:
        """See `Context`."""
        places = [place for place, size in enumerate(ids.shape) if size != 1] if dim is None else [dim]
        if len(places) != 1 or ids.shape[places[0]] not in self._sets:
            raise Unsayable(f"ids of the shape {list(ids.shape)} are not one to each row of a batch or graph")
        (along,) = places
        only = column(ids, along)
        if not torch.equal(ids, only.view([-1 if at == along else 1 for at in range(ids.dim())]).expand_as(ids)):
            raise Unsayable("ids differ from element to element of a row")
        key = self._ways.get(id(ids), -id(ids)), tuple(only.tolist())
        if key not in self.maps:
            self.maps[key] = Map(f"map{len(self.maps)}", self._sets[len(only)], ids, along)
        elif id(ids) in self._fixed:
            self.maps[key] = replace(self.maps[key], ids=ids, along=along)
        if home:
            self.maps[key].codomains.add(home)
            self.homes.add(home)
        return self.maps[key].name, self.maps[key].domain, along

    def set_of_size(self, size: int) -> str:
        """See `Context`. Nodes that no input has a row for may have one each in the only tensor of that length."""
        tables = [
            each.name for each in self.given.values() if each.kind == "param" and each.tensor.shape[:1] == (size,)
        ]
        if size not in self._sets and len(tables) == 1:
            raise Again(set(tables))
        return self._sets.get(size, "")

    def gathered(self, node: Node, name: str, of: str) -> Node:
        """See `Context`. What is computed of a table's rows is computed of those that are gathered."""
        (entry,) = (each for each in self.maps.values() if each.name == name)
        entry.codomains.add(node.set)
        if not node.set.startswith("rows of ") or node.set in self.homes:
            return self.nodes.make("gather", (node,), node.shape, of, (name,))
        made: dict[Node, Node] = {}
        for each in walk((node,)):
            operands = tuple(made[operand] for operand in each.operands)
            if each.operator == "tensor" and each.set:
                made[each] = self.nodes.make("gather", (each,), each.shape, of, (name,))
            else:
                made[each] = self.nodes.make(each.operator, operands, each.shape, set_of(operands), each.data)
        return made[node]

    def index_by(self, value: Value, dim: int) -> NoReturn:
        """See `Context`."""
        size = value.shape[dim]
        leaves = [node for node in walk((value.node,)) if node.operator == "tensor" and not node.set]
        names = {str(leaf.data[0]) for leaf in leaves}
        found = {name for name in names if self.given[name].tensor.shape[:1] == (size,)}
        if dim != 0 or not found:
            raise Unsayable("ids pick elements of a dimension that is not the first one of a table")
        raise Again(found)

    def over_set(self, name: str, value: Value) -> Value:
        """See `Context`."""
        if name not in ("sum", "mean", "max", "min", "prod"):
            raise Unsayable(f"a {name} goes over all rows of the batch or graph")
        if any(atom.axis == REPEATED for atom in value.atoms()):
            value = realized(self.nodes, value)
        made = self.nodes.make("total", (value.node,), value.node.shape, "", (name,))
        assert self._call is not None
        self.totals[made] = self._call
        return Value(made, tuple(tuple(a for a in dim if a.axis != SET) for dim in value.dims))

    @property
    def set_dim(self) -> int:
        """The dimension of the result that its rows are; NO_ROWS where it is one of all elements."""
        return next((at for at, dim in enumerate(self.result.dims) if any(atom.axis == SET for atom in dim)), NO_ROWS)

    def settled(self) -> Value:
        """The result with all its dimensions in their order."""
        made = realized(self.nodes, self.result)
        self.result = viewed(self.nodes, made, made.shape)
        return self.result


def _hold(call: Call, values: list[Value | None]) -> None:
    """Raises Unsayable for numbers that the language has not: infinities that are written, and other types."""
    for tensor, value in zip(tensors_in(call.returned), values, strict=False):
        if value is None:
            continue
        written = [each for each in (value.node, *value.node.operands) if each.operator == "number"]
        if not all(isfinite(float(str(each.data[0]))) for each in written):
            raise Unsayable("infinity has no name in the model language: write a large number")
        if tensor.dtype not in _TYPES and value.node.operator != "number":
            raise Unsayable(f"it makes {tensor.dtype}: the language computes in 32-bit floats")


def _set_sizes(tape: Tape, sizes: Iterable[int]) -> list[int]:
    """The sizes of all index sets: the inputs', and those of what their ids were made into."""
    found = dict.fromkeys(sizes)
    for call in tape.calls:
        name = call.operator.replace("_.", ".").removesuffix("_")
        ids = call.arguments[1] if name == "index.Tensor" else call.arguments[INDEXES[name]] if name in INDEXES else []
        for each in tensors_in(ids):
            length = [size for size in each.shape[:1] if size > 1]
            found.update(dict.fromkeys(length))
    return list(found)
