"""A compiled model as a module of PyTorch: `explorer.compile(text).torch(entity=14_541, relation=237)`.

Its forward takes the indices and the tensors that it holds no parameter for; its backward runs the compiled backward
pass. Both run where the tensors are, a GPU's on PyTorch's current stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import nn

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.graph import Graph, IndexMap
from explorer.compiler.ir.graph import Tensor as Declared
from explorer.compiler.ir.index_sets import factors, is_given
from explorer.compiler.returned import as_returned
from explorer.runtime.data.triples import InputError
from explorer.runtime.encode.layers import upstream_names
from explorer.runtime.encode.products import check_count
from explorer.runtime.torch.backward import BackwardPrograms
from explorer.runtime.torch.cache import Kept, OfIdentities
from explorer.runtime.torch.device_ids import Checked
from explorer.runtime.torch.differentiable import Differentiable
from explorer.runtime.torch.programs import Run, TensorProgram
from explorer.runtime.torch.repeated import Batches, OnStructure, RepeatedCall, repeats_on
from explorer.runtime.torch.streams import address_of_stream, is_capturing
from explorer.runtime.torch.structure import (
    DTYPES,
    Structure,
    Tensor,
    each_fact,
    known_names,
    narrowed,
    prepare,
    structure_names,
)

MOST_CALLS = 64
"""Kinds of calls that a module remembers."""
NOT_AGAIN, USUAL = object(), object()
"""In the place of what calls on a structure have in common: there was one of their kind, or they go the usual way."""


def make_module(
    compilation: Compilation, sizes: Mapping[str, int], padding: Mapping[str, int], check_indices: bool
) -> CompiledModule:
    """The module of a compilation; see `Compilation.torch`. Raises ValueError."""
    try:
        return CompiledModule(compilation, sizes, padding, check_indices)
    except InputError as error:
        raise ValueError(str(error)) from None


class CompiledModule(nn.Module):  # type: ignore[misc]  # type checking does without PyTorch's sources
    """A compiled score, layer or op, differentiable by its learnt tensors.

    A `param` whose sets all have a size is a parameter of the module, under its own name; every other tensor of the
    model is given to each call by its name. A `padding` row of a set is drawn as zeros and has no gradient, in every
    learnt tensor over the set. A call with wrong shapes, types, devices or ids raises ValueError.
    """

    def __init__(
        self, compilation: Compilation, sizes: Mapping[str, int], padding: Mapping[str, int], check_indices: bool
    ) -> None:
        super().__init__()
        self._forward = TensorProgram.of(compilation, grad=False)
        self._backward = BackwardPrograms(self._forward.compilation)  # compiled when gradients are first needed
        self.check_indices = check_indices
        graph = self._forward.graph
        self._calls: dict[Any, tuple[Structure, Mapping[str, int]]] = {}  # what calls were found to be, by their shapes
        self._repeated = OfIdentities[Batches | None]()  # and what such calls have in common on a GPU
        self._structures: Kept[Structure] = Kept()  # of the graphs that calls brought
        self._own = object()  # what this module has found of a structure, which others may take as well
        self._order, self._known = structure_names(graph), known_names(graph)
        # The tensors that a call needs: not those that the graph of a layer brings.
        self._declared = [tensor for tensor in graph.tensors if tensor.kind != "structure" or graph.family == "op"]
        self.learnt = frozenset(tensor.name for tensor in self._declared if graph.wants_gradient(tensor))
        self.set_sizes = _checked_sizes(graph, sizes)
        self.padding = _checked_padding(graph, padding, self.set_sizes)
        # By the name of a score's map, the set that it leads to, where tensors tell how large each of these is.
        told = {name for tensor in self._declared for name in tensor.sets}
        leads_to = {entry.name: entry.codomain for entry in graph.maps if is_given(entry)}
        self._leads_to = leads_to if told.issuperset(leads_to.values()) else {}
        # By the name of a map of lists that chunks of facts share, of how many facts these are.
        self._sharing = {entry.name: entry.sharing for entry in graph.maps if entry.sharing > 1}
        # By learnt tensor, the dimensions of which one row stands for nothing, and that row.
        self._padding = {
            tensor.name: tuple((place, padding[each]) for place, each in enumerate(tensor.sets) if each in padding)
            for tensor in _learnt(graph)
        }
        for tensor in _learnt(graph):
            if all(name in self.set_sizes for name in tensor.sets):
                self._register(tensor, graph)
        self._own_names = tuple(self._parameters)
        self.reset_parameters()

    @property
    def compilation(self) -> Compilation:
        """What the module computes, without the backward pass."""
        return self._forward.compilation

    def _register(self, tensor: Declared, graph: Graph) -> None:
        if hasattr(self, tensor.name):
            raise InputError(
                f"{tensor.name} is the name of something that every module of PyTorch has: call it otherwise."
            )
        shape = [*(self.set_sizes[name] for name in tensor.sets), *map(graph.size, tensor.dims)]
        self.register_parameter(tensor.name, nn.Parameter(torch.empty(shape, dtype=DTYPES[tensor.storage])))

    def reset_parameters(self) -> None:
        """Draws all parameters: normal, with a deviation of 1 / sqrt(last dimension)."""
        for name, parameter in self.named_parameters():
            nn.init.normal_(parameter, std=max([1, *parameter.shape[-1:]]) ** -0.5)
            with torch.no_grad():
                self.pad(name, parameter)

    def pad(self, name: str, rows: Tensor) -> Tensor:
        """Those of a learnt tensor, or of its gradient, with zeros where they stand for nothing; changed in place."""
        for place, row in self._padding.get(name, ()):
            rows.select(place, row).zero_()
        return rows

    def extra_repr(self) -> str:
        """The model's name, sizes and options, where a module is printed."""
        sizes = {**self.compilation.sizes, **self.set_sizes}
        return ", ".join([self.compilation.name, *(f"{name}={size}" for name, size in sizes.items())])

    def prepare(self, *indices: Tensor, **named: Any) -> Structure:
        """The indices of a call, checked, narrowed to int32 and encoded, for any number of calls.

        Scores take their maps (h, r, t, corrupted ids [B, negatives]); layers src, dst, etype, ntype and num_nodes,
        num_etypes, num_ntypes where no tensor tells them (between two sets num_users and num_items, as they are called,
        and no ntype); ops ptr and idx, ptr and blocks, rowptr or row and col.
        Raises ValueError."""
        try:
            return self._prepare(indices, named, {})
        except InputError as error:
            raise ValueError(str(error)) from None

    def forward(self, *indices: Any, **named: Any) -> Tensor | tuple[Tensor, ...]:
        """The result, a tuple of several: of `prepare`'s arguments or of what it returned, and of tensors by name.

        A tensor given by the name of a parameter takes its place in this call."""
        try:
            known = self._known
            tensors = {**self._held(), **{n: v for n, v in named.items() if n not in known}}
            given = {n: v for n, v in named.items() if n in known}
            if indices and isinstance(indices[0], Structure):
                if given or len(indices) > 1:
                    raise InputError("A call takes either a prepared structure or its indices, not both.")
                structure = indices[0].apart() if is_capturing() else indices[0]
                return self._run(self._on_structure(structure, tensors), tensors)
            call = self._called(indices, given, tensors)
            try:
                return self._run(call, tensors)
            finally:
                if call.checked is not None and not call.checked.wait():
                    self._refuse(indices, given, tensors)
        except InputError as error:
            raise ValueError(str(error)) from None

    def _held(self) -> dict[str, Tensor]:
        """The module's parameters, or what is in the place of one: DataParallel's replicas have copies that are none,
        and one with a parametrization is computed."""
        held = {name: each for name, each in self._parameters.items() if each is not None}
        for name in self._own_names:
            if name not in self._parameters and (each := getattr(self, name, None)) is not None:
                held[name] = each
        return held

    def _run(self, call: _Call | RepeatedCall, tensors: Mapping[str, Tensor]) -> Tensor | tuple[Tensor, ...]:
        tensors = self._needed(tensors)
        if not torch.is_grad_enabled():
            return as_returned(call.results(tensors))
        return as_returned(Differentiable.apply(self, call, tuple(tensors), *tensors.values()))

    def _needed(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Those that a call needs, in the order in which they are declared."""
        return {declared.name: tensors[declared.name] for declared in self._declared if declared.name in tensors}

    def _refuse(self, indices: tuple[Any, ...], named: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> NoReturn:
        """Raises InputError for a call in which an id has no row."""
        self._check(self._prepare(indices, named, tensors), tensors)
        raise InputError("An id has no row, or was changed while it was looked at.")

    def backward_program(self, frozen: frozenset[str] = frozenset()) -> TensorProgram:
        """The program with the backward pass, but for the gradients of what is `frozen`."""
        return self._backward.of(frozen)

    def run_forward(
        self, structure: Structure, counts: Mapping[str, int], tensors: Mapping[str, Tensor]
    ) -> tuple[Tensor, ...]:
        """The results alone."""
        return self._forward.run(structure, counts, tensors)[0]

    def start(
        self, frozen: frozenset[str], structure: Structure, counts: Mapping[str, int], tensors: Mapping[str, Tensor]
    ) -> tuple[tuple[Tensor, ...], Run | None]:
        """The results, where gradients will be wanted but for those of what is `frozen`: with what the backward pass
        goes on with, where it can."""
        try:
            begun = self._backward.start(frozen, structure, counts, tensors)
        except InputError:  # there is no backward pass, which is only a mistake when somebody asks for it
            begun = None
        return begun or (self.run_forward(structure, counts, tensors), None)

    def run_backward(
        self,
        frozen: frozenset[str],
        structure: Structure,
        counts: Mapping[str, int],
        tensors: Mapping[str, Tensor],
        upstreams: tuple[Tensor, ...],
    ) -> dict[str, Tensor]:
        """The gradients by tensor, where those of the results are `upstreams`."""
        program = self.backward_program(frozen)
        given = dict(zip(upstream_names(program.graph), upstreams, strict=True))
        return program.run(structure, counts, {**tensors, **given})[1]

    def _called(
        self, indices: tuple[Any, ...], named: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> _Call | RepeatedCall:
        """What a call is: one of a score like an earlier one has that one's sizes, where its ids need not be looked at
        or have their rows; a graph or a matrix whose tensors are an earlier call's has its structure."""
        ids = {**dict(zip(self._order, indices, strict=False)), **named}
        like = None
        alike = not self.check_indices or self._leads_to
        if self._forward.graph.family == "score" and alike and len(indices) <= len(self._order):
            given = (*ids.items(), *tensors.items())
            like = (
                torch.is_grad_enabled(),
                self.check_indices,
                *[(name, type(each), *_kind(each)) for name, each in given],
            )
            repeated = self._repeated.get(like)
            if repeated is not None and not is_capturing():
                return repeated.call(ids)
            if (known := self._calls.get(like)) is not None:  # at once, for another thread may drop it
                structure, counts = known
                rows = {name: counts[index_set] for name, index_set in self._leads_to.items()}
                found = narrowed(ids, rows if self.check_indices else None)
                if found is not None:  # or all is looked at, to say what is wrong
                    maps, checked = found
                    if like not in self._repeated and self._leads_to and repeats_on(structure.device):
                        self._repeated[like] = self._batches(ids, rows, counts, tensors)
                    for name, sharing in self._sharing.items():
                        maps[name] = each_fact(maps[name], counts["batch"], sharing)
                    read = () if checked else ids.values()  # a GPU's that are checked were copied
                    return _Call(self, structure.with_maps(maps, read), counts, checked)
        structure = self._structure(ids, indices, named, tensors)
        if like is None:
            return self._on_structure(structure, tensors)
        counts = self._check(structure, tensors)
        if len(self._calls) >= MOST_CALLS:
            eldest, *_ = self._calls
            self._calls.pop(eldest, None)
            self._repeated.pop(eldest, None)
        self._calls[like] = structure.with_maps({}), counts
        return _Call(self, structure, counts)

    def _on_structure(self, structure: Structure, tensors: Mapping[str, Tensor]) -> _Call | RepeatedCall:
        """A call on a structure: on a GPU, what calls of its kind have in common is found with the second."""
        counts = self._check(structure, tensors)
        if not repeats_on(structure.device):
            return _Call(self, structure, counts)
        # On another stream, what was found of a structure may not be there yet.
        key = self._own, id(counts), torch.is_grad_enabled(), address_of_stream(structure.device.index)
        common = structure.repeated.get(key)
        if common is None:
            structure.repeated[key] = NOT_AGAIN
        elif common is NOT_AGAIN:
            needed = self._needed(tensors)
            program = self._program_of(needed)
            common = (program and OnStructure.of(program, structure, counts, needed)) or USUAL
            structure.repeated[key] = common
        return common.call() if isinstance(common, OnStructure) else _Call(self, structure, counts)

    def _batches(
        self,
        ids: Mapping[str, Tensor],
        rows: Mapping[str, int],
        counts: Mapping[str, int],
        tensors: Mapping[str, Tensor],
    ) -> Batches | None:
        """What calls of a score like this one have in common, on a GPU; None where they go the usual way."""
        needed = self._needed(tensors)
        program = None if self._sharing else self._program_of(needed)
        return Batches.of(program, ids, rows, counts, needed, self.check_indices) if program else None

    def _program_of(self, tensors: Mapping[str, Tensor]) -> TensorProgram | None:
        """The program of a call with these tensors, None where it has gradients that there are not."""
        wanted = {name for name, each in tensors.items() if each.requires_grad and torch.is_grad_enabled()}
        if not wanted:
            return self._forward
        try:
            return self.backward_program(self.learnt - wanted) if wanted <= self.learnt else None
        except InputError:  # there is no backward pass
            return None

    def _structure(
        self, ids: Mapping[str, Any], indices: tuple[Any, ...], named: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> Structure:
        """The structure of a call, of which a layer's or an op's is kept for the next one."""
        if self._forward.graph.family == "score":  # whose batches do not come again
            return self._prepare(indices, named, tensors)
        if is_capturing():
            raise InputError(
                "A CUDA graph would keep the indices of this call, whatever is brought to it later: give the call a "
                "structure that prepare(...) returned."
            )
        given = {name: each for name, each in ids.items() if isinstance(each, torch.Tensor)}
        numbers = tuple((name, each) for name, each in ids.items() if name not in given)
        whole = all(isinstance(each, int) for _, each in numbers) and len(indices) <= len(self._order)
        if not given or not whole:
            return self._prepare(indices, named, tensors)
        shapes = tuple((name, tuple(getattr(each, "shape", ()))) for name, each in tensors.items())
        rest = numbers, shapes, self.check_indices
        return self._structures.get(given, rest, lambda: self._prepare(indices, named, tensors))

    def _prepare(self, indices: tuple[Any, ...], named: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Structure:
        graph = self._forward.graph
        order, known = self._order, self._known
        for name in named:
            if name not in known:
                raise InputError(f"{graph.name} has no indices {name}: they are {', '.join(sorted(known))}.")
        if len(indices) > len(order):
            raise InputError(f"{graph.name} takes {len(order)} index tensors ({', '.join(order)}), not {len(indices)}.")
        given = {**dict(zip(order, indices, strict=False)), **named}
        sizes = dict(self.set_sizes)
        for declared in graph.tensors:
            if declared.name in tensors:
                sizes |= dict(zip(declared.sets, tensors[declared.name].shape, strict=False))
        negatives = self.compilation.options.negatives
        return prepare(graph, given, sizes, negatives.count if negatives else 0, self.check_indices)

    def _check(self, structure: Structure, tensors: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The sizes of all sets, where every tensor is there and fits, and all ids have their rows."""
        like = self._own, tuple([(name, *_kind(each)) for name, each in tensors.items()])
        if like not in structure.fitting:
            if len(structure.fitting) >= MOST_CALLS:
                structure.fitting.clear()
                structure.repeated.clear()
            structure.fitting[like] = self._looked_at(structure, tensors)
        return structure.fitting[like]

    def _looked_at(self, structure: Structure, tensors: Mapping[str, Tensor]) -> dict[str, int]:
        graph = self._forward.graph
        if structure.edges not in ("", graph.edges):
            had = f"This graph was prepared with its edges by {structure.edges}"
            raise InputError(f"{had}, and {graph.name} has them by {graph.edges}.")
        counts, tables = dict(structure.counts), dict[str, str]()
        for declared in self._declared:
            if declared.name not in tensors:
                needs = " or ".join(f"{name}=..." for name in declared.sets)
                held = f", or make the module with .torch({needs})" if declared.kind == "param" and needs else ""
                raise InputError(f"There is no tensor for {declared.name}: give {declared.name}=...{held}.")
            _check_tensor(declared, graph, tensors[declared.name], structure, counts)
            tables |= {name: tables.get(name, declared.name) for name in declared.sets}
        for name, row in self.padding.items():
            if row >= counts[name]:
                raise InputError(f"the padding of {name} is row {row:,}, but there are {counts[name]:,}.")
        unknown = tensors.keys() - {declared.name for declared in self._declared}
        if unknown:
            named = ", ".join(declared.name for declared in self._declared)
            raise InputError(f"{graph.name} has no tensor {min(unknown)}: its tensors are {named}.")
        told = frozenset(counts)  # of others, as many as their ids need: a score may have a table of quotients alone
        for entry in graph.maps:
            if entry.computed:
                _check_made(entry, graph, counts, tables)
                continue
            least, rows = structure.highest.get(entry.name, -1) + 1, counts.get(entry.codomain, 0)
            if entry.codomain in told and least > rows:
                table = tables.get(entry.codomain, graph.name)
                raise InputError(f"{entry.name} holds {least - 1:,}, but {table} has {rows:,} rows.")
            counts[entry.codomain] = max(least, rows)
        return counts


def _check_made(entry: IndexMap, graph: Graph, counts: dict[str, int], tables: Mapping[str, str]) -> None:
    """Whether tensors have a row for each id that may be computed of others."""
    sets, rows = factors(graph.maps, entry), counts.get(entry.codomain)
    check_count(entry, sets, counts)
    wanted = entry.count([counts[each] for each in sets])
    counts[entry.codomain] = wanted if rows is None else rows
    if rows is not None and rows < wanted:
        table = tables.get(entry.codomain, graph.name)
        raise InputError(f"{entry.name} leads to {wanted:,} rows, but {table} has {rows:,}.")


@dataclass(frozen=True, eq=False)
class _Call:
    """A call of any kind: its structure, the sizes of all sets, and where a GPU checks ids, what it will say."""

    module: CompiledModule
    structure: Structure
    counts: Mapping[str, int]
    checked: Checked | None = None

    @property
    def read(self) -> tuple[Tensor, ...]:
        """The caller's own tensors of indices that gradients will be made of."""
        return self.structure.read

    def results(self, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """The results alone."""
        return self.module.run_forward(self.structure, self.counts, tensors)

    def start(self, frozen: frozenset[str], tensors: Mapping[str, Tensor]) -> tuple[tuple[Tensor, ...], Run | None]:
        """The results, where gradients will be wanted but for those of what is `frozen`: with what the backward pass
        goes on with, where it can."""
        return self.module.start(frozen, self.structure, self.counts, tensors)

    def gradients(
        self, frozen: frozenset[str], begun: Any, tensors: Mapping[str, Tensor], upstreams: tuple[Tensor, ...]
    ) -> dict[str, Tensor]:
        """The gradients by tensor, where those of the results are `upstreams`."""
        if begun is not None:
            return self.module.backward_program(frozen).finish(begun, upstreams)
        return self.module.run_backward(frozen, self.structure, self.counts, tensors, upstreams)


def _kind(each: Any) -> tuple[Any, ...]:
    """A tensor's shape, type and device, and whether it wants a gradient."""
    return (each.shape, each.dtype, each.device, each.requires_grad) if isinstance(each, torch.Tensor) else ()


def _learnt(graph: Graph) -> list[Declared]:
    return [tensor for tensor in graph.tensors if tensor.kind == "param"]


def _checked_sizes(graph: Graph, sizes: Mapping[str, int]) -> dict[str, int]:
    sets = sorted({name for tensor in _learnt(graph) for name in tensor.sets})
    for name, size in sizes.items():
        if name not in sets:
            raise InputError(f"{graph.name} has no parameter over {name}: its parameters are over {', '.join(sets)}.")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise InputError(f"{name} is a number of rows, not {size!r}.")
    return dict(sizes)


def _checked_padding(graph: Graph, padding: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, int]:
    sets = sorted({name for tensor in _learnt(graph) for name in tensor.sets})
    for name, row in padding.items():
        if name not in sets:
            raise InputError(f"{graph.name} has no parameter over {name} to pad: they are over {', '.join(sets)}.")
        if not isinstance(row, int) or isinstance(row, bool) or not 0 <= row < sizes.get(name, row + 1):
            raise InputError(f"the padding of {name} is one of its rows, not {row!r}.")
    return dict(padding)


def _check_tensor(declared: Declared, graph: Graph, tensor: Any, structure: Structure, counts: dict[str, int]) -> None:
    """Raises InputError for a tensor that does not fit; learns the sizes of sets that nothing told yet."""
    name = declared.name
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"{name} is a {type(tensor).__name__} where a tensor is needed.")
    if tensor.dtype != DTYPES[declared.storage]:
        told = "compiled kernels compute in" if declared.storage == "f32" else "it is declared to be stored in"
        raise InputError(f"{name} holds {tensor.dtype}, but {told} {DTYPES[declared.storage]}.")
    if tensor.device != structure.device:
        raise InputError(f"{name} lies on {tensor.device}, but the indices on {structure.device}.")
    wanted = [*(counts.get(index_set) for index_set in declared.sets), *map(graph.size, declared.dims)]
    if tensor.ndim != len(wanted) or any(
        size not in (None, given) for size, given in zip(wanted, tensor.shape, strict=True)
    ):
        pairs = zip((*declared.sets, *declared.dims), wanted, strict=True)
        shape = ", ".join(str(extent) if size in (None, extent) else f"{extent} = {size}" for extent, size in pairs)
        raise InputError(f"{name} has the shape {list(tensor.shape)}, but is declared [{shape}].")
    counts.update(zip(declared.sets, tensor.shape, strict=False))
