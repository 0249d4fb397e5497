"""Compiles the examples here, and writes what launching and profiling their kernels elsewhere needs.

For each example and architecture a plan as JSON, the machine code that NVRTC made of it, and the index arrays of its
usual data; floats are left to be drawn. The machine code is launched as it is, so that what is measured is of the very
kernels whose digests the plan has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stalls.source_page import opcode_of
from explorer.checkout import CHECKOUT
from explorer.compiler.codegen.text import Code
from explorer.compiler.heat.machine_code import MachineCode, kernels_in
from explorer.compiler.heat.recordings import recording_of
from explorer.runtime.arrays import check_inputs
from explorer.runtime.run import FAMILIES, RunRequest, compile_request
from explorer.runtime.runs.fitting import fit
from explorer.runtime.runs.request import DEFAULT_DATA, ModelRequest, Setup
from explorer.runtime.targets.gpu.memory import shape_of
from explorer.runtime.targets.gpu.program import GpuProgram

ARCHITECTURES = ("sm_90", "sm_90a")
"""What the page compiles for where there is no GPU, and where there is one of this generation."""
Json = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """An example for an architecture."""

    model: str
    arch: str

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.model.replace('/', '-')}-{self.arch}"


def cases(only: str = "") -> list[Case]:
    """All examples for all architectures, or those whose name contains a text."""
    models = sorted(f"{file.parent.name}/{file.stem}" for file in (CHECKOUT / "examples").glob("*/*.emb"))
    found = [Case(model, arch) for model in models for arch in ARCHITECTURES]
    return [case for case in found if only in case.name]


def prepare(folder: Path, wanted: Sequence[Case], again: bool = False) -> Iterator[tuple[Case, int]]:
    """Writes what each case needs, and gives how many kernels it has that nothing is recorded of: of none nothing is
    written, nor of kernels that an earlier case has, but with `again`, where recordings do not count."""
    folder.mkdir(parents=True, exist_ok=True)
    seen: set[str] = set()
    for case in wanted:
        setup = set_up(case)
        kernels = kernels_in(setup.compilation.stages["sass"].lines)
        new = {each.digest for each in kernels if again or recording_of(each.digest) is None} - seen
        seen |= new
        if new:
            _write(folder, case, setup, kernels)
        yield case, len(new)


def missing(case: Case) -> list[str]:
    """The kernels of a case that nothing is recorded of."""
    text = (CHECKOUT / "examples" / f"{case.model}.emb").read_text()
    compilation = fit(ModelRequest(text=text, options={"arch": case.arch}), or_usual=True).compilation
    return [each.symbol for each in kernels_in(compilation.stages["sass"].lines) if recording_of(each.digest) is None]


def set_up(case: Case) -> Setup:
    """An example with its usual data, as a run of it has it."""
    text = (CHECKOUT / "examples" / f"{case.model}.emb").read_text()
    data = fit(ModelRequest(text=text), or_usual=True).data or DEFAULT_DATA
    request = RunRequest(text=text, on="cpu", data=data, options={"arch": case.arch})
    compilation = compile_request(request)
    steps = import_module(f"explorer.runtime.runs.{FAMILIES[compilation.family]}").prepare(request, compilation)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Setup = end.value
            return found


def _write(folder: Path, case: Case, setup: Setup, kernels: Sequence[MachineCode]) -> None:
    code = GpuProgram.of(setup.compilation).code
    assert code.binary is not None
    arrays, extents = check_inputs(setup.program("loops"), setup.inputs())
    sizes = {str(name): int(size) for name, size in extents.items() if isinstance(name, str)}
    for name, count in code.counts:
        sizes[name] = count.value(sizes)
    plan = {
        "model": case.model,
        "arch": case.arch,
        "data": setup.request.data,
        "kernels": {each.symbol: _kernel_json(each) for each in kernels},
        "arrays": {buffer.name: _array_json(buffer, arrays, sizes) for buffer in code.buffers},
        "launches": _launches(code, sizes),
    }
    (folder / f"{case.name}.cubin").write_bytes(code.binary.cubin)
    indices: Mapping[str, Any] = {n: values for n, values in arrays.items() if values.dtype == np.int32}
    np.savez_compressed(folder / f"{case.name}.npz", **indices)
    (folder / f"{case.name}.json").write_text(json.dumps(plan))  # last: who finds it finds all


def _kernel_json(kernel: MachineCode) -> Json:
    return {
        "digest": kernel.digest,
        "instructions": [[each.address, opcode_of(each.text)] for each in kernel.instructions],
    }


def _array_json(buffer: Any, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> Json:
    given = arrays.get(buffer.name)
    is_drawn = given is not None and given.dtype == np.float32 and given.size
    return {
        "shape": list(shape_of(buffer, sizes)),
        "dtype": "int32" if buffer.kind == "index" else "float32",
        "made": given is None,
        "mean": float(given.mean()) if is_drawn else 0.0,
        "spread": float(given.std()) if is_drawn else 0.0,
    }


def _launches(code: Code, sizes: Mapping[str, int]) -> list[Json]:
    """The launches with their grids and arguments: names of arrays, and numbers."""
    names = {buffer.name for buffer in code.buffers}
    return [
        {
            "symbol": launch.symbol,
            "grid": [launch.blocks.value(sizes), launch.columns],
            "threads": launch.threads,
            "shared": launch.shared_bytes,
            "arguments": [name if name in names else sizes[name] for name in launch.arguments],
            "once": launch.once,
            "busy": launch.busy,
            "writes": sorted(launch.writes),
        }
        for launch in code.launches
    ]
