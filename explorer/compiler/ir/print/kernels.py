"""Scheduled kernels as text: a line a statement, what follows another or stands alone in a loop beside it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from explorer.compiler.decisions import print_chosen_lines
from explorer.compiler.ir.kernels import (
    ROLLED,
    AtomicAccumulate,
    Barrier,
    CheckedLoad,
    Copy,
    KeptLoad,
    Loop,
    Multiply,
    Reduce,
    ScheduledKernel,
    Search,
    ShuffledLoad,
    Statement,
    Tile,
    Where,
    reads_of,
)
from explorer.compiler.ir.loops import (
    REDUCTION_SIGNS,
    Accumulate,
    Accumulator,
    Index,
    Load,
    Store,
    element,
    print_expression,
    print_statement,
)
from explorer.compiler.ir.node import Line, Node, same_operations
from explorer.compiler.ir.print.expressions import (
    CALL,
    COMPARED,
    SUM,
    Text,
    is_in_place,
    note_in_place,
    print_index,
    with_atoms,
)

LINE = 112
"""Characters of a line, at most, that has several statements, behind its indentation."""


def with_texts(statement: Statement, known: Mapping[str, Text]) -> Statement:
    """A statement with what is known in the place of names, for its text."""
    read = {name: known[name] for name in reads_of(statement) if name in known}
    least = {Loop: CALL, Where: SUM}.get(type(statement), COMPARED)
    return with_atoms(
        statement, {name: text if binds >= least else f"({text})" for name, (text, binds) in read.items()}
    )


def print_step(statement: Node) -> str:
    """The one line of a statement; for a loop or a condition, its head."""
    match statement:
        case Loop():
            step = f" step {statement.step}" if statement.step != 1 else ""
            bind = f" @{statement.bind}" if statement.bind else ""
            bind += f" {statement.width}" if statement.width else ""
            bind += f" apart {statement.apart}" if statement.apart else ""
            unroll = {1: "", 0: " unroll all", ROLLED: " rolled"}.get(statement.unroll, f" unroll {statement.unroll}")
            return f"for {statement.variable} in {statement.lower}..{statement.extent}{step}{bind}{unroll}"
        case Where():
            return f"where {statement.left} {statement.comparison} {statement.right}"
        case Tile():
            padding = f" padded {statement.padding}" if statement.padding else ""
            swizzled = " swizzled" if statement.swizzled else ""
            kind = f" {statement.type}" if statement.type != "f32" else ""
            return f"{statement.memory} {element(statement.name, statement.extents)}{padding}{swizzled}{kind}"
        case Reduce():
            apart = f" apart {statement.apart}" if statement.apart != 1 else ""
            parts = f" in {statement.parts}" if statement.parts else ""
            return f"reduce {statement.target} {statement.reduction} over {statement.lanes} lanes{apart}{parts}"
        case Barrier():
            return f"barrier {statement.level}{' after copies' if statement.copies else ''}"
        case Copy():
            target = element(statement.target, statement.indices)
            return f"copy {target} = {element(statement.buffer, statement.buffer_indices)}"
        case KeptLoad():
            return f"{print_statement(statement)} kept {statement.kept}"
        case CheckedLoad():
            return f"{print_statement(statement)} checked {', '.join(map(str, statement.checked))}"
        case ShuffledLoad():
            return f"{print_statement(statement)} shuffled"
        case Search():
            return (
                f"index {statement.result} = last {statement.buffer}[{statement.lower}..{statement.upper}]"
                f" <= {statement.value}"
            )
        case Multiply():
            target = element(statement.target, statement.indices)
            left, right = (
                element(statement.left, statement.left_indices),
                element(statement.right, statement.right_indices),
            )
            over = f"{statement.rows} x {statement.columns} x {statement.depth} in {statement.precision}"
            over += f" by {statement.warps} warps" if statement.warps > 1 else ""
            return f"multiply {target} += {left} * {right} from {statement.column} over {over}"
        case AtomicAccumulate():
            target = element(statement.target, statement.indices)
            value = print_expression(statement.function, statement.operands)
            result = f"{statement.result} = " if statement.result else ""
            return f"{result}atomic {target} {REDUCTION_SIGNS[statement.reduction]} {value}"
        case Index():
            return f"index {statement.result} = {print_index(statement.function, statement.operands, {})[0]}"
    return print_statement(statement)


def print_steps(body: tuple[Statement, ...], depth: int, known: dict[str, Text]) -> list[Line]:
    """The lines of statements, two spaces a level. What is `known` stands where it is read; declarations, loads and
    stores that follow one another share a line, if they are of one origin, as does a line with the loop around it."""
    lines: list[Line] = []
    before = ""
    for statement in body:
        if is_in_place(statement):
            note_in_place(statement, known)
            continue
        text, last = _head(statement, known)
        word = _declares(statement)
        beside = f"{lines[-1].text}, {text.removeprefix(f'{word} ')}" if word and word == before else ""
        before = word
        if beside and same_operations(lines[-1].origin, statement.origin) and len(beside) <= LINE + 2 * depth:
            lines[-1] = Line(beside, lines[-1].origin)
        else:
            lines.append(Line("  " * depth + text, statement.origin))
        if isinstance(last, (Loop, Where)):
            inside = print_steps(last.body, depth + 1, known)
            whole = f"{lines[-1].text}: {inside[0].text.lstrip()}" if len(inside) == 1 else ""
            if whole and inside[0].origin == statement.origin and len(whole) <= LINE + 2 * depth:
                lines[-1], inside = Line(whole, statement.origin), []
            lines += inside
    return lines


def _head(statement: Statement, known: dict[str, Text]) -> tuple[str, Statement]:
    """The text of a statement, and of the loops and conditions in it that have nothing but one another inside; and the
    innermost of these."""
    text = _text(statement, known)
    while isinstance(statement, (Loop, Where)) and (inner := _only(statement, known)) is not None:
        shown = _text(inner, known)
        longer = f"{text}, {shown.partition(' ')[2]}" if type(inner) is type(statement) else f"{text} {shown}"
        if len(longer) > LINE:
            break
        text, statement = longer, inner
    return text, statement


def _text(statement: Statement, known: Mapping[str, Text]) -> str:
    if isinstance(statement, Index):
        return f"index {statement.result} = {print_index(statement.function, statement.operands, known)[0]}"
    return print_step(with_texts(statement, known))


def _only(around: Loop | Where, known: dict[str, Text]) -> Loop | Where | None:
    """The loop or condition of the same origin that is all there is in another; conditions have no loops beside
    them."""
    *before, last = around.body or (around,)
    kinds = Where if isinstance(around, Where) else Loop | Where
    if last is around or not isinstance(last, kinds) or not same_operations(last.origin, around.origin):
        return None
    in_place = [statement for statement in before if is_in_place(statement)]
    if len(in_place) < len(before):
        return None
    for statement in in_place:
        note_in_place(statement, known)
    return last


def _declares(statement: Statement) -> str:
    """The word that statements share which may stand in one line; "" for all others."""
    words = {Index: "index", Load: "load", Store: "store", Accumulator: "acc", Accumulate: "add"}
    match statement:
        case Tile():
            return statement.memory
        case AtomicAccumulate(result=""):
            return "atomic"
    return words.get(type(statement), "")


def print_scheduled(kernel: ScheduledKernel) -> tuple[Line, ...]:
    """The head with the schedule, sizes and buffers, then the nest."""
    resident = f"  resident {kernel.resident}" if kernel.resident else ""
    once = "  once" if kernel.once else ""
    streamed = f"  streamed {', '.join(kernel.streamed)}" if kernel.streamed else ""
    busy = f"  busy {kernel.busy}" if kernel.busy else ""
    head = f"scheduled {kernel.name}  template {kernel.template}  threads {kernel.threads}"
    lines = [Line(f"{head}{resident}{once}{streamed}{busy}")]
    lines += [Line(f"  chosen {chosen}") for name, own in kernel.chosen for chosen in print_chosen_lines(name, own)]
    lines += [Line(f"  schedule {primitive}") for primitive in kernel.schedule]
    if kernel.sizes:
        lines.append(Line("  size " + ", ".join(f"{name} = {size}" for name, size in kernel.sizes)))
    lines += [Line(f"  count {name} = {count}") for name, count in kernel.counts]
    for kind, buffers in groupby(kernel.buffers, lambda buffer: buffer.kind):
        lines.append(Line(f"  {kind} " + ", ".join(buffer.declared for buffer in buffers)))
    return (*lines, *print_steps(kernel.body, 1, {}))
