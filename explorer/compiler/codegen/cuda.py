"""From the fused loops to CUDA C++: a warp an iteration of a kernel's parallel loop, one operation a line.

The text includes no header, so NVRTC compiles it anywhere. Offsets into buffers are 64 bits wide. Nothing but the
outputs is written to global memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.compiler.codegen.cleared import clear_sums, clearing_kernel
from explorer.compiler.codegen.cuda_plan import LANES, Plan, Touch, last_accumulations, make_plan, static_extent
from explorer.compiler.codegen.cuda_words import (
    FUNCTIONS,
    NEUTRAL,
    REDUCTIONS,
    USED,
    constant,
    refused,
    warp_reduction,
)
from explorer.compiler.codegen.names import TargetNames
from explorer.compiler.codegen.text import Code, Launch, Unsupported
from explorer.compiler.ir.kernels import Count
from explorer.compiler.ir.loops import (
    INFIX_INDEX,
    REDUCTION_SIGNS,
    Accumulate,
    Accumulator,
    Buffer,
    Compute,
    For,
    Index,
    Kernel,
    Load,
    Row,
    Statement,
    Store,
    reads_of,
    result_of,
)
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Atom, Extent, Line, Origin, merge, walk
from explorer.compiler.passes.report import Report

INT_LIMIT = 2**31
POINTERS = {"index": "const int*", "output": "float*"}
READ_ONLY = "const float*"


def generate_cuda(program: Kernel | Module, report: Report) -> Code:
    """The CUDA C++ of one kernel or of a module's, each computing line with its origin; Unsupported says why there
    is none."""
    if isinstance(program, Kernel):
        writer = _planned(program, report)
        comment, *function = writer.function()
        return Code((comment, *_helpers([writer]), *function), (writer.launch,), kernel_buffers([writer.kernel]))
    kernels = [kernel for kernel in program.programs if isinstance(kernel, Kernel)]
    writers = [_planned(step, report) for kernel in kernels for step in (clearing_kernel(kernel), kernel) if step]
    functions = [line for writer in writers for line in (Line(""), *writer.function())]
    head = Line(f"// {program.name}: {len(writers)} kernel{'s' if len(writers) > 1 else ''}, run in order.")
    launches = tuple(writer.launch for writer in writers)
    return Code((head, *_helpers(writers), *functions), launches, kernel_buffers(kernels))


def kernel_buffers(kernels: Sequence[Kernel]) -> tuple[Buffer, ...]:
    """All buffers that the kernels name, each once and as the first kernel has it: an output before a temporary."""
    return tuple({buffer.name: buffer for kernel in reversed(kernels) for buffer in kernel.buffers}.values())


def _helpers(writers: Sequence[_Writer]) -> list[Line]:
    """The device functions that the kernels call, each once. To be asked for when the kernels are written."""
    origins: dict[str, Origin] = {}
    for writer in writers:
        for reduction, origin in writer.helpers.items():
            origins[reduction] = merge(origins.get(reduction, ()), origin)
    return [
        Line(text, () if text == "}" else origin)
        for reduction, origin in sorted(origins.items())
        for text in warp_reduction(reduction)
    ]


def _planned(kernel: Kernel, report: Report) -> _Writer:
    """The writer of a kernel, its mapping decided."""
    kernel = clear_sums(kernel)
    plan = make_plan(kernel)
    report.did(f"a warp an iteration of {plan.batch.variable}, {plan.warps} warps a block")
    if plan.lane_loops:
        spread = [loop.variable for loop in walk(plan.batch) if isinstance(loop, For)]
        report.did("lanes share " + ", ".join(name for name in spread if name in plan.lane_loops))
    if plan.register_rows:
        report.did("in registers: " + ", ".join(sorted(plan.register_rows)))
    if plan.shared_rows:
        report.did("in shared memory: " + ", ".join(sorted(plan.shared_rows)))
    return _Writer(kernel, plan)


class _Writer:
    """Writes one kernel, from top to bottom."""

    def __init__(self, kernel: Kernel, plan: Plan) -> None:
        self.kernel, self.plan = kernel, plan
        self.names = TargetNames(kernel, USED, refused)
        self.extents = {buffer.name: buffer.extents for buffer in kernel.buffers}
        self.extents |= {node.name: node.extents for node in walk(kernel) if isinstance(node, Row)}
        self.outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
        self.counts = _counts(kernel, plan.batch)
        self.symbol = self.names.new(f"{kernel.name}_kernel")
        self.largest: dict[str, int | None] = {}  # of each integer; None where only 64 bits are sure to do
        self.partial: dict[tuple[str, tuple[Atom, ...]], str] = {}
        self.helpers: dict[str, Origin] = {}
        self.slot = ""  # the register of a row that belongs to this iteration of a lane loop
        self.depth = 1
        self.lines: list[Line] = []

    @property
    def launch(self) -> Launch:
        """How to run the kernel."""
        batch = self.plan.batch.extent
        arguments = (*(buffer.name for buffer in self.kernel.buffers), *self.counts)
        blocks = Count(((batch if isinstance(batch, str) else int(batch), self.plan.warps),))
        return Launch(self.symbol, arguments, blocks, LANES * self.plan.warps)

    def function(self) -> tuple[Line, ...]:
        """The kernel: a comment, head, sizes, the parallel loop's iteration."""
        plan, batch = self.plan, self.plan.batch
        self.block(plan.prologue)
        self.first_lines(batch)
        self.block(batch.body)
        body, self.lines, self.depth = self.lines, [], 0
        self.write(f"// {self.kernel.name}: a warp of {LANES} lanes an iteration, {plan.warps} a block.")
        self.head()
        return (*self.lines, *body, Line("}"))

    def head(self) -> None:
        self.write(f'extern "C" __global__ void __launch_bounds__({LANES * self.plan.warps})')
        self.write(f"{self.symbol}(")
        self.depth = 2
        parameters = [f"{_pointer(buffer)} __restrict__ {self.names[buffer.name]}" for buffer in self.kernel.buffers]
        parameters.append(", ".join(f"long long {self.names[count]}" for count in self.counts))
        *first, last = filter(None, parameters)
        for parameter in first:
            self.write(f"{parameter},")
        self.write(f"{last}) {{")
        self.depth = 1
        for name, size in self.kernel.sizes:
            self.write(f"constexpr int {self.names[name]} = {size};")

    def first_lines(self, batch: For) -> None:
        """Which lane of which warp this is, and its iteration; the lanes of a warp leave together."""
        b, origin = self.names[batch.variable], batch.origin
        self.largest[batch.variable] = None
        self.write(f"const int lane = threadIdx.x % {LANES};", origin)
        self.write(f"const int warp = threadIdx.x / {LANES};", origin)
        self.write(f"const long long {b} = blockIdx.x * {self.plan.warps}LL + warp;", origin)
        self.write(f"if ({b} >= {self.atom(batch.extent)}) return;", origin)

    def write(self, text: str, origin: Origin = ()) -> None:
        self.lines.append(Line("  " * self.depth + text, origin))

    def block(self, body: Sequence[Statement], *, repeats: bool = False) -> None:
        """Statements that all lanes run alike, in step again wherever one lane needs what another did.

        `repeats`: the statements are a loop's body, so the first follow the last."""
        touches = [self.plan.touches(statement) for statement in body]
        pending: set[Touch] = set()
        ends = self.finished_accumulators(body)
        for place, statement in enumerate(body):
            if _disturb(pending, touches[place]):
                self.write("__syncwarp();", statement.origin)
                pending = set()
            self.statement(statement)
            pending |= touches[place]
            for name in ends.get(place, ()):
                self.finish_accumulator(name, statement)
        if repeats and _disturb(pending, set().union(*touches)):
            self.write("__syncwarp();", body[-1].origin)

    def finished_accumulators(self, body: Sequence[Statement]) -> dict[int, list[str]]:
        """By place in the body: the accumulators whose last loop ends there, and with it their partial sums."""
        ends: dict[int, list[str]] = {}
        last = last_accumulations(body)
        for statement in body:
            if isinstance(statement, Accumulator) and statement.name in self.plan.deferred:
                ends.setdefault(last[statement.name], []).append(statement.name)
        return ends

    def finish_accumulator(self, accumulator: str, statement: Statement) -> None:
        """The warp reduction after the last statement that accumulates."""
        sums = [node for node in walk(statement) if isinstance(node, Accumulate) and node.target == accumulator]
        name, origin = self.names[accumulator], merge(*(node.origin for node in sums))
        self.write(f"{name} = {self.warp_call(sums[0].reduction, name, origin)};", origin)

    def warp_call(self, reduction: str, value: str, origin: Origin) -> str:
        self.helpers[reduction] = merge(self.helpers.get(reduction, ()), origin)
        return f"warp_{reduction}({value})"

    def statement(self, statement: Statement, *, in_lanes: bool = False) -> None:
        """One statement; in a loop spread over the lanes, each lane does it for its own iteration."""
        once = "" if in_lanes else "if (lane == 0) "
        origin = statement.origin
        match statement:
            case For() if statement.variable in self.plan.lane_loops:
                self.lane_loop(statement)
            case For():
                self.uniform_loop(statement)
            case Row():
                self.row(statement)
            case Load():
                self.write(self.load(statement), origin)
            case Index():
                self.write(self.index(statement), origin)
            case Compute():
                value = self.expression(statement.function, statement.operands)
                self.write(f"const float {self.names[statement.result]} = {value};", origin)
            case Accumulator():
                self.write(f"float {self.names[statement.name]} = {constant(statement.start)};", origin)
            case Store():
                target = self.element(statement.target, statement.indices)
                value = self.expression(statement.function, statement.operands)
                self.write(f"{once}{target} = {value};", origin)
            case Accumulate():
                target = self.target(statement)
                once = once if statement.indices else ""
                if statement.target in self.plan.atomic and (statement.target, statement.indices) not in self.partial:
                    value = self.expression(statement.function, statement.operands)
                    self.write(f"{once}atomicAdd(&{target}, {value});", origin)
                    return
                self.write(f"{once}{self.accumulate(statement, target)};", origin)

    def uniform_loop(self, loop: For) -> None:
        kind, variable = self.loop_variable(loop)
        lower, extent = self.atom(loop.lower), self.atom(loop.extent)
        self.write(f"for ({kind} {variable} = {lower}; {variable} < {extent}; {variable}++) {{", loop.origin)
        self.depth += 1
        self.block(loop.body, repeats=True)
        self.depth -= 1
        self.write("}")

    def loop_variable(self, loop: For) -> tuple[str, str]:
        """The variable's type and name: 32 bits where the bounds are known to fit."""
        size = static_extent(self.kernel, loop.extent)
        fits = size is not None and isinstance(loop.lower, int)
        self.largest[loop.variable] = size - 1 if size is not None and fits else None
        return "int" if fits else "long long", self.names[loop.variable]

    def lane_loop(self, loop: For) -> None:
        """A loop whose iterations the lanes share, and the warp reductions of what it alone accumulates."""
        partial = self.open_partials(loop)
        registers = any(_target(child) in self.plan.register_rows for child in loop.body)
        depth = self.depth
        if registers:
            self.slots_head(loop)
        else:
            self.strided_head(loop)
        for child in loop.body:
            self.statement(child, in_lanes=True)
        self.slot = ""
        while self.depth > depth:
            self.depth -= 1
            self.write("}")
        self.close_partials(partial)

    def strided_head(self, loop: For) -> None:
        kind, variable = self.loop_variable(loop)
        first = "lane" if loop.lower == 0 else f"{self.atom(loop.lower)} + lane"
        extent = self.atom(loop.extent)
        self.write(f"for ({kind} {variable} = {first}; {variable} < {extent}; {variable} += {LANES}) {{", loop.origin)
        self.depth += 1

    def slots_head(self, loop: For) -> None:
        """A constant trip count, unrolled: only so do the rows' elements stay in registers."""
        _, variable = self.loop_variable(loop)
        extent, size = self.atom(loop.extent), (static_extent(self.kernel, loop.extent) or 0)
        self.slot = self.names.new("slot")
        slots = f"({extent} + {LANES - 1}) / {LANES}"
        self.write("#pragma unroll")
        self.write(f"for (int {self.slot} = 0; {self.slot} < {slots}; {self.slot}++) {{", loop.origin)
        self.depth += 1
        if size % LANES or self.names_variable(loop):
            self.write(f"const int {variable} = lane + {LANES} * {self.slot};", loop.origin)
        if size % LANES:
            self.write(f"if ({variable} < {extent}) {{", loop.origin)
            self.depth += 1

    def names_variable(self, loop: For) -> bool:
        """Whether the text of the loop's body has its variable: rows in registers are indexed by the slot."""
        return any(
            loop.variable in reads_of(child) and _target(child) not in self.plan.register_rows for child in loop.body
        )

    def open_partials(self, loop: For) -> list[Accumulate]:
        """A variable a lane for each target outside the loop that all its iterations reduce into."""
        local = {child.name for child in loop.body if isinstance(child, Accumulator)} | self.plan.deferred
        shared = [
            child
            for child in loop.body
            if isinstance(child, Accumulate) and child.target not in local and loop.variable not in child.indices
        ]
        first = {(child.target, child.indices): child for child in reversed(shared)}
        for key, child in first.items():
            self.partial[key] = self.names.new(f"{child.target}_lane")
            self.write(f"float {self.partial[key]} = {constant(NEUTRAL[child.reduction])};", child.origin)
        return list(first.values())

    def close_partials(self, partial: list[Accumulate]) -> None:
        for child in partial:
            name = self.partial.pop((child.target, child.indices))
            total = self.warp_call(child.reduction, name, child.origin)
            target = self.element(child.target, child.indices)
            if child.target in self.plan.atomic:
                self.write(f"{name} = {total};", child.origin)
                self.write(f"if (lane == 0) atomicAdd(&{target}, {name});", child.origin)
            elif child.indices:  # a row in shared memory: all lanes reduce, one writes
                self.write(f"{name} = {total};", child.origin)
                value = REDUCTIONS[child.reduction].format(target, name)
                self.write(f"if (lane == 0) {target} = {value};", child.origin)
            else:
                self.write(f"{target} = {REDUCTIONS[child.reduction].format(target, total)};", child.origin)

    def row(self, row: Row) -> None:
        """A row's storage: some floats a lane, or a slice of the block's shared memory."""
        name = self.names[row.name]
        extents = [self.extent(extent) for extent in row.extents]
        if row.name in self.plan.register_rows:
            self.write(f"float {name}[({extents[0]} + {LANES - 1}) / {LANES}];", row.origin)
            return
        slices = self.names.new(f"{row.name}_slices")
        size = " * ".join(extents) or "1"
        self.write(f"__shared__ float {slices}[{self.plan.warps}][{size}];", row.origin)
        self.write(f"float* const {name} = {slices}[warp];", row.origin)

    def load(self, load: Load) -> str:
        name, element = self.names[load.result], self.element(load.buffer, load.indices)
        kinds = {buffer.name: buffer.kind for buffer in self.kernel.buffers}
        if kinds.get(load.buffer) != "index":
            return f"const float {name} = {element};"
        self.largest[load.result] = None
        return f"const long long {name} = {element};"

    def index(self, index: Index) -> str:
        """Integer arithmetic, on 32 bits where the largest value fits."""
        largest = [self.largest_of(operand) for operand in index.operands]
        limit = _largest_result(index.function, largest)
        self.largest[index.result] = limit
        left, right = (self.atom(operand) for operand in index.operands)
        if limit is None and None not in largest:
            left = f"(long long){left}"
        kind = "long long" if limit is None else "int"
        sign = INFIX_INDEX[index.function][0]  # C's / on integers is the loops' // : neither side is negative
        return f"const {kind} {self.names[index.result]} = {left} {sign} {right};"

    def largest_of(self, atom: Atom) -> int | None:
        return self.largest[atom] if isinstance(atom, str) else int(atom)

    def element(self, target: str, indices: tuple[Atom, ...]) -> str:
        """An element of a row or a buffer, by its offset in row-major order; or an accumulator."""
        if not indices:
            return self.names[target] if target not in self.extents else f"{self.names[target]}[0]"
        if target in self.plan.register_rows:
            return f"{self.names[target]}[{self.slot}]"
        extents = self.extents[target]
        text = self.atom(indices[0])
        if all(self.largest_of(index) is not None for index in indices) and self.is_large(extents):
            text = f"(long long){text}"
        for place, (index, extent) in enumerate(zip(indices[1:], extents[1:], strict=True)):
            text = f"({text})" if place else text
            text = f"{text} * {self.extent(extent)} + {self.atom(index)}"
        return f"{self.names[target]}[{text}]"

    def is_large(self, extents: tuple[Extent, ...]) -> bool:
        """Whether an offset into a buffer of these extents may exceed 31 bits."""
        product = 1
        for extent in extents:
            product *= static_extent(self.kernel, extent) or INT_LIMIT
        return product > INT_LIMIT

    def target(self, statement: Accumulate) -> str:
        partial = self.partial.get((statement.target, statement.indices))
        return partial or self.element(statement.target, statement.indices)

    def accumulate(self, statement: Accumulate, target: str) -> str:
        if statement.reduction == "sum" and statement.function == "mul":
            left, right = (self.atom(operand, value=True) for operand in statement.operands)
            return f"{target} = fmaf({left}, {right}, {target})"
        value = self.expression(statement.function, statement.operands)
        if statement.reduction in ("sum", "product"):
            return f"{target} {REDUCTION_SIGNS[statement.reduction]} {value}"
        return f"{target} = {REDUCTIONS[statement.reduction].format(target, value)}"

    def expression(self, function: str, operands: tuple[Atom, ...]) -> str:
        if function not in FUNCTIONS:
            raise Unsupported(f"There is no CUDA for the function {function}.")
        return FUNCTIONS[function].format(*(self.atom(operand, value=True) for operand in operands))

    def atom(self, atom: Atom, *, value: bool = False) -> str:
        if isinstance(atom, str):
            return self.names[atom]
        return constant(atom) if value else str(atom)

    def extent(self, extent: Extent) -> str:
        return self.names[extent] if isinstance(extent, str) else str(extent)


def _disturb(before: set[Touch], after: set[Touch]) -> bool:
    """Whether the lanes must be in step between what comes before a place and what comes after it."""
    return any(first.disturbs(second) for first in before for second in after)


def _target(statement: Statement) -> str | None:
    """The row or buffer that a statement reads or writes elements of."""
    match statement:
        case Load():
            return statement.buffer
        case Store() | Accumulate():
            return statement.target
    return None


def _pointer(buffer: Buffer) -> str:
    return POINTERS.get(buffer.kind, READ_ONLY)


def _counts(kernel: Kernel, batch: For) -> tuple[str, ...]:
    """The extents known only at run time that the kernel needs: the batch, those inside a buffer's offsets, and those
    that loops run to."""
    known = {name for name, _ in kernel.sizes} | {result_of(node) for node in walk(kernel)}
    needed: set[Atom] = {extent for buffer in kernel.buffers for extent in buffer.extents[1:]}
    needed |= {bound for node in walk(kernel) if isinstance(node, For) for bound in (node.lower, node.extent)}
    later = sorted(name for name in needed if isinstance(name, str) and name not in known and name != batch.extent)
    return (*((batch.extent,) if isinstance(batch.extent, str) else ()), *later)


def _largest_result(function: str, largest: list[int | None]) -> int | None:
    """The largest value of integer arithmetic on operands from 0 to their largest; None: 64 bits are needed."""
    left, right = largest
    if function == "mod" and right is not None:
        return right - 1
    if left is None or right is None:
        return None
    result = {"add": left + right, "sub": left, "mul": left * right, "div": left}[function]
    return result if result < INT_LIMIT else None
