"""The indices of a module's call as the compiled programs read them: int32 tensors of one device, each made once.

Those of scores and ops are made where they lie, by PyTorch; a layer's graph is encoded in NumPy, as for every other
run, and taken to the device once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import torch

from explorer.compiler.ir.graph import NODES, Graph, IndexMap, plural
from explorer.compiler.ir.index_sets import (
    CONTAINERS,
    SetNames,
    as_they_tell,
    factors,
    given_over,
    is_given,
    is_of_fact,
    number_of,
    with_products,
)
from explorer.compiler.ir.node import once
from explorer.compiler.ir.set_maps import listed_in, types_edges
from explorer.runtime.data.index_arrays import FORMS, NUMBERS, Form, form_of
from explorer.runtime.data.triples import MAX_COUNT, InputError
from explorer.runtime.encode.bags import check_bags, form_of_bag, has_several_bags
from explorer.runtime.encode.declared import declared_in, encoded
from explorer.runtime.encode.layers import graph_of
from explorer.runtime.encode.ops import Sets
from explorer.runtime.encode.products import product_ids
from explorer.runtime.targets.gpu.program import VECTOR_BYTES
from explorer.runtime.torch.cache import Again, OfIdentities
from explorer.runtime.torch.device_ids import Checked, device_ids
from explorer.runtime.torch.ids import counting_sort, narrow
from explorer.runtime.torch.streams import address_of_stream, current, is_capturing

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8}
"""The types of tensors by what they are declared to be stored in."""

MOST_ASKED = 64
"""Index arrays that a structure has at hand, of all programs."""
Tensor = Any
"""A torch.Tensor: type checking does without PyTorch's sources."""
Inverse = tuple[Tensor, Tensor]
"""Of a map: where each segment begins, and the elements in that order."""


@dataclass(eq=False)
class Structure:
    """What `prepare` makes of index tensors; a module takes it any number of times.

    `maps` are int32, a score's negatives [B, N], also where chunks of facts share them. `counts` are the sizes of the
    sets that the indices tell, `highest` the greatest id of each map into a set whose size the tensors of the call
    tell. Programs see edges and nonzeros in an order of their own: element i is the caller's element order[i]; None
    where the orders are one.
    """

    device: Any
    maps: dict[str, Tensor]
    counts: dict[str, int]
    highest: dict[str, int] = field(default_factory=dict)
    values: dict[str, Tensor] = field(default_factory=dict)  # of the graph: norm, in_degree
    order: Tensor | None = None
    ordered: str = ""  # the set whose elements `order` is of
    edges: str = ""  # the end that a graph's edges are sorted by
    read: tuple[Tensor, ...] = ()  # index tensors of the caller that are read where they are
    inverses: dict[str, Inverse] = field(default_factory=dict)
    made_for: dict[str, tuple[int, ...]] = field(default_factory=dict)  # by map, the sizes that its inverse is for
    again: Again[Tensor] = field(default_factory=Again)  # rows in the programs' order, of tensors that come again
    fitting: dict[Any, Mapping[str, int]] = field(default_factory=dict)  # sizes, by module and kinds of tensors
    # By module and sizes, what calls on a GPU have in common.
    repeated: OfIdentities[Any] = field(default_factory=OfIdentities)
    # What `index` made, by name, graph and sizes, which it holds, so that no others take their identities.
    asked: OfIdentities[tuple[Tensor, Graph, Mapping[str, int]]] = field(default_factory=OfIdentities)

    def with_maps(self, maps: dict[str, Tensor], given: Iterable[Tensor] = ()) -> Structure:
        """The structure of another batch, of which only these maps are known, that were made of what was `given`."""
        rest = self.values, self.order, self.ordered, self.edges, _read_there(given)
        return Structure(self.device, maps, self.counts, self.highest, *rest, again=self.again)

    def apart(self) -> Structure:
        """The same for one call, which keeps nothing of what that makes: a CUDA graph makes it anew at each replay, in
        memory of its own, and of tensors that may have been changed."""
        maps, inverses, made_for = dict(self.maps), dict(self.inverses), dict(self.made_for)
        own = OfIdentities(self.asked)
        return replace(self, maps=maps, inverses=inverses, made_for=made_for, again=Again(), asked=own)

    def index(self, name: str, graph: Graph, counts: Mapping[str, int]) -> Tensor:
        """An index buffer of a program: a map, or a part of one's inverse, made when it is first asked for."""
        if name in self.maps:
            return self.maps[name]
        known = self.asked.get((name, id(graph), id(counts)))
        if known is None:
            known = self.asked[name, id(graph), id(counts)] = self._index(name, graph, counts), graph, counts
            while len(self.asked) > MOST_ASKED:
                self.asked.pop(next(iter(self.asked)), None)
        return known[0]

    def _index(self, name: str, graph: Graph, counts: Mapping[str, int]) -> Tensor:
        if name not in _index_arrays(graph):
            raise InputError(f"Nothing tells the indices {name}.")
        entry, part = _index_arrays(graph)[name]
        if part is not None:
            return self._inverse(graph, entry, counts)[part]
        if entry.paths:
            ids = self._product(graph, entry, counts)
            lists = self.maps[given_over(graph, entry.domain)] if entry.domain in CONTAINERS else ids
            self.maps[name] = ids.reshape(lists.shape)
            return self.maps[name]
        return self._owners(entry)

    def enter(self, tensor: Tensor, index_set: str) -> Tensor:
        """Rows in the caller's order, put into the programs'."""
        return tensor.index_select(0, self.order) if self.sorts(index_set) else tensor

    def entered(self, tensor: Tensor, index_set: str) -> Tensor:
        """What `enter` gives, of a tensor that is a caller's own: once for one that comes again unchanged, on a stream
        of a GPU, since others may not have come so far."""
        if not self.sorts(index_set):
            return tensor
        stream, rows = address_of_stream(tensor.device.index) if tensor.is_cuda else 0, tensor.detach()
        return self.again.get(tensor, stream, lambda: self.enter(rows, index_set))

    def leave(self, rows: Tensor, index_set: str) -> Tensor:
        """Rows in the programs' order, put back into the caller's."""
        return torch.empty_like(rows).index_copy_(0, self.order, rows) if self.sorts(index_set) else rows

    def sorts(self, index_set: str) -> bool:
        """Whether programs see the elements of a set in another order than the caller."""
        return self.order is not None and index_set == self.ordered

    def _inverse(self, graph: Graph, entry: IndexMap, counts: Mapping[str, int]) -> Inverse:
        count = with_products(graph, counts)[entry.codomain]
        sizes = count, *(counts[each] for each in factors(graph.maps, entry))  # which the tensors of a call may change
        if entry.name not in self.inverses or self.made_for.get(entry.name, sizes) != sizes:
            ids = self._product(graph, entry, counts) if entry.paths else self.maps[entry.name]
            self.inverses[entry.name], self.made_for[entry.name] = inverse(ids, count), sizes
        return self.inverses[entry.name]

    def _product(self, graph: Graph, entry: IndexMap, counts: Mapping[str, int]) -> Tensor:
        """Where a map of several paths leads from each element of its domain."""
        steps = {step for path in entry.paths for step in path.split(".")} - {entry.domain}
        maps = {step: self.index(step, graph, counts).reshape(-1) for step in steps}
        every = torch.arange(counts[entry.domain], dtype=torch.int32, device=self.device)
        ids = product_ids(graph.maps, entry, maps, counts, every)
        return ids.to(torch.int32)  # computed ones may be wider on the way

    def _owners(self, entry: IndexMap) -> Tensor:
        """The list that each entry of compressed lists is in."""
        ends, order = self.inverses[entry.name]
        lists = torch.arange(len(ends) - 1, dtype=torch.int32, device=self.device)
        self.maps[entry.name] = torch.repeat_interleave(lists, ends.diff(), output_size=len(order))
        return self.maps[entry.name]


@once
def _index_arrays(graph: Graph) -> dict[str, tuple[IndexMap, int | None]]:
    """By the name of each index array: the map that it is, or that it is the first or second part of the inverse of."""
    found: dict[str, tuple[IndexMap, int | None]] = {entry.name: (entry, None) for entry in graph.maps}
    for entry in graph.maps:
        parts = SetNames.of(graph).inverses[entry.name]
        found |= {name: (entry, part) for part, name in enumerate(parts)}
    return found


def inverse(ids: Tensor, count: int) -> Inverse:
    """Where the elements of each of `count` places begin, [count + 1], and all elements in that order; both int32.

    The order is stable, so that sums have one order on every run."""
    ids = ids.reshape(-1)
    if ids.is_cpu:
        return counting_sort(ids.to(torch.int32), count)
    places, order = torch.sort(ids, stable=True)
    ends = torch.searchsorted(places, torch.arange(count + 1, dtype=ids.dtype, device=ids.device), out_int32=True)
    return ends, order.to(torch.int32)


def structure_names(graph: Graph) -> tuple[str, ...]:
    """The index tensors of a call, in the order in which they may be given without their names."""
    if graph.family == "score":
        return tuple(entry.name for entry in graph.maps if is_given(entry))
    if graph.family == "layer":
        return (*_arrays_of(graph), *(entry.name for entry in declared_in(graph)))
    forms = {"blocks": FORMS[1], "csr": FORMS[2], "coo": FORMS[3]}
    usual = [forms[graph.structure]] if graph.structure in forms else _forms_of_bags(graph)
    arrays = (name for form in usual for name in (form.lists, form.picks))
    return *arrays, *(entry.name for entry in declared_in(graph))


def _forms_of_bags(graph: Graph) -> list[Form]:
    """What an op's bags are given as, each in its form."""
    return [form_of_bag(home.name) for home, _ in listed_in(graph)]


def _arrays_of(graph: Graph) -> tuple[str, ...]:
    """The arrays that a layer's graph is given as: nodes have types where they are one set."""
    return ("src", "dst", "etype", *(("ntype",) if graph.ends == NODES else ()))


def _counts_of(graph: Graph) -> tuple[str, ...]:
    """The numbers that a layer's graph may be given with: `num_nodes`, or those of both sets, and of types."""
    sets = (*dict.fromkeys(graph.ends), "etype", *(("ntype",) if graph.ends == NODES else ()))
    return tuple(map(number_of, (*sets, *(entry.codomain for entry in graph.maps if types_edges(entry)))))


def known_names(graph: Graph) -> frozenset[str]:
    """All names by which a call may give indices and numbers of a structure."""
    if graph.family == "score":
        return frozenset(structure_names(graph))
    if graph.family == "layer":
        return frozenset((*structure_names(graph), *_counts_of(graph)))
    forms = _forms_of_bags(graph) if has_several_bags(graph) else FORMS
    arrays = {name for form in forms for name in (form.lists, form.picks)}
    numbers = {name for form in forms for name in (form.num_lists, form.num_picked) if name}
    return frozenset(numbers | arrays | {entry.name for entry in declared_in(graph)})


def prepare(
    graph: Graph, given: Mapping[str, Any], known: Mapping[str, int], negatives: int, checked: bool
) -> Structure:
    """The structure of one call.

    `given` holds index tensors of any integer type and numbers by name, `known` the sizes of sets, `negatives` how
    many a triple has. `checked` makes it read the ids' extremes, for which a GPU must be waited for. Raises InputError.
    """
    found = {name: _indices(value, name) for name, value in given.items() if name not in _numbers_of(graph)}
    if not found:
        raise InputError(f"{graph.name} needs its indices: {', '.join(structure_names(graph))}.")
    devices = {tensor.device for tensor in found.values()}
    if len(devices) > 1:
        raise InputError(f"The indices lie on different devices: {', '.join(sorted(map(str, devices)))}.")
    device = devices.pop()
    if graph.family == "layer":
        return _graph_structure(graph, found, given, known, device)
    build = _score_structure if graph.family == "score" else _list_structure
    if graph.family == "op" and has_several_bags(graph):
        build = _bags_structure
    narrow_ids = {name: _narrow(ids, name, checked) for name, ids in found.items()}
    made = build(graph, narrow_ids, given, negatives, checked)
    made.read = _read_there(found.values())
    return made


def _read_there(given: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Those of a call's index tensors that kernels may read where they are: what is written over them before gradients
    are asked for, as the next batch, would be read for them. PyTorch counts no changes of what inference has made."""
    return tuple(each for each in given if each.dtype == torch.int32 and not each.is_inference())


def _numbers_of(graph: Graph) -> frozenset[str]:
    """What of a structure is given as a number."""
    counts = {form.num_picked for form in _forms_of_bags(graph)} if graph.structure == "bags" else ()
    return frozenset((*_counts_of(graph), *NUMBERS, *counts))


def _indices(value: Any, name: str) -> Tensor:
    if not isinstance(value, torch.Tensor):
        raise InputError(f"{name} is a {type(value).__name__} where a tensor of indices is needed.")
    if value.dtype.is_floating_point or value.dtype.is_complex or value.dtype == torch.bool:
        raise InputError(f"{name} holds {value.dtype} where indices are whole numbers.")
    return value.detach()


def _narrow(ids: Tensor, name: str, checked: bool) -> Tensor:
    """The ids as int32 for kernels."""
    if checked and ids.numel():
        if ids.is_cuda:
            refuse_captures()
        low, high = (int(end) for end in torch.aminmax(ids))
        if low < 0 or high > MAX_COUNT:
            raise InputError(f"{name} holds {low if low < 0 else high}, which is not between 0 and {MAX_COUNT}.")
    return aligned(ids.to(torch.int32))


def bits_of(tensor: Tensor) -> Tensor:
    """A tensor of this processor as NumPy's: 16-bit floats, which it has not all of, as their bits."""
    array = (tensor.view(torch.int16) if tensor.dtype in (torch.float16, torch.bfloat16) else tensor).detach().numpy()
    return array.view(np.uint16) if array.dtype == np.int16 else array


def aligned(tensor: Tensor) -> Tensor:
    """The tensor as kernels can read it: itself, or a copy of one that is not contiguous, that begins between vectors,
    as the gradients do that torch.cat hands back, or whose memory holds its negative, as of a conjugate's imaginary
    part."""
    if tensor.is_neg():
        return tensor.resolve_neg().contiguous()
    if not tensor.is_contiguous():  # asked first, as PyTorch's operator takes longer to say that nothing is to be done
        tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % VECTOR_BYTES else tensor


def narrowed(
    given: Mapping[str, Tensor], rows: Mapping[str, int] | None
) -> tuple[dict[str, Tensor], Checked | None] | None:
    """Ids by name as int32 for kernels; None where `rows` says how many rows there are for each, and one has none. On a
    GPU they have rows, and whether these are theirs is said by the check, which is still to be waited for."""
    if rows is not None and all(ids.is_cuda for ids in given.values()):
        return _on_device(given, rows)
    found = {}
    for name, ids in given.items():
        if ids.is_cpu:
            found[name], least, greatest = narrow(ids.detach())
            if rows is not None and not (least >= 0 and greatest < rows[name]):
                return None
        elif rows is not None:
            return None
        else:
            found[name] = ids.detach().to(torch.int32)
    return {name: aligned(ids) for name, ids in found.items()}, None


def refuse_captures() -> None:
    """Raises InputError where a CUDA graph is captured: nothing can be said of ids before it runs."""
    if is_capturing():
        raise InputError(
            "Ids cannot be looked at while a CUDA graph is captured: make the module with check_indices=False, and "
            "call it once before."
        )


def _on_device(given: Mapping[str, Tensor], rows: Mapping[str, int]) -> tuple[dict[str, Tensor], Checked] | None:
    refuse_captures()
    if any(ids.numel() and not rows[name] for name, ids in given.items()):
        return None  # there is no row to take in an id's place
    device = next(iter(given.values())).device
    with current(device) as stream:
        return device_ids(device.index).narrow({name: (ids, rows[name]) for name, ids in given.items()}, stream)


def _highest(ids: Tensor, checked: bool) -> int:
    return int(ids.max()) if checked and ids.numel() else -1


def _score_structure(
    graph: Graph, found: dict[str, Tensor], given: Mapping[str, Any], negatives: int, checked: bool
) -> Structure:
    device = next(iter(found.values())).device
    made = Structure(device, {}, {"unit": 1})
    batch: int | None = None
    for entry in as_they_tell(graph.maps):
        if not is_given(entry):
            continue
        if entry.name not in found:
            raise InputError(f"There is no tensor for {entry.name}.")
        ids = found[entry.name]
        if not is_of_fact(entry):
            _add_declared(made, entry, found, checked)
            continue
        batch = len(ids) if batch is None and ids.ndim else batch
        lists = -(-(batch or 0) // entry.sharing)
        wanted = (lists,) if entry.domain == "batch" else (lists, negatives)
        if tuple(ids.shape) != wanted:
            shape = f"{'batch' if entry.sharing == 1 else 'chunks'} = {lists}"
            shape += "" if entry.domain == "batch" else f", negatives = {negatives}"
            raise InputError(f"{entry.name} has the shape {list(ids.shape)}, but is declared [{shape}].")
        made.maps[entry.name] = ids if entry.sharing == 1 else each_fact(ids, batch or 0, entry.sharing)
        made.counts[entry.domain] = prod(made.maps[entry.name].shape)
        made.highest[entry.name] = _highest(ids, checked)
    made.counts.setdefault("batch", batch or 0)
    return made


def each_fact(lists: Tensor, batch: int, sharing: int) -> Tensor:
    """The list of each fact, where chunks of so many facts share one."""
    return lists.index_select(0, torch.arange(batch, device=lists.device) // sharing)


def _list_structure(
    graph: Graph, found: dict[str, Tensor], given: Mapping[str, Any], negatives: int, checked: bool
) -> Structure:
    """An op's lists: compressed ones as they are, coordinates sorted by row."""
    form = form_of(found)
    if form is None:
        raise InputError(f"{graph.name} needs its indices: {', '.join(structure_names(graph))}.")
    sets, lists, picks = Sets.of(graph), found[form.lists], found[form.picks]
    _check_flat(form, found)
    made = Structure(lists.device, {}, {"unit": 1, sets.entry: len(picks)}, ordered=sets.entry)
    if form.compressed:
        if checked:
            _check_pointers(lists, form.lists, len(picks), form.picks)
        ends = lists
        positions = torch.arange(len(picks), dtype=torch.int32, device=lists.device)
        made.inverses[sets.home] = ends, positions
    else:
        if len(lists) != len(picks):
            raise InputError(
                f"{form.lists} has {len(lists):,} entries and {form.picks} {len(picks):,}, not one number."
            )
        owners = int(given.get(form.num_lists, _highest(lists, True) + 1))
        rows, made.order = torch.sort(lists, stable=True)
        if checked and len(rows) and int(rows[-1]) >= owners:
            raise InputError(f"{form.lists} holds {int(rows[-1]):,}, but {form.num_lists} is {owners:,}.")
        ends, positions = inverse(rows, owners)
        made.inverses[sets.home] = ends, positions
        made.maps[sets.home], picks = rows, picks.index_select(0, made.order)
    made.maps[sets.pick] = picks
    made.highest[sets.pick] = _highest(picks, checked)
    made.counts[sets.owner] = len(ends) - 1
    if form.num_picked in given:
        made.counts[sets.picked] = int(given[form.num_picked])
    for entry in declared_in(graph):
        _add_declared(made, entry, found, checked)
    return made


def _check_flat(form: Form, found: Mapping[str, Tensor]) -> None:
    for name in (form.lists, form.picks):
        if found[name].ndim != 1:
            raise InputError(f"{name} has the shape {list(found[name].shape)}, not [n].")


def _bags_structure(
    graph: Graph, found: dict[str, Tensor], given: Mapping[str, Any], negatives: int, checked: bool
) -> Structure:
    """The lists of each of an op's bags, as they are."""
    made = Structure(next(iter(found.values())).device, {}, {"unit": 1})
    bags = []
    for home, pick in listed_in(graph):
        form = form_of_bag(home.name)
        for name in (form.lists, form.picks):
            if name not in found:
                raise InputError(f"There is no tensor for {name}.")
        _check_flat(form, found)
        ends, picks = found[form.lists], found[form.picks]
        if checked:
            _check_pointers(ends, form.lists, len(picks), form.picks)
        positions = torch.arange(len(picks), dtype=torch.int32, device=made.device)
        made.inverses[home.name] = ends, positions
        made.maps[pick.name], made.highest[pick.name] = picks, _highest(picks, checked)
        made.counts |= {home.domain: len(picks), home.codomain: len(ends) - 1}
        if form.num_picked in given:
            rows = int(given[form.num_picked])
            if made.counts.setdefault(pick.codomain, rows) != rows:
                raise InputError(f"{form.num_picked} is {rows:,}, but another bag's is {made.counts[pick.codomain]:,}.")
        bags.append((form.lists, len(ends) - 1))
    check_bags(graph.name, bags)
    for entry in declared_in(graph):
        _add_declared(made, entry, found, checked)
    return made


def _add_declared(made: Structure, entry: IndexMap, found: Mapping[str, Tensor], checked: bool) -> None:
    """A map that a score's or an op's text declares, where entries are in the programs' order. Of what entries pick, or
    ids are of, it may tell how many there are."""
    if entry.name not in found:
        raise InputError(f"There is no tensor for {entry.name}.")
    ids = found[entry.name]
    length = made.counts.setdefault(entry.domain, len(ids) if ids.ndim else 0)
    if tuple(ids.shape) != (length,):
        there = f"there are {length:,} {plural(entry.domain)}"
        raise InputError(f"{entry.name} has the shape {list(ids.shape)}, but {there}.")
    if entry.codomain == made.ordered and made.order is not None:
        if checked and _highest(ids, True) >= len(made.order):
            raise InputError(f"{entry.name} holds {_highest(ids, True):,}, but there are {len(made.order):,}.")
        places = torch.arange(len(made.order), dtype=ids.dtype, device=ids.device)
        ids = made.leave(places, entry.codomain).index_select(0, ids)
    made.maps[entry.name] = made.enter(ids, entry.domain)
    made.highest[entry.name] = _highest(ids, checked)


def _check_pointers(ends: Tensor, name: str, entries: int, picks: str) -> None:
    if not len(ends) or int(ends[0]):
        raise InputError(f"{name} must begin with 0.")
    if bool((ends.diff() < 0).any()):
        raise InputError(f"{name} must not fall from one position to the next.")
    if int(ends[-1]) != entries:
        raise InputError(f"{name} ends with {int(ends[-1]):,}, but {picks} has {entries:,} entries.")


def _graph_structure(
    graph: Graph, found: dict[str, Tensor], given: Mapping[str, Any], known: Mapping[str, int], device: Any
) -> Structure:
    """A layer's graph, encoded."""
    numbers = {name: int(given[name]) for name in _counts_of(graph) if name in given}
    arrays = {name: ids.cpu().numpy() for name, ids in found.items()}
    encodings = encoded(graph_of({**arrays, **numbers}, graph, known), graph)

    def moved(array: Any) -> Tensor:
        return torch.from_numpy(array).to(device)

    return Structure(
        device=device,
        maps={name: moved(ids) for name, ids in encodings.maps.items()},
        counts={"unit": 1, **encodings.counts},
        values={"norm": moved(encodings.norm), "in_degree": moved(encodings.in_degree)},
        order=moved(encodings.edge_order).to(torch.int64),
        ordered="edge",
        edges=graph.edges,
    )
