"""Compiled programs on PyTorch's tensors, without copies: by Numba where they lie in memory, by CUDA on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from explorer.compiler.compilation import Compilation, compile_model
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.graph import Tensor as Declared
from explorer.compiler.ir.loops import Kernel
from explorer.compiler.ir.module import Module
from explorer.runtime import cpu, gpu
from explorer.runtime.arrays import Extents, extents_of, inputs_of, kernels_of
from explorer.runtime.device_memory import shape_of
from explorer.runtime.inputs import InputError
from explorer.runtime.torch_structure import Structure, Tensor

Outcome = tuple[Tensor, dict[str, Tensor]]
"""The result, and gradients by tensor."""


class Executor(Protocol):
    """Runs a program on tensors of one kind of device, all of them checked: the result, and gradients by tensor."""

    def run(self, arrays: Mapping[str, Tensor], extents: Extents) -> Outcome:
        """One run."""


class OnCpu:
    """A program's machine code, reading and writing the tensors' own memory."""

    def __init__(self, compilation: Compilation) -> None:
        program: Any = compilation.stages["loops"].program
        self.prepared = cpu.prepare_once(program)

    def run(self, arrays: Mapping[str, Tensor], extents: Extents) -> Outcome:
        """The kernels in order; what they make is NumPy's, and shared with the tensors that are returned."""
        shared = {name: tensor.numpy() for name, tensor in arrays.items()}
        result, gradients = self.prepared.bind_checked(shared, extents).run()
        return torch.from_numpy(result), {name: torch.from_numpy(array) for name, array in gradients.items()}


class OnCuda:
    """A program's kernels on the current stream of PyTorch, and on its memory."""

    def __init__(self, compilation: Compilation) -> None:
        self.program = gpu.GpuProgram.of(compilation)
        self.kept = [buffer for buffer in self.program.code.buffers if buffer.name in self.program.kept]

    def run(self, arrays: Mapping[str, Tensor], extents: Extents) -> Outcome:
        """Launches the kernels and returns at once; what is returned is written when the stream has come to it."""
        import cupy

        device = next(iter(arrays.values())).device
        stream = torch.cuda.current_stream(device)
        sizes = {str(name): size for name, size in extents.items()}
        with (
            torch.cuda.device(device),
            cupy.cuda.Device(device.index),
            cupy.cuda.ExternalStream(stream.cuda_stream, device.index),
        ):
            made = {b.name: torch.empty(shape_of(b, sizes), dtype=torch.float32, device=device) for b in self.kept}
            self.program.bind({**arrays, **made}, extents).launch()
        result, *_ = self.program.kept
        return made[result], {tensor: made[name] for tensor, name in self.program.gradients}


EXECUTORS: Mapping[str, Callable[[Compilation], Executor]] = {"cpu": OnCpu, "cuda": OnCuda}
"""By the type of the tensors' device."""


@dataclass(eq=False)
class TensorProgram:
    """A compilation's program, its tensors in the caller's order and shapes."""

    compilation: Compilation
    _executors: dict[str, Executor] = field(default_factory=dict)

    @classmethod
    def of(cls, compilation: Compilation, grad: bool) -> TensorProgram:
        """The program of the same model, with its backward pass or without. Raises InputError where there is none."""
        if compilation.options.grad != grad:
            options = compilation.options.to_json() | {"grad": grad}
            name, sizes = compilation.name, compilation.sizes
            compilation = compile_model(compilation.text, sizes=sizes, options=options, name=name)
        stage = compilation.stages["loops"]
        if not stage.available:
            raise InputError(f"{compilation.name} cannot be run: {stage.reason}")
        return cls(compilation)

    def __deepcopy__(self, memo: dict[int, Any]) -> TensorProgram:
        """Itself: copies of a module share what is compiled."""
        return self

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
        graph = self.graph
        arrays, extents = self.arrays(structure, counts, tensors)
        result, gradients = self._executor(structure.device).run(arrays, extents)
        first = {tensor.name: _first_set(tensor) for tensor in graph.tensors}
        shaped = {
            name: structure.leave(gradient.reshape(tensors[name].shape), first[name])
            for name, gradient in gradients.items()
        }
        return structure.leave(result, graph.value(graph.result).index_set), shaped

    def arrays(
        self, structure: Structure, counts: Mapping[str, int], tensors: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], Extents]:
        """What the kernels read, by the names of their buffers and in their order, and the size of every extent."""
        graph, arrays = self.graph, dict[str, Tensor]()
        first = {tensor.name: _first_set(tensor) for tensor in graph.tensors}
        for buffer in inputs_of(kernels_of(self.program)):
            if buffer.kind == "index":
                arrays[buffer.name] = structure.index(buffer.name, graph, counts)
            elif buffer.name in tensors:
                rows = structure.enter(tensors[buffer.name].detach(), first[buffer.name])
                arrays[buffer.name] = rows.contiguous()
            else:
                arrays[buffer.name] = structure.values[buffer.name]
        return arrays, extents_of(graph, self.program, counts)

    def _executor(self, device: Any) -> Executor:
        if device.type not in self._executors:
            if device.type not in EXECUTORS:
                raise InputError(f"kernels run on cpu and cuda tensors, not on those of {device.type}.")
            self._executors[device.type] = EXECUTORS[device.type](self.compilation)
        return self._executors[device.type]


def _first_set(tensor: Declared) -> str:
    return tensor.sets[0] if tensor.sets else "unit"
