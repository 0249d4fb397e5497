"""Compiled programs on PyTorch's tensors, without copies: by Numba where they lie in memory, by CUDA on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.loops import Buffer, Kernel
from explorer.compiler.ir.module import Module
from explorer.compiler.returned import each_returned
from explorer.runtime.arrays import Arrays, Extents, extents_of, inputs_of, kernels_of
from explorer.runtime.data.triples import InputError
from explorer.runtime.encode.layers import upstream_names
from explorer.runtime.targets import cpu
from explorer.runtime.torch.cuda import OnCuda, Outcome
from explorer.runtime.torch.structure import Structure, Tensor, aligned, bits_of


class Begun(Protocol):
    """A run whose results are there, and whose gradients are to come."""

    @property
    def reads(self) -> frozenset[str]:
        """Arrays that are there and that it will read; results among them."""


class Executor(Protocol):
    """Runs a program on tensors of one kind of device, all of them checked: the results, and gradients by tensor."""

    reads: frozenset[str]
    """The arrays that it is to be given."""
    reads_first: frozenset[str]
    """Those among them that are there before the gradients of the results are."""
    upstreams: tuple[str, ...]
    """Those among them that are the gradients of the results."""
    results: tuple[str, ...]
    """The names of the results' arrays."""
    divided: bool
    """Whether it can make the results before their gradients are there, and go on with those then."""

    def run(self, arrays: Mapping[str, Tensor], extents: Extents) -> Outcome:
        """One run."""

    def start(self, arrays: Mapping[str, Tensor], extents: Extents) -> tuple[tuple[Tensor, ...], Any]:
        """The results alone, of arrays without their gradients, and the run that has Begun."""

    def finish(self, started: Any, upstreams: Sequence[Tensor]) -> dict[str, Tensor]:
        """The gradients by tensor, of such a run and the gradients of its results."""


@dataclass(frozen=True, eq=False)
class StartedOnCpu:
    """A run whose results are there: what its second part needs, and the arrays that it `reads` of those made."""

    bound: cpu.Bound
    arrays: Arrays
    reads: frozenset[str]


class OnCpu:
    """A program's machine code, reading and writing the tensors' own memory: what it makes is NumPy's, and shared with
    the tensors that are returned."""

    def __init__(self, compilation: Compilation, upstreams: tuple[str, ...]) -> None:
        program: Any = compilation.stages["loops"].program
        self.prepared = cpu.prepare_once(program, bool(compilation.edits))
        self.reads = frozenset(buffer.name for buffer in inputs_of(kernels_of(program)))
        self.reads_first = self.reads.difference(upstreams)
        self.upstreams, self.results = upstreams, self.prepared.results
        self.divided = self.prepared.parts is not None

    def run(self, arrays: Mapping[str, Tensor], extents: Extents) -> Outcome:
        """The kernels in order."""
        result, gradients = self._bound(arrays, extents).run()
        results = tuple(map(torch.from_numpy, each_returned(result)))
        return results, {name: torch.from_numpy(array) for name, array in gradients.items()}

    def start(self, arrays: Mapping[str, Tensor], extents: Extents) -> tuple[tuple[Tensor, ...], StartedOnCpu]:
        """The kernels that make the results; only of a program that is `divided`."""
        bound = self._bound(arrays, extents)
        made = bound.start()
        results = tuple(torch.from_numpy(made[name]) for name in self.results)
        return results, StartedOnCpu(bound, made, self.prepared.crossing)

    def finish(self, started: StartedOnCpu, upstreams: Sequence[Tensor]) -> dict[str, Tensor]:
        """The other kernels."""
        given = {name: bits_of(tensor) for name, tensor in zip(self.upstreams, upstreams, strict=True)}
        gradients = started.bound.finish(started.arrays, given)
        return {name: torch.from_numpy(array) for name, array in gradients.items()}

    def _bound(self, arrays: Mapping[str, Tensor], extents: Extents) -> cpu.Bound:
        return self.prepared.bind_checked({name: bits_of(tensor) for name, tensor in arrays.items()}, extents)


EXECUTORS: Mapping[str, Callable[[Compilation, tuple[str, ...]], Executor]] = {"cpu": OnCpu, "cuda": OnCuda}
"""By the type of the tensors' device: of a compilation, and the names of its results' gradients."""


@dataclass(eq=False)
class Run:
    """One run of a program that is not over: its results are there, its gradients are to come, which are made of the
    very tensors that the caller has at the places that `reads` says."""

    executor: Executor
    started: Begun
    structure: Structure
    shapes: Mapping[str, tuple[int, ...]]
    reads: tuple[int, ...]


@dataclass(eq=False)
class TensorProgram:
    """A compilation's program, its tensors in the caller's order and shapes."""

    compilation: Compilation
    _executors: dict[str, Executor] = field(default_factory=dict)
    _extents: dict[tuple[tuple[str, int], ...], Extents] = field(default_factory=dict)
    _asked: dict[frozenset[str] | None, list[tuple[str, bool, str]]] = field(default_factory=dict)

    @classmethod
    def of(cls, compilation: Compilation, grad: bool) -> TensorProgram:
        """The program of the same model, with its backward pass or without. Raises InputError where there is none."""
        if compilation.options.grad != grad:
            compilation = compilation.with_options(grad=grad)
        stage = compilation.stages["loops"]
        if not stage.available:
            raise InputError(f"{compilation.name} cannot be run: {stage.reason}")
        return cls(compilation)

    def __deepcopy__(self, memo: dict[int, Any]) -> TensorProgram:
        """Itself: copies of a module share what is compiled."""
        return self

    @property
    def grad(self) -> bool:
        """Whether it has the backward pass."""
        return self.compilation.options.grad

    @cached_property
    def inputs(self) -> tuple[Buffer, ...]:
        """The arrays that the loops are given."""
        return tuple(inputs_of(kernels_of(self.program)))

    @cached_property
    def first_sets(self) -> Mapping[str, str]:
        """By tensor, the set that its rows are over."""
        return {tensor.name: tensor.sets[0] if tensor.sets else "unit" for tensor in self.graph.tensors}

    @cached_property
    def result_sets(self) -> tuple[str, ...]:
        """The sets that the results' rows are over."""
        return tuple(self.graph.value(name).index_set for name in self.graph.results)

    @cached_property
    def graph(self) -> Graph:
        """The model's graph, as its passes left it."""
        graph = self.compilation.stages["graph"].program
        assert isinstance(graph, Graph)
        return graph

    @cached_property
    def program(self) -> Kernel | Module:
        """The kernels."""
        program = self.compilation.stages["loops"].program
        assert isinstance(program, Kernel | Module)
        return program

    def run(self, structure: Structure, counts: Mapping[str, int], tensors: Mapping[str, Tensor]) -> Outcome:
        """The results, and gradients in the shapes of their tensors; `tensors` has the gradients of the results too."""
        executor = self.executor(structure.device)
        arrays, extents = self.arrays(structure, counts, tensors, executor.reads)
        made, gradients = executor.run(arrays, extents)
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        return self._left(made, structure), self._shaped(gradients, structure, shapes)

    def _left(self, made: Sequence[Tensor], structure: Structure) -> tuple[Tensor, ...]:
        """The results in the caller's order, each a tensor of its own, also where the same is returned twice."""
        own: list[Tensor] = []
        for place, (rows, index_set) in enumerate(zip(made, self.result_sets, strict=True)):
            again = self.graph.results[place] in self.graph.results[:place]
            own.append(structure.leave(rows.clone() if again else rows, index_set))
        return tuple(own)

    def start(
        self, structure: Structure, counts: Mapping[str, int], tensors: Mapping[str, Tensor]
    ) -> tuple[tuple[Tensor, ...], Run] | None:
        """The results of a program with a backward pass, and the run, which `finish` goes on with; None where its
        kernels cannot make the one without the other."""
        executor = self.executor(structure.device)
        if not executor.divided:
            return None
        arrays, extents = self.arrays(structure, counts, tensors, executor.reads_first)
        made, started = executor.start(arrays, extents)
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        results, names = self._left(made, structure), enumerate(executor.results)
        reads = tuple(place for place, name in names if results[place] is made[place] and name in started.reads)
        return results, Run(executor, started, structure, shapes, reads)

    def finish(self, run: Run, upstreams: Sequence[Tensor]) -> dict[str, Tensor]:
        """The gradients, in the shapes of their tensors, of a run whose results have the gradients `upstreams`."""
        pairs = zip(upstreams, self.result_sets, strict=True)
        entered = [aligned(run.structure.enter(upstream, index_set)) for upstream, index_set in pairs]
        return self._shaped(run.executor.finish(run.started, entered), run.structure, run.shapes)

    def _shaped(
        self, gradients: Mapping[str, Tensor], structure: Structure, shapes: Mapping[str, tuple[int, ...]]
    ) -> dict[str, Tensor]:
        return {
            name: structure.leave(gradient.reshape(shapes[name]), self.first_sets[name])
            for name, gradient in gradients.items()
        }

    def arrays(
        self,
        structure: Structure,
        counts: Mapping[str, int],
        tensors: Mapping[str, Tensor],
        reads: frozenset[str] | None = None,
    ) -> tuple[dict[str, Tensor], Extents]:
        """What the kernels read, by the names of their buffers and in their order, or of that what somebody `reads`,
        and the size of every extent."""
        arrays, graph = dict[str, Tensor](), self.graph
        for name, indexes, index_set in self._inputs_that(reads):
            if indexes:
                arrays[name] = structure.index(name, graph, counts)
            elif name in tensors:
                arrays[name] = aligned(structure.entered(tensors[name], index_set))
            else:
                arrays[name] = structure.values[name]
        return arrays, self.extents(counts)

    def extents(self, counts: Mapping[str, int]) -> Extents:
        """The size of every extent where sets have these sizes."""
        key = tuple(counts.items())
        if key not in self._extents:
            self._extents[key] = extents_of(self.graph, self.program, counts)
        return self._extents[key]

    def _inputs_that(self, reads: frozenset[str] | None) -> list[tuple[str, bool, str]]:
        """The inputs that somebody `reads`, or all: their names, whether they are ids, and else the set of their
        rows."""
        if reads not in self._asked:
            wanted = [each for each in self.inputs if reads is None or each.name in reads]
            self._asked[reads] = [
                (each.name, each.kind == "index", self.first_sets.get(each.name, "")) for each in wanted
            ]
        return self._asked[reads]

    def executor(self, device: Any) -> Executor:
        """What runs it on a device. Raises InputError where nothing does."""
        if device.type not in self._executors:
            if device.type not in EXECUTORS:
                raise InputError(f"kernels run on cpu and cuda tensors, not on those of {device.type}.")
            self._executors[device.type] = EXECUTORS[device.type](self.compilation, upstream_names(self.graph))
        return self._executors[device.type]
