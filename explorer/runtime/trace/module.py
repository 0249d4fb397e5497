"""A traced module's replacement: its parameters under their names, and the compiled text's forward and backward."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import nn

from explorer.compiler.returned import each_returned
from explorer.runtime.torch.cache import Kept
from explorer.runtime.trace.joins.joined import stacks_of
from explorer.runtime.trace.tapes.arguments import Arguments
from explorer.runtime.trace.tapes.ids import Column, Ids
from explorer.runtime.trace.tapes.nested import matrix_taken_apart, put_together
from explorer.runtime.trace.tapes.recorded import ROWS, TOGETHER, place_of
from explorer.runtime.trace.texts.written import OWN, Result, Written
from explorer.runtime.trace.values.tensors import NO_ROWS

Modes = tuple[bool, ...]
"""Whether a module, and each within it, is in training: first itself, then what each of its modules has."""


def modes_of(module: Any) -> Modes:
    """The modes of a module and all within it."""
    found = list[bool]()
    _add_modes(module, found)
    return tuple(found)


def _add_modes(module: Any, found: list[bool]) -> None:
    found.append(module.training)
    for inner in module._modules.values():
        if inner is not None:
            _add_modes(inner, found)


@dataclass(frozen=True)
class Binding:
    """How a text is called for a module: `paths` are by the name of a tensor in the text, of parameters and buffers, or
    the places of arguments; `whole` is what ids are made of; `modes` are those, of all modules within, that the text is
    of; `form` is what the results are in, at their `places`."""

    written: Written
    ids: Ids
    arguments: Arguments
    paths: Mapping[str, str]
    whole: frozenset[str]
    modes: frozenset[Modes]
    form: Any
    places: tuple[str, ...]

    @cached_property
    def argument_places(self) -> Mapping[str, str]:
        """The places of arguments that are tensors, by their names."""
        return {name: place_of(name) for name in self.arguments.forms}

    @cached_property
    def steps(self) -> Mapping[str, tuple[tuple[str, ...], str]]:
        """By path, the modules that lead to a parameter or buffer, and its name there."""
        paths = {
            path
            for path in (*self.paths.values(), *self.whole, *self.of_lengths)
            if path not in self.argument_places.values()
        }
        paths = {each.partition(ROWS)[0] for path in paths for each in path.split(TOGETHER)}
        return {path: (tuple(path.split(".")[:-1]), path.rpartition(".")[2]) for path in paths}

    @cached_property
    def handed(self) -> tuple[Column | None, ...] | None:
        """The columns of inputs that a score's ids are, in its order, None for those that nothing reads; None of all
        where some are made otherwise, or tensors of them."""
        columns, maps = self.ids.columns, self.written.ids.values()
        read = {*maps} - {""}
        if columns is None or self.written.made_of_ids or not read or not columns.keys() >= read:
            return None
        return tuple(columns[of] if of else None for of in maps)

    @cached_property
    def of_rows(self) -> tuple[str, ...]:
        """The tensors that others are made of, which a call has itself."""
        return tuple(name for sources in self.written.padded.values() for name in sources if name in self.paths)

    @cached_property
    def of_lengths(self) -> frozenset[str]:
        """The paths of tables whose rows are kinds of nodes."""
        return frozenset(rows.place for places in self.written.sizes.values() for rows in places) - self.whole

    def returned(self, results: Iterable[Any]) -> Any:
        """What the module returns, of its results in their order."""
        return put_together(self.form, dict(zip(self.places, results, strict=True)))


class TracedModule(nn.Module):  # type: ignore[misc]  # type checking does without PyTorch's sources
    """What `Traced.module` returns. It shares its parameters and buffers with the module that was traced.

    It is called as that one was: tensors in the same places, anything else but numbers of rows with the same values.
    Raises ValueError for calls that the trace is not of."""

    def __init__(self, original: Any, compiled: Any, binding: Binding) -> None:
        super().__init__()
        _share(original, self)
        self.training = original.training
        self._unread: Any = None
        self._graphs: Kept[Mapping[str, Any]] = Kept()  # the ids of those that were brought last
        self._held = compiled, binding  # in a tuple, so that the compiled module is no part of this one's state

    def extra_repr(self) -> str:
        """The text's name."""
        return f"traced, {self._held[0].compilation.name}"

    def forward(self, *args: Any, **named: Any) -> Any:
        """What the traced module returns."""
        compiled, binding = self._held
        if modes_of(self) not in binding.modes:
            mode = "training" if self.training else "evaluation"
            raise ValueError(
                f"this was not traced in {mode}, or not with each module in the mode that it is in now, in which it "
                "may do something else: trace it again."
            )
        places = binding.argument_places
        inputs = {places[name]: each for name, each in binding.arguments.tensors(args, named).items()}
        tensors = {
            name: _rows(self._tensor(binding.paths[name], inputs), table) for name, table in binding.written.own.items()
        }
        for name in binding.of_rows:
            tensors[name] = _rows(self._tensor(binding.paths[name], inputs), True)
        if binding.handed is not None and binding.written.family == "score":
            handed = [column and column.of(self._tensor(column.source, inputs)) for column in binding.handed]
            if None in binding.handed:
                unread = self._zeros(next(each for each in handed if each is not None))
                handed = [unread if each is None else each for each in handed]
            return binding.returned(_of_score(compiled, binding.written, handed, tensors))
        whole = {path: self._tensor(path, inputs) for path in binding.whole}
        if binding.written.family == "layer":
            return binding.returned(self._of_layer(whole, inputs, tensors))
        ids = binding.ids.of(whole)
        made = binding.written.given_by_ids(ids)
        tensors |= {name: _rows(each, binding.written.tensors[name]) for name, each in made.items()}
        return binding.returned(self._score(compiled, binding.written, ids, tensors))

    def _of_layer(self, whole: Mapping[str, Any], inputs: Mapping[str, Any], tensors: dict[str, Any]) -> list[Any]:
        """The results of a compiled layer, on the graph that the `whole` of its ids tells."""
        compiled, binding = self._held
        written = binding.written
        brought = {path: each for path, each in whole.items() if each.dim() and not each.is_floating_point()}
        sizes = tuple([(path, each.shape, each.device) for path, each in whole.items()])
        counts = tuple([int(inputs[place_of(name)]) for name in binding.arguments.numbered])
        lengths = written.lengths({**whole, **{path: self._tensor(path, inputs) for path in binding.of_lengths}})
        rest = sizes, counts, len(tensors[written.counted]) if written.counted in tensors else 0

        def made_anew() -> dict[str, Any]:
            found = binding.ids.of(whole)
            nodes = written.nodes(found, tensors, lengths)
            return _apart(_with_own(written, written.with_types(found, nodes, lengths), nodes))

        ids = self._graphs.get(brought, rest, made_anew)
        nodes = written.nodes(ids, tensors, lengths)
        made = written.given_by_ids(ids)
        tensors |= {name: _rows(each, written.tensors.get(name, True)) for name, each in made.items()}
        for name, rows in stacks_of(written.typed).items():
            parts = [row.of(_rows(self._tensor(binding.paths[row.name], inputs), False)) for row in rows]
            tensors[name] = _rows(torch.stack(parts), True)
        padded = written.with_padded(ids, tensors, lengths) if written.typed else tensors
        graph = {role: ids[of] for role, of in written.ids.items()}
        made_by_text = each_returned(compiled.forward(**graph, **written.extents(ids, nodes), **padded))
        results = written.of_results(made_by_text, ids, lengths)
        return [_shaped(*each) for each in zip(results, written.results, strict=True)]

    def _zeros(self, like: Any) -> Any:
        """Ids that nothing reads, as many as others, and kept for the next call."""
        if self._unread is None or (self._unread.shape, self._unread.device) != (like.shape, like.device):
            self._unread = torch.zeros_like(like, dtype=torch.int32)
        return self._unread

    def _tensor(self, path: str, inputs: Mapping[str, Any]) -> Any:
        if path in inputs:
            return inputs[path]
        if ROWS in path:
            whole, _, places = path.partition(ROWS)
            return self._tensor(whole, inputs)[slice(*map(int, places.split(":")))]
        if TOGETHER in path:
            return torch.cat([self._tensor(each, inputs) for each in path.split(TOGETHER)])
        found: Any = self
        within, name = self._held[1].steps[path]
        for each in within:
            if each not in found._modules:
                return matrix_taken_apart(each, getattr(found, each))[1][f"{each}.{name}"]
            found = found._modules[each]
        parameter = found._parameters.get(name)  # a module's attributes are looked for in Python, after all else
        return getattr(found, name) if parameter is None else parameter

    def _score(self, compiled: Any, written: Written, ids: Mapping[str, Any], tensors: Mapping[str, Any]) -> list[Any]:
        rows = (each for name, each in tensors.items() if written.tensors[name])
        like = next((ids[of] for of in written.ids.values() if of in ids), None)
        like = next(rows) if like is None else like
        count, device = len(like), like.device
        handed = []
        for of in written.ids.values():
            if of in ids:
                handed.append(ids[of])
            else:
                made = torch.arange if of == OWN else torch.zeros
                handed.append(made(count, dtype=torch.int32, device=device))
        return _of_score(compiled, written, handed, tensors)


def _of_score(compiled: Any, written: Written, ids: Sequence[Any], tensors: Mapping[str, Any]) -> list[Any]:
    """The results of a compiled score, in the shapes of the module's."""
    results = each_returned(compiled.forward(*ids, **tensors))  # whose hooks are nobody's
    return [_shaped(*each) for each in zip(results, written.results, strict=True)]


def _with_own(written: Written, ids: Mapping[str, Any], nodes: int) -> Mapping[str, Any]:
    """Ids, with the nodes' own numbers where the text has them."""
    if OWN not in written.ids.values():
        return ids
    like = next(each for each in ids.values() if each.dim())
    return {**ids, OWN: torch.arange(nodes, dtype=torch.int32, device=like.device)}


def _apart(ids: Mapping[str, Any]) -> dict[str, Any]:
    """Ids as tensors of their own, so that keeping them keeps nobody else's."""
    return {of: each.detach() for of, each in ids.items()}


def _shaped(result: Any, form: Result) -> Any:
    """A result in the shape of the module's: with its rows where these are, and its dimensions of one."""
    if form.set_at == NO_ROWS:
        return result.reshape(form.shape)
    if len(form.shape) == result.dim() == 1:
        return result
    before = sum(size != 1 for size in form.shape[: form.set_at])
    shape = [len(result) if at == form.set_at else size for at, size in enumerate(form.shape)]
    moved = result.movedim(0, before) if before else result
    return moved if list(moved.shape) == shape else moved.reshape(shape)


def _rows(tensor: Any, table: bool) -> Any:
    """A tensor in the shape that the text declares it in: rows, if it is a table, and no dimensions of one; a
    number is one element."""
    shape = _declared(tensor.shape, table)
    return tensor if shape is None else tensor.reshape(shape)


@lru_cache(maxsize=1_024)
def _declared(shape: tuple[int, ...], table: bool) -> tuple[int, ...] | None:
    """That shape, of a tensor's; None where it is the same."""
    kept, inner = (shape[:1], shape[1:]) if table else ((), shape)
    if 1 not in inner and shape:
        return None
    return (*kept, *(size for size in inner if size != 1)) or (1,)


def _share(original: Any, to: Any) -> None:
    """Gives a module the parameters, buffers and inner modules of another, and nothing of what these compute."""
    for name, parameter in original._parameters.items():
        to.register_parameter(name, parameter)
    for name, buffer in original._buffers.items():
        to.register_buffer(name, buffer, persistent=name not in original._non_persistent_buffers_set)
    for name, inner in original._modules.items():
        if inner is not None:
            held = nn.Module()
            held.training = inner.training
            _share(inner, held)
            to.add_module(name, held)
