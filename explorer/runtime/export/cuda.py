"""The kernels of an extension: the text that the stage `cuda` shows, but for names that are macros, and behind it a
function that launches each.

A program's kernels are in a namespace, since the result's and the gradients' may have the same names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import fill

from explorer.compiler.codegen.cuda.narrow import element_type
from explorer.compiler.codegen.text import Launch
from explorer.compiler.ir.node import Names
from explorer.runtime.export.names import MACROS, Named
from explorer.runtime.export.plan import Plan, Program

WIDTH = 116
WORD = re.compile(r"//.*|\b[A-Za-z]\w*\b")
"""A comment, which may say what it likes, or a word."""
LINKAGE = 'extern "C" __global__'


def kernels_text(program: Program, named: Named) -> str:
    """The file of a program's kernels."""
    shown = "\n".join(line.text for line in program.lines).replace(LINKAGE, "__global__")
    text = _without_macros(shown, program.launches)
    launchers = "\n\n".join(_launcher(launch, program, named) for launch in program.launches)
    return f"""#include "kernels.h"

namespace {program.name}_kernels {{

{text}

// What launches them: on so many blocks, on a stream.

{launchers}

}}  // namespace {program.name}_kernels
"""


def _without_macros(text: str, launches: Sequence[Launch]) -> str:
    """The kernels with other names for what headers may have as macros, which NVRTC does without."""
    words = {*WORD.findall(text)}
    kept = {*WORD.findall(" ".join(re.findall("template <(.*?)>", text)))} | {launch.symbol for launch in launches}
    names = Names(words)
    others = {word: names.new(word) for word in sorted(words - kept) if MACROS.fullmatch(word)}
    return WORD.sub(lambda found: others.get(found[0], found[0]), text)


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
        kind = f"{element_type(program.buffers[name])}*"
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
