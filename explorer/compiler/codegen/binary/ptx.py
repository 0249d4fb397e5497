"""From CUDA C++ to PTX with NVRTC, and from each PTX line back to the model's operations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from explorer.compiler.codegen.binary.nvrtc import Compiled, compile_text, is_compiled
from explorer.compiler.codegen.binary.stand_ins import StandIns, names_of, stand_ins
from explorer.compiler.codegen.resources import read_resources
from explorer.compiler.codegen.text import Binary, Code, text_of
from explorer.compiler.ir.node import Line, Origin
from explorer.compiler.report import Report
from explorer.compiler.unsupported import Unsupported

LOCATION = re.compile(r"\s*\.loc\s+1\s+(\d+)\s+\d+(?:.*inlined_at\s+1\s+(\d+)\s)?")
INSTRUCTION = re.compile(r"\s+(@!?%p\d+\s+)?[a-z][a-z0-9_]*[.\s;{].*|\s+(@!?%p\d+\s+)?(ret|exit);")


def generate_ptx(code: Code, report: Report) -> Code:
    """The PTX of a translation unit, each instruction with its CUDA line's origin, and the machine code beside it.

    Raises Unsupported where NVRTC is not installed or refuses the text.
    """
    arch = report.options.arch
    compiled = _compiled(code, arch, report.first)
    lines = _with_origins(compiled.ptx, [line.origin for line in code.lines])
    threads = {launch.symbol: launch.threads for launch in code.launches}
    report.did(f"compiled for {arch}{', the first form' if report.first else ''}")
    binary = Binary(compiled.cubin, code.lines, read_resources(compiled.log, arch, threads))
    return replace(code, lines=lines, binary=binary)


def is_made(code: Code, arch: str) -> bool:
    """Whether the best form of a translation unit was compiled before, by any process, and is kept."""
    cuda = text_of(code.lines)
    return is_compiled(stand_ins(names_of(code), cuda).text(cuda), arch)


def _compiled(code: Code, arch: str, first: bool) -> Compiled:
    """What NVRTC makes, whatever things are called; what it refuses it is asked again, to tell of it by their names."""
    cuda = text_of(code.lines)
    names = stand_ins(names_of(code), cuda)
    try:
        made = compile_text(names.text(cuda), arch, first)
    except Unsupported:
        names, made = StandIns(), compile_text(cuda, arch, first)
    ptx, cubin, log = map(names.show, (made.ptx.encode(), made.cubin, made.log.encode()))
    return Compiled(ptx.decode(), cubin, log.decode())


def _with_origins(text: str, origins: Sequence[Origin]) -> tuple[Line, ...]:
    """Each instruction with the origin of the line that the `.loc` before it names.

    Code inlined from a helper belongs to the line that calls it. Labels and directives have no origin."""
    lines: list[Line] = []
    current: Origin = ()
    for written in text.splitlines():
        shown = written.expandtabs(8).rstrip()
        if location := LOCATION.match(written):
            source = int(location[2] or location[1])
            current = origins[source - 1] if 0 < source <= len(origins) else ()
        elif written.startswith((".visible", ".entry", ".func", "}")):
            current = ()
        is_instruction = INSTRUCTION.match(written) is not None
        lines.append(Line(shown, current if is_instruction else ()))
    return tuple(lines)
