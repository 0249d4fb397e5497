"""From a tape to expressions: what each tensor of floats is, over which index set, along which maps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import torch

from explorer.runtime.trace.numbers import hold_numbers, is_infinite
from explorer.runtime.trace.operators.context import Entry
from explorer.runtime.trace.operators.shapes import joined
from explorer.runtime.trace.operators.table import entry_of, why_not
from explorer.runtime.trace.tables import Again, Tables, hold_gathered, hold_homes, hold_nodes, hold_one, lengths_of_ids
from explorer.runtime.trace.tapes.columns import MOST_COLUMNS
from explorer.runtime.trace.tapes.ids import MOST_APART, column
from explorer.runtime.trace.tapes.lengths import set_sizes, summed_into
from explorer.runtime.trace.tapes.recorded import TOGETHER, Given
from explorer.runtime.trace.tapes.signatures import signatures
from explorer.runtime.trace.tapes.tape import Call, Tape, TraceError, Where, attributes, constants, tensors_in
from explorer.runtime.trace.tapes.unions import Unions, are_whole, rows_of
from explorer.runtime.trace.texts.names import assigned_names, fresh, identifier
from explorer.runtime.trace.values.elementwise import realized
from explorer.runtime.trace.values.expressions import Node, Nodes, set_of, walk
from explorer.runtime.trace.values.tensors import (
    NO_ROWS,
    REPEATED,
    SET,
    Atom,
    Pair,
    Unsayable,
    Value,
    of_node,
    splat,
    viewed,
)

REACH = "docs/TRACE.md says what can be traced."


@dataclass(frozen=True, eq=False)
class Map:
    """Ids that rows are gathered or summed by, along a dimension of a tensor: from the set `domain` to `codomains`. All
    tensors of the tape that hold the same ids, and were made the same way, are one map."""

    name: str
    domain: str
    ids: Any
    along: int
    codomains: set[str] = field(default_factory=set)


def translate(
    tape: Tape, given: Iterable[Given], sizes: Iterable[int], results: Mapping[str, Any], apart: bool = False
) -> Translation:
    """What a tape computes of `results`, which are by their places. `sizes` are those of the inputs' index sets, which
    no other dimension has. What ids alone decide is computed `apart` where that is asked for, and then a tensor that
    the text is given."""
    tables, given = Tables(), list(given)
    for _ in range(2 * len(given) + 1):
        translation = Translation(tape, given, sizes, tables, apart)
        try:
            translation.read(results)
            return translation
        except Again as again:
            tables = tables | again.tables
    raise TraceError(f"tables are gathered from in a circle. {REACH}")


class Translation:
    """The expressions of a tape's tensors. It is the context of the operators' entries."""

    def __init__(self, tape: Tape, given: list[Given], sizes: Iterable[int], tables: Tables, apart: bool) -> None:
        sizes = list(sizes)
        self.nodes = Nodes()
        self.numbers: dict[str, Given] = {}  # by name, what ids alone decide, that the text is given
        self.maps: dict[object, Map] = {}
        self.homes: set[str] = set()  # to which rows were summed
        self.tables, self.given = tables, {each.name: each for each in given}
        self._summed = set(summed_into(tape))
        self._tape = tape
        self._values: dict[int, Value] = {}
        self._pairs: dict[int, Pair] = {}  # of complex numbers
        self._constants, self._attributes = constants(tape), attributes(tape)
        self._makers = {id(each): call for call in tape.calls for each in tensors_in(call.returned)}
        self._stale: set[int] = set()
        self._number_dims: dict[str, int] = {}
        self._is_apart, self._apart = apart, set[int]()  # tensors of floats that ids alone decide
        self._wholes: dict[str, str] = {}  # by table, its name as a matrix
        self._parts: dict[int, int] = {}  # by tensor, the call that it is one of several results of, which lie apart
        self._call: Call | None = None
        self.totals: dict[Node, Call] = {}  # what goes over all elements of a set
        self._named: tuple[Where | None, list[Node]] = None, []
        self._sets = {
            size: f"set{at}" for at, size in enumerate(set_sizes(tape, sizes, self._constants | self._attributes))
        }
        cut = {each.name: tables.parts_of(each, self.given) for each in given}
        cut = {name: parts for name, parts in cut.items() if parts}
        pieces = {part.name: part for parts in cut.values() for part in parts}
        self.given |= pieces
        self.tables = tables = tables | Tables(frozenset(pieces), frozenset(pieces))
        for name in tables.gathered - cut.keys():  # whose rows may be a graph's nodes
            self._sets.setdefault(self.given[name].tensor.shape[0], tables.rows_of(name))
        kinds = {tables.rows_of(name): self.given[name].tensor.shape[0] for name in sorted(tables.nodes)}
        self.unions = Unions(tape, self._sets, sizes, kinds)
        self._by_ids = lengths_of_ids(given)
        self._beside = {size + more for size in sizes for more in range(-MOST_APART, MOST_APART + 1)}
        self._pieces: dict[int, dict[int, tuple[int, Value]]] = {}  # by tensor, what rows of it were written, from to
        self._slices = {id(call.returned): call for call in tape.calls if call.operator == "slice.Tensor"}
        self._fixed = {id(each.tensor) for each in given}
        self._ways = signatures(tape, {id(each.tensor): each.name for each in given})
        for each in given:
            if each.tensor.is_floating_point():
                self._values[id(each.tensor)] = self._cut(cut[each.name]) if each.name in cut else self._loaded(each)

    def read(self, results: Mapping[str, Any]) -> None:
        """Reads the tape; `results` are the tensors that the module returned, by their places."""
        for number, call in enumerate(self._tape.calls):
            if call.floating:
                self._call = call
                try:
                    self._read(call)
                except (Unsayable, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
                    if isinstance(error, TraceError):
                        error.reached = number
                        raise
                    what = (
                        str(error) if isinstance(error, Unsayable) else f"its arguments are not known here ({error!r})"
                    )
                    raise TraceError(f"{call.operator}: {what}. {REACH}", call.where, number) from error
        hold_homes(self.homes, self.tables)
        self.results = tuple(self._result(place, each) for place, each in results.items())

    def _result(self, place: str, each: Any) -> Value:
        try:
            return self.value(each)
        except Unsayable as error:
            raise TraceError(f"{place} cannot be said: {error}. {REACH}") from error

    def _read(self, call: Call) -> None:
        with self.nodes.asked_by(call.where):
            if self._is_apart and call.of_ids and self._of_ids(call):
                self._left_to_ids(call)
            elif id(call.returned) in self._slices and {id(call.arguments[0])} <= self._pieces.keys() & self._stale:
                self._stale.add(id(call.returned))  # until it is written, as the rows before were
            else:
                self._made_by(call)

    def _of_ids(self, call: Call) -> bool:
        """Whether ids decide what a call that reads nothing that was given makes, or the language has no word for what
        it makes of constants, as for infinity."""
        read = [*tensors_in(call.arguments), *tensors_in(list(call.named.values()))]
        decided = any(id(each) in self._apart or not each.is_floating_point() for each in read)
        infinite = any(is_infinite(each) for each in tensors_in(call.returned))
        return decided or infinite or entry_of(call.operator)[0] is None

    def _left_to_ids(self, call: Call) -> None:
        """Leaves a call to what is run again of ids."""
        if call.in_place:
            memory = call.arguments[0].untyped_storage().data_ptr()
            if any(each.tensor.untyped_storage().data_ptr() == memory for each in self.numbers.values()):
                raise Unsayable("it changes a tensor in place that was read before")
            self._changed(call)
        for each in tensors_in(call.returned):
            self._values.pop(id(each), None)
            self._stale.discard(id(each))
            self._apart.add(id(each))

    def _number(self, each: Any) -> Value:
        """A tensor that ids alone decide, as one that the text is given."""
        found = next((name for name, known in self.numbers.items() if known.tensor is each), None)
        over = [place for place, size in enumerate(each.shape) if size in self._sets]
        if len(over) > 1:  # as of a mask of columns that are as many as a table has rows
            over = [place for place in over if not self._sets[each.shape[place]].startswith("rows of ")]
        if len(over) > 1:
            raise Unsayable("ids make a table of every element of the batch or graph with every other one")
        if found is None:
            maker = self._makers.get(id(each))
            names = assigned_names(maker.where) if maker else ()
            name = identifier(names[0] if len(names) == 1 else "number")
            if is_infinite(each):
                name = "infinity" if float(each) > 0 else "minus_infinity"
            found = fresh(name, {*self.given, *self.numbers})
            self.numbers[found] = Given(found, found, "buffer", each)
        place = over[0] if over else None
        self._number_dims[found] = NO_ROWS if place is None else place
        inner = tuple(size for at, size in enumerate(each.shape) if at != place and size != 1)
        of = "" if place is None else self._sets[each.shape[place]]
        return of_node(self.nodes.make("tensor", (), inner, of, (found,)), tuple(each.shape), place)

    def number_dims(self, used: Iterable[str]) -> dict[str, int]:
        """By name, of these tensors those that ids alone decide, with the dimension that their rows are, or NO_ROWS."""
        return {name: dim for name, dim in self._number_dims.items() if name in set(used)}

    @property
    def of_ids(self) -> dict[str, tuple[Any, int | None]]:
        """By name, all that is made of ids: a map's tensor and the dimension that it goes along, and numbers."""
        maps = {each.name: (each.ids, each.along) for each in self.maps.values()}
        return {**maps, **{name: (each.tensor, None) for name, each in self.numbers.items()}}

    def _made_by(self, call: Call) -> None:
        tensors = [*tensors_in(call.arguments), *tensors_in(call.returned)]
        entry, in_place = entry_of(call.operator, any(each.is_complex() for each in tensors))
        if entry is None:
            raise TraceError(
                f"aten.{call.operator} is not in the table of operators that the model language has words for. "
                f"{why_not(call.operator)} {REACH}",
                call.where,
            )
        made: Any = self._one_table(call) or self._said(entry, call)
        if isinstance(made, Pair):
            assert made.shape == tuple(call.returned.shape), f"{made.shape} for {tuple(call.returned.shape)}"
            self._pairs[id(call.returned)] = made
            return
        values = list(made) if isinstance(made, list | tuple) else [made]
        if any(isinstance(each, Pair) for each in values):
            self._pairs |= {id(t): pair for t, pair in zip(tensors_in(call.returned), values, strict=True)}
            return
        hold_numbers(call, values)
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

    def _one_table(self, call: Call) -> Value | None:
        """The rows of several parameters that are put together, as one table."""
        if not self.tables.one or call.operator != "cat":
            return None
        by_tensor = {id(each.tensor): each for each in self.given.values() if each.kind == "param"}
        parts = [by_tensor.get(id(tensor)) for tensor in call.arguments[0]]
        names = tuple(each.name for each in parts if each is not None)
        if len(names) < len(parts) or names not in self.tables.one or call.argument(1, "dim", 0) != 0:
            return None
        path = TOGETHER.join(each.path for each in parts if each is not None)
        known = next((each for each in self.given.values() if each.path == path), None)
        if known is None:
            name = fresh(identifier(names[0]), {*self.given, *self.numbers})
            known = self.given[name] = Given(name, path, "param", call.returned)
            self.tables = self.tables | Tables(frozenset({name}))
        return self._loaded(known)

    def _said(self, entry: Entry, call: Call) -> Any:
        """What an operator makes; all rows of a table that meet other rows, as those of a batch do, are a matrix."""
        try:
            return entry(self, call)
        except Unsayable:
            tables = self._tables_of(call)
            if not tables:
                raise
        self._values |= {each: self._whole(value) for each, value in tables.items()}
        try:
            return entry(self, call)
        finally:
            self._values |= tables

    def _tables_of(self, call: Call) -> dict[int, Value]:
        """By the identity of a call's tensors, the tables, where it reads rows of another set too."""
        read = {id(each): self._values.get(id(each)) for each in tensors_in(call.arguments)}
        known = {each: value for each, value in read.items() if value is not None}
        if len({value.node.set for value in known.values()} - {""}) < 2:
            return {}
        of = {f"rows of {name}" for name in self.tables.gathered} - self.homes
        tables = {each: value for each, value in known.items() if value.node.set in of}
        if any(value.node.operator != "tensor" for value in tables.values()):
            raise Unsayable(
                "all rows of what is computed of a table meet rows that ids gather. Multiply with the parameter itself"
            )
        return tables

    def _whole(self, value: Value) -> Value:
        """A table as a matrix: the same tensor under a second name."""
        table = self.given[str(value.node.data[0])]
        name = self._wholes.get(table.name) or fresh(f"all_{table.name}", {*self.given, *self.numbers})
        self._wholes[table.name] = name
        self.given[name] = replace(table, name=name)
        length = table.tensor.shape[0]
        node = self.nodes.make("tensor", (), (length, *value.node.shape), "", (name,))
        placed = {SET: 0, REPEATED: REPEATED}
        dims = tuple(tuple(replace(a, axis=placed.get(a.axis, a.axis + 1)) for a in dim) for dim in value.dims)
        return Value(node, dims)

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
        self._changed(call)
        self._values[id(target)] = made
        self._stale.discard(id(target))
        self._apart.discard(id(target))
        if id(target) in self._slices:
            self._written_to(self._slices[id(target)], made)

    def _written_to(self, part: Call, made: Value) -> None:
        """A part of a new tensor's rows is written; when all are, each once, it is these parts one behind another."""
        rows = rows_of(part)
        begins = self._values.get(id(part.arguments[0]))
        if rows is None or begins is None or begins.node.operator not in ("empty", "number"):
            return
        base, start, stop = rows
        pieces = self._pieces.setdefault(id(base), {})
        pieces[start] = (stop, made) if start not in pieces else (start, made)  # which is none in a row
        if are_whole({each: ends for each, (ends, _) in pieces.items()}, base.shape[0]):
            self._values[id(base)] = joined(self, [pieces[each][1] for each in sorted(pieces)], 0)
            self._stale.discard(id(base))

    def _changed(self, call: Call) -> None:
        """What shares memory with a tensor that is changed in place is not what it was."""
        target = call.arguments[0]
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

    def value(self, each: Any) -> Value:
        """See `Context`."""
        if isinstance(each, bool | int | float):
            return splat(self.nodes.number(float(each)), ())
        if id(each) in self._stale:
            raise Unsayable("it reads a tensor that shares its memory with one that was changed in place")
        if id(each) in self._apart:
            return self._number(each)
        if id(each) in self._values:
            return self._values[id(each)]
        if id(each) in self._constants and each.numel() == 1:
            return splat(self.nodes.number(float(each)), tuple(each.shape))
        if self._is_apart and isinstance(each, torch.Tensor) and id(each) not in self._tape.floating:
            return self._number(each)
        if not isinstance(each, torch.Tensor) or not each.is_floating_point():
            raise Unsayable("whole numbers, or a mask made of them, are computed with as if they were floats")
        if each.numel() == 1 and not each.requires_grad:
            return splat(self.nodes.number(float(each)), tuple(each.shape))
        raise Unsayable("it reads a tensor that is no parameter, buffer or input: register_buffer makes it one")

    def pair(self, each: Any) -> Pair:
        """See `Context`."""
        if id(each) in self._pairs and id(each) not in self._stale:
            return self._pairs[id(each)]
        if isinstance(each, complex) or (isinstance(each, torch.Tensor) and each.is_complex()):
            raise Unsayable("it reads complex numbers that were not made of real ones")
        real = self.value(each)
        return Pair(real, splat(self.nodes.number(0.0), real.shape))

    def _loaded(self, each: Given) -> Value:
        shape = tuple(each.tensor.shape)
        is_table = each.name in self.tables.gathered
        rows = each.kind == "input" or (each.kind == "buffer" and shape[:1] in self._by_ids)
        over = 0 if shape and (is_table or (rows and shape[0] in self._sets)) else None
        of = "" if over is None else self.tables.rows_of(each.name) if is_table else self._sets[shape[0]]
        inner = tuple(size for place, size in enumerate(shape) if place != over and size != 1)
        return of_node(self.nodes.make("tensor", (), inner, of, (each.name,)), shape, over)

    def _cut(self, parts: Sequence[Given]) -> Value:
        """A table as its parts, one behind another."""
        values = [self._loaded(each) for each in parts]
        first, of = values[0], self.unions.of_blocks(tuple(value.node.set for value in values))
        made = self.nodes.make("union", tuple(value.node for value in values), first.node.shape, of)
        return Value(made, ((Atom(self.unions.lengths[of], SET),), *first.dims[1:]))

    def hold_cut(self, value: Value, dim: int, start: int, stop: int) -> None:
        """See `Context`."""
        name = value.node.set.removeprefix("rows of ")
        if name in self.tables.gathered - self.tables.nodes and any(atom.axis == SET for atom in value.dims[dim]):
            raise Again(Tables(cuts=frozenset({(name, start), (name, stop)})))

    def map_of(self, ids: Any, dim: int | None = None, home: str = "") -> tuple[str, str, int]:
        """See `Context`."""
        places = [place for place, size in enumerate(ids.shape) if size != 1] if dim is None else [dim]
        if len(places) != 1 or ids.shape[places[0]] not in self._sets:
            raise Unsayable(
                f"ids of the shape {list(ids.shape)} are not one to each row of a batch or graph, or as many as "
                f"{MOST_COLUMNS}"
            )
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

    def size_of(self, of: str) -> int:
        """How many elements a set has in the example."""
        if of in self.unions.lengths:
            return self.unions.lengths[of]
        return next(size for size, name in self._sets.items() if name == of)

    def placed_in(self, name: str, size: int) -> str:
        """See `Context`."""
        (entry,) = (each for each in self.maps.values() if each.name == name)
        maker = self._makers.get(id(entry.ids))
        while maker is not None and maker.operator in ("squeeze.dim", "view", "reshape", "_unsafe_view", "squeeze"):
            maker = self._makers.get(id(maker.arguments[0]))
        home = self._sets.get(size, "")
        if maker is None or maker.operator != "nonzero" or tuple(maker.arguments[0].shape) != (size,) or not home:
            raise Unsayable("rows are put where ids say, which may be one place twice: pick them by a mask")
        entry.codomains.add(home)
        return home

    def constant(self, ids: Any, inner: bool = False) -> list[int] | None:
        """See `Context`."""
        known = id(ids) in self._constants or (inner and id(ids) in self._attributes)
        whole = known and ids.dim() > 0 and ids.dtype != torch.bool
        return ids.flatten().tolist() if whole and not self._sets.keys() & {*ids.shape} else None

    def is_floating(self, tensor: Any) -> bool:
        """See `Context`."""
        return id(tensor) in self._tape.floating

    def set_of_size(self, size: int, along: str = "") -> str:
        """See `Context`. Nodes that no input has a row for may have one each in the only tensor of that length."""
        tables = [
            each.name for each in self.given.values() if each.kind == "param" and each.tensor.shape[:1] == (size,)
        ]
        if size not in self._sets and len(tables) == 1:
            hold_gathered(tables)
        (leads,) = [each.codomains for each in self.maps.values() if each.name == along] or [set[str]()]
        longs = [each for each in self.unions.as_long_as(size) if each in leads]
        if not longs and size not in self._sets and size in self._beside and along:  # as of one offset more than bags
            self._sets[size] = f"set{len(self._sets)}"
        return longs[0] if longs else self._sets.get(size, "")

    def gathered(self, node: Node, name: str, of: str) -> Node:
        """See `Context`. What is computed of a table's rows is computed of those that are gathered."""
        (entry,) = (each for each in self.maps.values() if each.name == name)
        entry.codomains.add(node.set)
        if node.operator == "some" and node.data == (name,):
            (node,) = node.operands
        if not node.set.startswith("rows of ") or node.set in self.homes:
            return self.nodes.make("gather", (node,), node.shape, of, (name,))
        made: dict[Node, Node] = {}
        for each in walk((node,)):
            operands = tuple(made[operand] for operand in each.operands)
            if each.operator == "tensor" and each.set:
                made[each] = self.nodes.make("gather", (each,), each.shape, of, (name,))
            else:
                with self.nodes.in_place_of(each):
                    made[each] = self.nodes.make(each.operator, operands, each.shape, set_of(operands), each.data)
        return made[node]

    def index_by(self, value: Value, dim: int) -> NoReturn:
        """See `Context`."""
        size = value.shape[dim]
        leaves = [node for node in walk((value.node,)) if node.operator == "tensor" and not node.set]
        names = {str(leaf.data[0]) for leaf in leaves}
        found = {name for name in names if self.given[name].tensor.shape[:1] == (size,)}
        if dim == 0 and found:
            hold_gathered(found)
        for node in walk((value.node,)):
            if dim == 0 and node.operator == "concat" and node.data == (-len(node.shape),) and node.shape[0] == size:
                self._hold_together(node)
        raise Unsayable(
            "ids pick elements of a dimension that is not the first one of a table: index a parameter itself, as "
            "E[ids + start] in the place of E[start:][ids], or put the rows together in a parameter of their own"
        )

    def _hold_together(self, node: Node) -> None:
        """Has parts that are put one behind another be kinds of nodes, if rows are summed to them, or one table."""
        if node.shape[0] in self._summed:
            parts = [(each, each.shape[0]) for each in node.operands]
            hold_nodes(parts, self.given, self.unions.lengths, self.tables)
        hold_one(node.operands, self.tables)

    def hold_nodes(self, values: Sequence[Value], dim: int) -> None:
        """See `Context`."""
        sets = {value.node.set for value in values}
        if sets - {self.tables.rows_of(name) for name in self.tables.nodes} and any(
            of.startswith("rows of ") for of in sets
        ):
            parts = [(value.node, value.shape[dim]) for value in values]
            hold_nodes(parts, self.given, self.unions.lengths, self.tables)

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

    def settled(self) -> tuple[Value, ...]:
        """The results with all their dimensions in their order."""
        whole = [realized(self.nodes, each) for each in self.results]
        self.results = tuple(viewed(self.nodes, each, each.shape) for each in whole)
        return self.results
