"""The kernels of an extension: the text that the stage `cuda` shows, and behind it a function that launches each.

A program's kernels are in a namespace, since the result's and the gradients' may have the same names.
"""

from __future__ import annotations

from textwrap import fill

from explorer.compiler.codegen.text import Launch
from explorer.runtime.export.names import Named
from explorer.runtime.export.plan import Plan, Program

WIDTH = 116
LINKAGE = 'extern "C" __global__'


def kernels_text(program: Program, named: Named) -> str:
    """The file of a program's kernels."""
    text = "\n".join(line.text for line in program.lines).replace(LINKAGE, "__global__")
    launchers = "\n\n".join(_launcher(launch, program, named) for launch in program.launches)
    return f"""#include "kernels.h"

namespace {program.name}_kernels {{

{text}

// What launches them: on so many blocks, on a stream.

{launchers}

}}  // namespace {program.name}_kernels
"""


def header_text(plan: Plan, named: Named) -> str:
    """The declarations of all functions that launch kernels."""
    spaces = "\n\n".join(
        f"namespace {program.name}_kernels {{\n"
        + "\n".join(f"{_head(launch, program, named)};" for launch in program.launches)
        + "\n}"
        for program in plan.programs
    )
    return f"""// Functions that launch the kernels, each once, and say what went wrong.
#pragma once
#include <cuda_runtime_api.h>

{spaces}
"""


def launcher_of(launch: Launch) -> str:
    """What the function is called that launches a kernel."""
    return f"launch_{launch.symbol.removesuffix('_kernel')}"


def _head(launch: Launch, program: Program, named: Named) -> str:
    parameters = ["unsigned blocks", "cudaStream_t stream"]
    for name in launch.arguments:
        if name not in program.buffers:
            parameters.append(f"int {named[name]}")
            continue
        kind = "int*" if program.buffers[name].type == "i32" else "float*"
        parameters.append(f"{'' if name in launch.writes else 'const '}{kind} {named[name]}")
    listed = fill(", ".join(parameters), WIDTH, initial_indent="    ", subsequent_indent="    ")
    return f"cudaError_t {launcher_of(launch)}(\n{listed})"


def _launcher(launch: Launch, program: Program, named: Named) -> str:
    allowed = ""
    if launch.shared_bytes:
        allowed = f"""  if (cudaError_t error = cudaFuncSetAttribute(
          {launch.symbol}, cudaFuncAttributeMaxDynamicSharedMemorySize, {launch.shared_bytes}))
    return error;
"""
    grid = f"dim3(blocks, {launch.columns})" if launch.columns > 1 else "blocks"
    arguments = ", ".join(named[name] for name in launch.arguments)
    return f"""{_head(launch, program, named)} {{
{allowed}  if (blocks > 0) {launch.symbol}<<<{grid}, {launch.threads}, {launch.shared_bytes}, stream>>>({arguments});
  return cudaGetLastError();
}}"""
