"""A DLC program that a person wrote, to be run in the place of a model's compiled one (Ember's `ref-dae`).

It is read as the stage `dlc` prints it, with comments from `#` to the end of a line. It takes the arrays that the
compiled program reads, by name and shape, and writes the model's result; sizes are those of the model, whatever the
text says. What the text cannot tell (an address out of bounds, a deadlock, a wrong result) the machine finds when it
runs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from explorer.compiler.compilation import Compilation
from explorer.compiler.ir.access import dlc
from explorer.compiler.ir.loops import Buffer
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Node, Span, VerificationError
from explorer.compiler.ir.parse import ParseError, parse_dlc
from explorer.compiler.language.diagnostics import Diagnostic, DiagnosticsError

COMMENT = re.compile(r"#[^\n]*")
DIFFERS = (
    "The scores differ from the float64 reference, so no time is shown: the program computes something else than the"
    " model."
)


def read_written(text: str, compilation: Compilation) -> dlc.DlcProgram:
    """The program of a text for a model that has been compiled, at its sizes. Raises DiagnosticsError."""
    try:
        program = parse_dlc(COMMENT.sub("", text))
    except ParseError as error:
        place = Span(error.line, error.column, error.line, error.column + 1)
        raise DiagnosticsError([Diagnostic(error.message, place)]) from None
    found = [*_wrong_arrays(text, program, compilation), *_unknown_names(program)]
    if found:
        raise DiagnosticsError(found)
    try:
        dlc.verify_dlc(program)
    except VerificationError as error:
        raise DiagnosticsError([Diagnostic(str(error), _place(program, str(error)))]) from None
    sizes = tuple((name, compilation.sizes.get(name, size)) for name, size in program.sizes)
    return replace(program, sizes=sizes)


def _wrong_arrays(text: str, program: dlc.DlcProgram, compilation: Compilation) -> Iterator[Diagnostic]:
    """Arrays and sizes that the model has not, or has otherwise, and a result that is not written."""
    for name, _ in program.sizes:
        if name not in compilation.sizes:
            yield Diagnostic(f"the model has no size {name}", _declared(text, "size", name))
    read, result = arrays_of(compilation)
    known = {**read, result.name: result}
    shown = ", ".join(_shown(buffer) for buffer in read.values())
    for buffer in program.buffers:
        place = _declared(text, r"\w+", buffer.name)
        if buffer.name not in known:
            yield Diagnostic(f"the model has no array {buffer.name}: it reads {shown}, and writes {result.name}", place)
        elif (buffer.kind == "output") != (buffer.name == result.name):
            what = "the model's result, an output" if buffer.name == result.name else "no output of the model"
            yield Diagnostic(f"{buffer.name} is {what}", place)
        elif _shape(buffer, compilation.sizes) != _shape(known[buffer.name], compilation.sizes):
            yield Diagnostic(f"{_shown(buffer)} is {_shown(known[buffer.name])} in the model", place)
    if result.name not in {buffer.name for buffer in program.buffers}:
        yield Diagnostic(f"the program has no output {_shown(result)}, the model's result", None)


def arrays_of(compilation: Compilation) -> tuple[Mapping[str, Buffer], Buffer]:
    """What a model's compiled program reads and does not make itself, by name; and its result."""
    compiled = compilation.stages["dlc"].program
    programs = compiled.programs if isinstance(compiled, Module) else (compiled,)
    buffers = {b.name: b for p in programs if isinstance(p, dlc.DlcProgram) for b in reversed(p.buffers)}
    made = {b.name: b for p in programs if isinstance(p, dlc.DlcProgram) for b in p.buffers if b.kind == "output"}
    if not made:
        raise DiagnosticsError([Diagnostic(f"the model has no dlc: {compilation.stages['dlc'].reason}", None)])
    if isinstance(compiled, Module) and compiled.further:
        told = f"a program that is given writes one result, and {compilation.name} returns {len(compiled.results)}"
        raise DiagnosticsError([Diagnostic(told, None)])
    result = made[compiled.result] if isinstance(compiled, Module) else next(iter(made.values()))
    return {name: buffer for name, buffer in sorted(buffers.items()) if name not in made}, result


def _shape(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[str | int, ...]:
    return tuple(sizes.get(str(extent), extent) for extent in buffer.extents)


def _shown(buffer: Buffer) -> str:
    """`T[rows, D]`."""
    return f"{buffer.name}[{', '.join(map(str, buffer.extents))}]"


def _declared(text: str, word: str, name: str) -> Span | None:
    """Where a size or an array is declared."""
    for number, line in enumerate(text.split("\n"), start=1):
        if found := re.match(rf"\s+{word} ({re.escape(name)})\b", line):
            return Span(number, found.start(1) + 1, number, found.end(1) + 1)
    return None


def _unknown_names(program: dlc.DlcProgram) -> Iterator[Diagnostic]:
    """Arrays and traversals that statements of the access unit name and nobody has declared before them."""
    buffers, traversals = {buffer.name for buffer in program.buffers}, set[str]()
    for statement in program.access:
        where = statement.parent if isinstance(statement, dlc.Traversal) else statement.traversal
        if where is not None and where not in traversals:
            yield Diagnostic(f"there is no traversal {where} above", _span(statement))
        if isinstance(statement, dlc.MemStream | dlc.StoreStream) and statement.buffer not in buffers:
            yield Diagnostic(f"there is no array {statement.buffer}", _span(statement))
        if isinstance(statement, dlc.Traversal):
            traversals.add(statement.name)


def _place(program: dlc.DlcProgram, message: str) -> Span | None:
    """Where the statement stands that a verifier's message quotes, or the case of the token that it begins with."""
    for statement in program.access:
        if dlc.print_access(statement) in message:
            return _span(statement)
    return next((_span(case) for case in program.execute if message.startswith(f"{case.token} ")), None)


def _span(node: Node) -> Span | None:
    first = node.origin[0] if node.origin else None
    return first if isinstance(first, Span) else None
