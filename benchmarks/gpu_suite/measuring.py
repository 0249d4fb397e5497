"""Measures one row of the GPU suite: ours and its peers in turns, the error against float64, and the limits."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch

from benchmarks.gpu_suite.rows import Problem, Row
from benchmarks.timing.device import Clock, Samples, called_within, first_line, give_back, measure_ceilings
from explorer.compiler.codegen.binary import nvrtc
from explorer.compiler.codegen.text import Code
from explorer.runtime.encode.ops import Sets
from explorer.runtime.encode.structure import Structure
from explorer.runtime.limits import bounds
from explorer.runtime.limits import layers as bounds_layer
from explorer.runtime.targets.gpu.program import BoundProgram, GpuProgram

QUICK_REPEAT = 3
PASSES = {"tf32x3": 3, "tf32": 1}
"""Products on the tensor cores for one of the model's."""


class Bench:
    """A process that measures rows: its clock and the device's ceilings."""

    device = "cuda"

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.repeat = min(arguments.repeat, QUICK_REPEAT) if arguments.quick else arguments.repeat
        self.without = [word.strip().lower() for word in arguments.without.split(",") if word.strip()]
        self.clock = Clock()
        self.ceilings = measure_ceilings(self.clock)
        self.free()

    def facts(self) -> dict[str, Any]:
        """What all figures of the process have in common."""
        return {
            "source": "measured",
            "device": torch.cuda.get_device_name(),
            "date": datetime.now(UTC).date().isoformat(),
            "torch": torch.__version__,
            "nvrtc": nvrtc.version(),
            "data": self.arguments.data,
            "copy_TBps": self.ceilings.bytes_per_second / 1e12,
            "fp32_TFLOPs": self.ceilings.fp32_per_second / 1e12,
            "tf32_TFLOPs": self.ceilings.tf32_per_second / 1e12,
        }

    def measure(self, row: Row) -> dict[str, Any]:
        """A row's figures. Raises what making its inputs or its program raises."""
        problem = row.problem(self.device, self.arguments.data)
        found: dict[str, Any] = {
            "tolerance": row.tolerance,
            "target_ms": row.target_ms,
            "target_of_peer": row.of_peer,
            "target_of_row": row.of_row,
            "against": row.against,
            "hand_ms": row.hand_ms,
            "precision": row.precision,
            "note": problem.note,
            **self.limits(row, problem),
        }
        peers = self.ready_peers(problem)
        failed = {name: peer for name, peer in peers.items() if isinstance(peer, Samples)}
        runs = {name: peer for name, peer in peers.items() if not isinstance(peer, Samples)}
        try:
            bound = bind(problem)
            found |= described(problem, bound)
            bound.launch()
            torch.cuda.synchronize()
            result, gradients = outcome(problem, bound)
            found["error_of_64"] = problem.check(result, gradients)
            runs = {"ours": bound.launch, **runs}
        except Exception as error:
            found["error"] = first_line(error)
        times = self.clock.interleave(runs, self.repeat) | failed
        if "ours" in times:
            times["ours"].peak_bytes = found["made_bytes"]
            found["ours"] = times.pop("ours").to_json()
        return found | {"peers": {name: samples.to_json() for name, samples in times.items()}}

    def ready_peers(self, problem: Problem) -> dict[str, Any]:
        """The peers to run; what cannot be compiled in its time is told instead."""
        found: dict[str, Any] = {n: r for n, r in problem.peers.items() if not self._left_out(n)}
        for name, run in problem.compiled.items():
            if self._left_out(name):
                continue
            error = called_within(self.arguments.compile_limit, run)
            found[name] = Samples(error=error) if error else run
        return found

    def _left_out(self, name: str) -> bool:
        return any(word in name.lower() for word in self.without)

    def limits(self, row: Row, problem: Problem) -> dict[str, Any]:
        """The fewest bytes and the operations, and the time that either takes at the device's ceilings."""
        counted = counted_limits(problem)
        moving = counted["compulsory_bytes"] / self.ceilings.bytes_per_second * 1e3
        peak = self.ceilings.fp32_per_second
        if row.precision in PASSES:
            peak = self.ceilings.tf32_per_second / PASSES[row.precision]
        computing = counted["flop"] / peak * 1e3
        return {**counted, "limit_ms": round(max(moving, computing), 5), "limited_by": _larger(moving, computing)}

    def free(self) -> None:
        """Gives back what the last row held on the device, and forgets what torch.compile made."""
        torch._dynamo.reset()
        give_back()


def _larger(moving: float, computing: float) -> str:
    return "bytes" if moving >= computing else "operations"


def bind(problem: Problem) -> BoundProgram:
    """Our kernels on the row's tensors."""
    arrays, extents = problem.program.arrays(problem.structure, problem.counts, problem.tensors)
    return GpuProgram.of(problem.program.compilation).bind(arrays, extents)


def described(problem: Problem, bound: BoundProgram) -> dict[str, Any]:
    """What is known of our program without running it."""
    stages = problem.program.compilation.stages
    code = stages["cuda"].program
    assert isinstance(code, Code)
    return {
        "kernels": len(bound.launches),
        "cuda_lines": len(code.lines),
        "nvrtc_ms": round(stages["ptx"].ms, 1) if stages["ptx"].available else None,
        "made_bytes": bound.made_bytes,
        "given_bytes": bound.given_bytes,
    }


def outcome(problem: Problem, bound: BoundProgram) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The result and the gradients as tensors, in the caller's order and shapes."""
    graph, structure = problem.program.graph, problem.structure
    result, gradients = bound.results()
    first = {tensor.name: (*tensor.sets, "unit")[0] for tensor in graph.tensors}
    shaped = {
        name: structure.leave(torch.from_dlpack(array).reshape(problem.tensors[name].shape), first[name])
        for name, array in gradients.items()
    }
    return structure.leave(torch.from_dlpack(result), graph.value(graph.result).index_set), shaped


def counted_limits(problem: Problem) -> dict[str, Any]:
    """Compulsory and stream bytes, and operations, as every run of the project counts them."""
    graph, structure, counts = problem.program.graph, problem.structure, problem.counts
    for entry in graph.maps:
        if entry.codomain != "unit":
            structure.index(entry.name, graph, counts)
    maps = {name: ids.cpu().numpy() for name, ids in structure.maps.items()}
    if graph.family == "score" and not graph.gradients:
        shapes = {name: tuple(tensor.shape) for name, tensor in problem.tensors.items()}
        tables = {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}
        counted = bounds.limits(graph, {**tables, **maps})
    else:
        read = {name: ids.nbytes for name, ids in maps.items()}
        if graph.family == "op":  # what entries belong to follows from where lists begin
            sets = Sets.of(graph)
            read[sets.home] = 4 * (counts[sets.owner] + 1)
        counted = bounds_layer.limits(graph, Structure(counts, maps, read))
    return {key: int(value) for key, value in counted.items() if isinstance(value, int | np.integer)}
