"""An edited text as a program of its stage: parsed, with the operations of the model that its lines belong to, of the
same arrays as the compiler's, and verified."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from explorer.compiler.edited.interface import first_misfit
from explorer.compiler.edited.lines import Matched
from explorer.compiler.edited.verdict import EditRefused
from explorer.compiler.frozen import replace
from explorer.compiler.ir.access.dlc import DlcProgram
from explorer.compiler.ir.access.slc import SlcProgram
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import Buffer, Kernel
from explorer.compiler.ir.module import AnyProgram, Module, print_program
from explorer.compiler.ir.node import Made, Node, Origin, Span, VerificationError, rewrite, walk
from explorer.compiler.ir.parse import (
    ParseError,
    parse_dlc,
    parse_graph,
    parse_kernel,
    parse_module,
    parse_scheduled,
    parse_slc,
)
from explorer.compiler.pipeline import STAGES
from explorer.compiler.stages import Program, verify
from explorer.compiler.unsupported import OutOfBudget

EDITABLE = tuple(spec.name for spec in STAGES if spec.name not in ("cuda", "ptx", "sass"))
"""The stages whose texts are read back: all but CUDA and what NVRTC makes of it, which are no IR of the compiler."""
LARGEST_TEXT = 128 * 1024
"""Characters of an edited text: twice the longest stage of the examples, the kernels of RGAT with backward."""
BY_HAND: Origin = (Made("a line that was edited", "edit"),)
"""The origin of what belongs to no operation any more."""

PARSERS: dict[type, Callable[[str], Any]] = {
    Graph: parse_graph,
    Kernel: parse_kernel,
    ScheduledKernel: parse_scheduled,
    SlcProgram: parse_slc,
    DlcProgram: parse_dlc,
}


def read_edited(text: str, made: Program, matched: Matched) -> Program:
    """The program of an edited text, to stand in the place of the one that the compiler made. Raises EditRefused.

    The kernels of a module that are as they were stay the compiler's own, whatever became of the others."""
    if len(text) > LARGEST_TEXT:
        raise EditRefused(f"the text has {len(text):,} characters, more than the {LARGEST_TEXT:,} that are read")
    try:
        program = _located(_parsed(text, made), made, matched)
    except ParseError as error:
        raise EditRefused(error.message, error.line, error.column) from None
    except RecursionError:
        raise EditRefused("this text is nested too deeply", matched.first + 1) from None
    misfit = first_misfit(program, made)
    if misfit:
        raise _refused_at(text, misfit.name, misfit.message, matched)
    try:
        verify(program)
    except VerificationError as error:
        raise _refused_at(text, _quoted(str(error)), str(error), matched) from None
    except (OutOfBudget, MemoryError):
        raise
    except Exception as error:  # of what no rule foresees: a rule of the IR may itself fall over such a text
        raise EditRefused(f"this is no program of the stage: {said_of(error)}", matched.first + 1) from None
    return program


def said_of(error: BaseException) -> str:
    """What a fault that names no rule says, in a few words."""
    if isinstance(error, KeyError):
        return f"nothing is called {error.args[0]}" if error.args else "a name is missing"
    return f"{error}"[:200] or type(error).__name__


def _parsed(text: str, made: Program) -> Program:
    if not isinstance(made, Module):
        program: Program = PARSERS[type(made)](text)
        return program
    known = {"".join(f"{line.text}\n" for line in print_program(each)).rstrip(): each for each in made.programs}
    return parse_module(text, known)


def _located(program: Program, made: Program, matched: Matched) -> Program:
    """The program with the operations that its lines belong to in the place of those lines."""
    arrays = {node.name: node.origin for node in _nodes(made) if isinstance(node, Buffer)}
    programs = {each.name: each.origin for each in _programs(made)}

    def relocated(node: Any) -> Any:
        if isinstance(node, Buffer):
            return replace(node, origin=arrays.get(node.name, BY_HAND))
        if isinstance(node, (AnyProgram, Graph)):
            return replace(node, origin=programs.get(node.name, BY_HAND))
        first = node.origin[0] if node.origin else None
        line = first.line - 1 if isinstance(first, Span) else 0
        return replace(node, origin=matched.origins[line] or BY_HAND)

    if not isinstance(program, Module):
        assert isinstance(program, Node)
        located: Program = rewrite(program, relocated)
        return located
    assert isinstance(made, Module)
    own = {id(each) for each in made.programs}
    each_located = tuple(each if id(each) in own else rewrite(each, relocated) for each in program.programs)
    return replace(program, programs=each_located, origin=made.origin)


def _nodes(program: Program) -> tuple[Node, ...]:
    return tuple(walk(program)) if isinstance(program, Node) else ()


def _programs(program: Program) -> tuple[AnyProgram | Graph, ...]:
    """The programs of a module, or the one that there is."""
    found = program.programs if isinstance(program, Module) else (program,)
    return tuple(each for each in found if isinstance(each, (AnyProgram, Graph)))


def _quoted(message: str) -> str:
    """The statement at a message's end, or its first word."""
    return message.rpartition(": ")[2] if ": " in message else message.partition(" ")[0]


def _refused_at(text: str, quoted: str, message: str, matched: Matched) -> EditRefused:
    """Where a statement stands, or a name, from the first changed line on and then from the text's beginning."""
    lines = text.split("\n")
    order = [*range(matched.first, len(lines)), *range(matched.first)]
    whole = next((at for at in order if quoted and lines[at].strip() == quoted), None)
    word = re.compile(rf"(?<![\w.%]){re.escape(quoted)}(?!\w)") if quoted else None
    named = [(at, found.start()) for at in order if word and (found := word.search(lines[at]))]
    if whole is not None:
        return EditRefused(message, whole + 1, len(lines[whole]) - len(lines[whole].lstrip()) + 1)
    line, column = named[0] if named else (matched.first, 0)
    return EditRefused(message, line + 1, column + 1)
