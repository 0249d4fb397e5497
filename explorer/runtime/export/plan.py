"""What an extension does: a compilation's launches as calls, each of arrays and sizes, with what it makes.

A call is a function of the extension. The results are one; with a backward pass its launches are others, in two parts
where the kernels allow it (`divide`), and what depends on a graph alone is a call of its own, made once a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from explorer.compiler.codegen.text import Code, Launch
from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.kernels import Count
from explorer.compiler.ir.loops import Buffer, Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Line
from explorer.runtime.arrays import as_declared, inputs_of, kernels_of
from explorer.runtime.data.triples import InputError
from explorer.runtime.encode.bags import has_several_bags
from explorer.runtime.encode.declared import declared_in
from explorer.runtime.encode.layers import upstream_names
from explorer.runtime.liveness import kept_to_the_end
from explorer.runtime.targets.parts import divide


@dataclass(frozen=True)
class Call:
    """One function: the launches, the arrays that it is given and those that it returns, the sizes that it is told,
    the numbers that follow from these, and the arrays that it needs while it runs.
    `constants` are sizes that the text fixes."""

    name: str
    launches: tuple[Launch, ...]
    given: tuple[Buffer, ...]
    made: tuple[Buffer, ...]
    sizes: tuple[str, ...]
    counts: tuple[tuple[str, Count], ...]
    between: tuple[Buffer, ...]
    constants: tuple[tuple[str, int], ...]

    def last_use(self, name: str) -> int:
        """The number of the last launch that names an array."""
        return max(at for at, launch in enumerate(self.launches) if name in launch.arguments)


@dataclass(frozen=True)
class Program:
    """A text of CUDA and its calls: `inspect` is made once a graph, None where nothing is; `run` makes the results, or
    where the program has a backward pass in one, the gradients; `rest` is the second of two parts, or None."""

    name: str
    lines: tuple[Line, ...]
    launches: tuple[Launch, ...]
    buffers: Mapping[str, Buffer]
    inspect: Call | None
    run: Call
    rest: Call | None

    @property
    def calls(self) -> tuple[Call, ...]:
        """All that there are."""
        return tuple(call for call in (self.inspect, self.run, self.rest) if call is not None)


@dataclass(frozen=True)
class Plan:
    """A model's programs. `outputs` are the arrays of what it returns, in order, of which one may be there twice, and
    `upstreams` those of their gradients. `gradients` is None for one that is exported without; `slopes` are by tensor
    the array that is its gradient; `derived` is the compilation with the backward pass, its results in kernels of their
    own where that has the launches in two parts, as `c.torch()` has them."""

    compilation: Compilation
    result: Program
    gradients: Program | None
    outputs: tuple[str, ...]
    slopes: tuple[tuple[str, str], ...]
    upstreams: tuple[str, ...]
    derived: Compilation | None = None

    @classmethod
    def of(cls, compilation: Compilation, grad: bool) -> Plan:
        """The programs of a compilation. Raises InputError for what has no kernels for a GPU, and where `grad` is
        asked for and there is no backward pass."""
        plain = compilation.with_options(grad=False) if compilation.options.grad else compilation
        code, loops = _code(plain)
        _refuse(compilation)
        outputs = _outputs(loops)
        result = _program("result", code, loops, outputs)
        if not grad:
            return cls(plain, result, None, outputs, (), ())
        derived = compilation if compilation.options.grad else compilation.with_options(grad=True)
        program, slopes, upstreams = _derived(derived)
        if program.rest is None and derived.may_part:  # what kernels of both make would be made twice
            parted = derived.with_options(apart=True)
            in_two, own_slopes, _ = _derived(parted)
            if in_two.rest is not None:
                derived, program, slopes = parted, in_two, own_slopes
        return cls(plain, result, program, outputs, slopes, upstreams, derived)

    @cached_property
    def graph(self) -> Graph:
        """The model's graph."""
        graph = self.compilation.stages["graph"].program
        assert isinstance(graph, Graph)
        return graph

    @cached_property
    def derived_graph(self) -> Graph:
        """The graph with the backward pass, which has maps of its own; the model's where there is none."""
        if self.derived is None:
            return self.graph
        graph = self.derived.stages["graph"].program
        assert isinstance(graph, Graph)
        return graph

    @property
    def programs(self) -> tuple[Program, ...]:
        """One or two."""
        return (self.result,) if self.gradients is None else (self.result, self.gradients)


def _refuse(compilation: Compilation) -> None:
    """An extension has a score's ids by fact alone, and one bag."""
    graph = compilation.stages["graph"].program
    if isinstance(graph, Graph) and graph.family == "op" and has_several_bags(graph):
        raise InputError(f"an extension of an op has one bag, and {graph.name} several: c.torch() takes them")
    if isinstance(graph, Graph) and graph.family == "score" and declared_in(graph):
        names = ", ".join(entry.name for entry in declared_in(graph))
        raise InputError(f"an extension of a score has the maps of facts alone, and this one declares {names}")


def _outputs(loops: Kernel | Module) -> tuple[str, ...]:
    """The arrays of what the definition returns, in order."""
    return loops.results if isinstance(loops, Module) else kept_to_the_end(loops)


def _code(compilation: Compilation) -> tuple[Code, Kernel | Module]:
    stage, loops = compilation.stages["cuda"], compilation.stages["loops"].program
    if not isinstance(stage.program, Code) or not isinstance(loops, Kernel | Module):
        raise InputError(f"there is no program for a GPU: {stage.reason or compilation.stages['loops'].reason}")
    return as_declared(stage.program, loops), loops


def _derived(compilation: Compilation) -> tuple[Program, tuple[tuple[str, str], ...], tuple[str, ...]]:
    """A compilation's program with its backward pass, by tensor the array that is its gradient, and the names of the
    results' gradients. Raises InputError where there is none."""
    code, loops = _code(compilation)
    slopes = loops.gradients if isinstance(loops, Module) else ()
    graph = compilation.stages["graph"].program
    upstreams = upstream_names(graph) if isinstance(graph, Graph) else ()
    if not slopes or not upstreams:
        raise InputError(f"{compilation.name} has no tensor with a gradient")
    kept = tuple(name for _, name in slopes)
    return _program("gradients", code, loops, kept, (_outputs(loops), upstreams)), slopes, upstreams


def _program(
    name: str,
    code: Code,
    loops: Kernel | Module,
    kept: tuple[str, ...],
    divided: tuple[tuple[str, ...], tuple[str, ...]] | None = None,
) -> Program:
    """A text's calls, which leave the arrays `kept`; `divided` are the names of the results and of their gradients,
    where the launches may come in two parts."""
    buffers = {buffer.name: buffer for buffer in (*inputs_of(kernels_of(loops)), *code.buffers)}
    once = tuple(launch for launch in code.launches if launch.once)
    launches = tuple(launch for launch in code.launches if not launch.once)
    found = _written(once)
    constants = {str(name): size for kernel in kernels_of(loops) for name, size in kernel.sizes}

    def call(name: str, launches: Sequence[Launch], made: Iterable[str]) -> Call:
        return _call(name, launches, tuple(dict.fromkeys(made)), buffers, code.counts, constants)

    inspect = call(f"inspect_{name}", once, sorted(found & _named(launches))) if once else None
    parts = divide(launches, *divided) if divided else None
    if parts is None:
        return Program(name, code.lines, code.launches, buffers, inspect, call(name, launches, kept), None)
    results = divided[0] if divided else ()
    start = call("start", parts.forward, (*results, *sorted(parts.crossing)))
    finish = call("finish", parts.backward, kept)
    return Program(name, code.lines, code.launches, buffers, inspect, start, finish)


def _call(
    name: str,
    launches: Sequence[Launch],
    made: tuple[str, ...],
    buffers: Mapping[str, Buffer],
    counts: tuple[tuple[str, Count], ...],
    constants: Mapping[str, int],
) -> Call:
    named, written = _named(launches), _written(launches)
    if missing := [each for each in made if each not in written]:
        raise InputError(f"no kernel of {name} writes {missing[0]}")
    arrays = [buffer for buffer in buffers.values() if buffer.name in named]
    given = tuple(buffer for buffer in arrays if buffer.name not in written)
    between = tuple(buffer for buffer in arrays if buffer.name in written and buffer.name not in made)
    needed = {n for n in named if n not in buffers}
    needed |= {extent for buffer in arrays for extent in buffer.extents if isinstance(extent, str)}
    needed |= {extent for launch in launches for extent in launch.blocks.names}
    follow = []
    for known, count in reversed(counts):
        if known in needed:
            needed |= set(count.names)
            follow.append((known, count))
    return Call(
        name=name,
        launches=tuple(launches),
        given=given,
        made=tuple(buffers[each] for each in made),
        sizes=tuple(sorted(needed - {known for known, _ in follow} - constants.keys())),
        counts=tuple(reversed(follow)),
        between=between,
        constants=tuple((each, constants[each]) for each in sorted(needed & constants.keys())),
    )


def _named(launches: Iterable[Launch]) -> set[str]:
    return {name for launch in launches for name in launch.arguments}


def _written(launches: Iterable[Launch]) -> set[str]:
    return {name for launch in launches for name in launch.writes}
