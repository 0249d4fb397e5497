"""What an edited program has to agree on with the compiler's: what it reads, and what it gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.verify.module import written_by


class Misfit(NamedTuple):
    """A name that is not what it is in the model, and a sentence about it."""

    name: str
    message: str


def first_misfit(program: Any, made: Any) -> Misfit | None:
    """The first thing that an edited program has otherwise than the one that the compiler made; None if it fits."""
    if isinstance(made, Graph):
        return next(_of_graphs(program, made), None)
    return next(_of_programs(program, made), None)


def _of_graphs(graph: Graph, made: Graph) -> Iterator[Misfit]:
    if (graph.name, graph.family, graph.domain) != (made.name, made.family, made.domain):
        yield Misfit(graph.name, f"this graph is {made.family} {made.name}, and stays it")
    if graph.edges != made.edges:
        yield Misfit("edges", f"the model's edges are by {made.edges}, as the option edges says")
    yield from _sizes(dict(graph.sizes), dict(made.sizes))
    both: tuple[tuple[str, Any, Any], ...] = (
        ("map", graph.maps, made.maps),
        ("tensor", graph.tensors, made.tensors),
    )
    for kind, ours, theirs in both:
        known: dict[str, Any] = {entry.name: entry for entry in theirs}
        for entry in ours:
            if known.pop(entry.name, None) != entry:
                yield Misfit(entry.name, f"the model has no {kind} {entry.name} like this one")
        if known:
            yield Misfit("", f"the {kind} {next(iter(known))} of the model is missing")
        moved = next((one for one, other in zip(ours, theirs, strict=False) if one != other), None)
        if moved is not None:  # what a map is for is where it stands
            yield Misfit(moved.name, f"the {kind} {moved.name} stands in another place in the model")
    if len(graph.results) != len(made.results):
        yield Misfit("return", f"the model returns {len(made.results)} values, not {len(graph.results)}")
    for result, wanted in zip(map(graph.value, graph.results), map(made.value, made.results), strict=False):
        if (result.index_set, result.shape) != (wanted.index_set, wanted.shape):
            shape = f"{wanted.index_set} [{', '.join(map(str, wanted.shape))}]"
            yield Misfit(result.name, f"the result {result.name} is not {shape}, as the model's is")
    if [name for name, _ in graph.gradients] != [name for name, _ in made.gradients]:
        yield Misfit("gradient", "the gradients are not by the tensors that the model learns, in order")


def _of_programs(program: Any, made: Any) -> Iterator[Misfit]:
    if not isinstance(program, type(made)):
        yield Misfit("", f"this is no {type(made).__name__}")
        return
    if isinstance(made, Module):
        yield from _of_modules(program, made)
    ours, theirs = _each(program), _each(made)
    sizes = dict(pair for each in theirs for pair in each.sizes)
    given, own = _given(theirs), _given(ours)
    for each in ours:
        yield from _sizes(dict(each.sizes), sizes)
    outputs = _outputs(theirs)
    for name, buffer in own.items():
        if name not in given:
            read = ", ".join(sorted(given))
            yield Misfit(name, f"nothing gives the array {name}: the model has {read}")
        elif (buffer.extents, buffer.type) != (given[name].extents, given[name].type):
            yield Misfit(name, f"{_shown(buffer)} is {_shown(given[name])} in the model")
    made_of = _outputs(ours)
    for name in _results(made, outputs):
        if name not in made_of:
            yield Misfit(name, f"nothing makes {name}, which the model is to give")
        elif made_of[name].extents != outputs[name].extents:
            yield Misfit(name, f"{_shown(made_of[name])} is {_shown(outputs[name])} in the model")


def _of_modules(module: Module, made: Module) -> Iterator[Misfit]:
    if (module.results, module.gradients) != (made.results, made.gradients):
        yield Misfit(
            "module", "the first line says what the module gives: its results and its gradients stay as they are"
        )
    if (module.inverses, module.products) != (made.inverses, made.products):
        yield Misfit("module", "the first line says how index arrays are made: that stays as it is")
    if not module.programs:
        yield Misfit("module", "there is no program below the first line")
    names = [each.name for each in module.programs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        yield Misfit(twice, f"there are two programs {twice}")


def _each(program: Any) -> tuple[Any, ...]:
    return program.programs if isinstance(program, Module) else (program,)


def _sizes(ours: Mapping[str, int], theirs: Mapping[str, int]) -> Iterator[Misfit]:
    for name, size in ours.items():
        if theirs.get(name) != size:
            known = f"{name} is {theirs[name]}" if name in theirs else f"there is no size {name}"
            yield Misfit(name, f"{known} in the model: sizes are set in the text or under Sizes")


def _outputs(programs: tuple[Any, ...]) -> dict[str, Buffer]:
    """What programs make, by name."""
    made = [
        b for each in programs for b in each.buffers if b.kind in ("output", "temporary") or b.name in _written(each)
    ]
    return {buffer.name: buffer for buffer in made}


def _written(program: Any) -> frozenset[str]:
    return written_by(program) if isinstance(program, ScheduledKernel) else frozenset()


def _given(programs: tuple[Any, ...]) -> dict[str, Buffer]:
    """What programs read and none of them makes, by name."""
    made = {b.name for each in programs for b in each.buffers if b.kind == "output" or b.name in _written(each)}
    return {b.name: b for each in programs for b in each.buffers if b.name not in made}


def _results(made: Any, outputs: Mapping[str, Buffer]) -> tuple[str, ...]:
    """The arrays that are the model's: its results, and its gradients."""
    if isinstance(made, Module):
        return made.kept
    return tuple(outputs)


def _shown(buffer: Buffer) -> str:
    """`T[rows, D]`."""
    return f"{buffer.name}[{', '.join(map(str, buffer.extents))}]" if buffer.extents else buffer.name
