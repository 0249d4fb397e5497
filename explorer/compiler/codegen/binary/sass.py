"""The machine code (SASS) of a translation unit, by nvdisasm, and from each instruction back to the operations.

nvdisasm's JSON output knows no source lines, so its text is read: `//## File "/kernel.cu", line 12` stands before the
instructions of a line, and behind an instruction its two words, the upper on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from explorer.compiler.codegen.binary.control import LEGEND, control_of
from explorer.compiler.codegen.binary.nvrtc import FILE
from explorer.compiler.codegen.binary.stand_ins import kernels_of, stand_ins
from explorer.compiler.codegen.text import Binary, Code, text_of
from explorer.compiler.ir.node import Line, Origin, merge
from explorer.compiler.report import Report
from explorer.compiler.unsupported import Unsupported

SECTION = re.compile(r"//-+ \.text\.(\S+) +-+")
SOURCE = re.compile(r'\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?(\S.*?)\s*;(.*?)\s*/\* 0x[0-9a-f]{16} \*/")
UPPER = re.compile(r"\s+/\* 0x([0-9a-f]{16}) \*/")
LABEL = re.compile(r"(\.L_\w+|[^\s.][^\s:]*):")
NAMED = re.compile(r"`\(([^)]+)\)")


def generate_sass(code: Code, report: Report) -> Code:
    """The SASS of compiled code, each instruction with its CUDA line's origin, each kernel with what it takes.

    Raises Unsupported where nvdisasm is not installed or does not end well.
    """
    if code.binary is None:
        raise Unsupported("SASS is made of compiled code, and there is none.")
    from explorer.compiler.codegen.binary.nvdisasm import disassemble

    names = stand_ins(kernels_of(code), text_of(code.binary.source))
    sections = _sections(names.show(disassemble(names.hide(code.binary.cubin)).encode()).decode())
    kernels = [kernel for kernel in kernels_of(code) if kernel in sections]
    if len(kernels) < len(code.launches):
        raise Unsupported("nvdisasm did not show every kernel, so its text is of no use.")
    lines = [line for kernel in kernels for line in _kernel_lines(kernel, sections[kernel], code.binary)]
    report.did(f"disassembled for {report.options.arch}")
    return replace(code, lines=tuple(lines[1:]))


def _sections(text: str) -> dict[str, list[str]]:
    """The lines of each code section by its kernel; nvdisasm writes them last kernel first."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if section := SECTION.match(line):
            current = sections.setdefault(section[1], [])
        else:
            current.append(line)
    return sections


def _kernel_lines(kernel: str, written: Sequence[str], binary: Binary) -> Iterator[Line]:
    """An empty line, what the kernel takes, its instructions, each behind its control bits, and the labels that they
    name.

    What a division or a root calls has no line of its own, so it belongs to the lines that call it."""
    yield Line("")
    for resources in binary.resources:
        if resources.kernel == kernel:
            yield from (Line(f"// {part.strip()}") for part in f"{resources.arch}; {resources}".split(";"))
    yield Line(LEGEND)
    named = {name for line in written if INSTRUCTION.fullmatch(line) for name in NAMED.findall(line)}
    callers: dict[str, Origin] = {}
    current: Origin = ()
    for line, behind in pairwise([*written, ""]):
        if source := SOURCE.match(line):
            current = _origin(source, binary.source)
        elif label := LABEL.fullmatch(line):
            is_function = not label[1].startswith(".L_")
            if is_function:
                current = callers.get(label[1], ())
            if is_function or label[1] in named:
                yield Line(line)
        elif instruction := INSTRUCTION.fullmatch(line):
            offset, predicate, operation, rest = instruction.groups()
            if operation.startswith("CALL"):
                callers.update({name: merge(callers.get(name, ()), current) for name in NAMED.findall(operation)})
            upper = UPPER.fullmatch(behind)
            control = f"/*{control_of(int(upper[1], 16))}*/" if upper else ""
            shown = f"    /*{offset}*/ {control} {(predicate or '').strip():>5} {' '.join(operation.split())};{rest}"
            yield Line(shown.rstrip(), () if operation == "NOP" else current)


def _origin(source: re.Match[str], lines: Sequence[Line]) -> Origin:
    """The origin of the line that is named; code inlined from a helper belongs to the line that calls it."""
    file, number = (source[3], source[4]) if source[3] else (source[1], source[2])
    return lines[int(number) - 1].origin if file == FILE and 0 < int(number) <= len(lines) else ()
