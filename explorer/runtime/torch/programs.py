"""Compiled programs on PyTorch's tensors, without copies: by Numba where they lie in memory, by CUDA on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.loops import Buffer, Kernel
from explorer.compiler.ir.module import Module
from explorer.runtime.arrays import Extents, extents_of, inputs_of, kernels_of
from explorer.runtime.data.triples import InputError
from explorer.runtime.encode.layers import upstream_name
from explorer.runtime.targets import cpu
from explorer.runtime.torch.cuda import OnCuda, Outcome, Started
from explorer.runtime.torch.structure import Structure, Tensor, aligned


class Executor(Protocol):
    """Runs a program on tensors of one kind of device, all of them checked: the result, and gradients by tensor."""

    reads: frozenset[str]
    """The arrays that it is to be given."""

    def run(self, arrays: Mapping[str, Tensor], extents: Extents) -> Outcome:
        """One run."""


class OnCpu:
    """A program's machine code, reading and writing the tensors' own memory."""

    def __init__(self, compilation: Compilation, upstream: str) -> None:
        program: Any = compilation.stages["loops"].program
        self.prepared = cpu.prepare_once(program, bool(compilation.edits))
        self.reads = frozenset(buffer.name for buffer in inputs_of(kernels_of(program)))

    def run(self, arrays: Mapping[str, Tensor], extents: Extents) -> Outcome:
        """The kernels in order; what they make is NumPy's, and shared with the tensors that are returned."""
        shared = {name: tensor.numpy() for name, tensor in arrays.items()}
        result, gradients = self.prepared.bind_checked(shared, extents).run()
        return torch.from_numpy(result), {name: torch.from_numpy(array) for name, array in gradients.items()}


EXECUTORS: Mapping[str, Callable[[Compilation, str], Executor]] = {"cpu": OnCpu, "cuda": OnCuda}
"""By the type of the tensors' device: of a compilation, and the name of its result's gradient."""


@dataclass(eq=False)
class Run:
    """One run of a program that is not over: its result is there, its gradients are to come, which `reads_result` says
    are made of the very tensor that the caller has."""

    executor: OnCuda
    started: Started
    structure: Structure
    shapes: Mapping[str, tuple[int, ...]]
    reads_result: bool


@dataclass(eq=False)
class TensorProgram:
    """A compilation's program, its tensors in the caller's order and shapes."""

    compilation: Compilation
    _executors: dict[str, Executor] = field(default_factory=dict)
    _extents: dict[tuple[tuple[str, int], ...], Extents] = field(default_factory=dict)

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

    @cached_property
    def inputs(self) -> tuple[Buffer, ...]:
        """The arrays that the loops are given."""
        return tuple(inputs_of(kernels_of(self.program)))

    @cached_property
    def first_sets(self) -> Mapping[str, str]:
        """By tensor, the set that its rows are over."""
        return {tensor.name: tensor.sets[0] if tensor.sets else "unit" for tensor in self.graph.tensors}

    @cached_property
    def result_set(self) -> str:
        """The set that the result's rows are over."""
        return self.graph.value(self.graph.result).index_set

    @property
    def graph(self) -> Graph:
        """The model's graph, as its passes left it."""
        graph = self.compilation.stages["graph"].program
        assert isinstance(graph, Graph)
        return graph

    @property
    def program(self) -> Kernel | Module:
        """The kernels."""
        program = self.compilation.stages["loops"].program
        assert isinstance(program, Kernel | Module)
        return program

    def run(self, structure: Structure, counts: Mapping[str, int], tensors: Mapping[str, Tensor]) -> Outcome:
        """The result, and gradients in the shapes of their tensors; `tensors` has the gradient of the result too."""
        executor = self._executor(structure.device)
        arrays, extents = self.arrays(structure, counts, tensors, executor.reads)
        result, gradients = executor.run(arrays, extents)
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        return structure.leave(result, self.result_set), self._shaped(gradients, structure, shapes)

    def start(
        self, structure: Structure, counts: Mapping[str, int], tensors: Mapping[str, Tensor]
    ) -> tuple[Tensor, Run] | None:
        """The result of a program with a backward pass, and the run, which `finish` goes on with; None where its
        kernels cannot make the one without the other."""
        executor = self._executor(structure.device)
        if not isinstance(executor, OnCuda) or executor.parts is None:
            return None
        arrays, extents = self.arrays(structure, counts, tensors, executor.reads - {executor.upstream})
        made, started = executor.start(arrays, extents)
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        result = structure.leave(made, self.result_set)
        reads_result = result is made and executor.result in started.plan.arrays
        return result, Run(executor, started, structure, shapes, reads_result)

    def finish(self, run: Run, upstream: Tensor) -> dict[str, Tensor]:
        """The gradients, in the shapes of their tensors, of a run whose result has the gradient `upstream`."""
        entered = aligned(run.structure.enter(upstream, self.result_set))
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
        arrays = dict[str, Tensor]()
        for buffer in self.inputs:
            if reads is not None and buffer.name not in reads:
                continue
            if buffer.kind == "index":
                arrays[buffer.name] = structure.index(buffer.name, self.graph, counts)
            elif buffer.name in tensors:
                tensor = tensors[buffer.name].detach()
                arrays[buffer.name] = aligned(structure.enter(tensor, self.first_sets[buffer.name]))
            else:
                arrays[buffer.name] = structure.values[buffer.name]
        key = tuple(counts.items())
        if key not in self._extents:
            self._extents[key] = extents_of(self.graph, self.program, counts)
        return arrays, self._extents[key]

    def _executor(self, device: Any) -> Executor:
        if device.type not in self._executors:
            if device.type not in EXECUTORS:
                raise InputError(f"kernels run on cpu and cuda tensors, not on those of {device.type}.")
            upstream = upstream_name(self.graph) or ""
            self._executors[device.type] = EXECUTORS[device.type](self.compilation, upstream)
        return self._executors[device.type]
