"""Vectors in CUDA: which values of a kernel are float2 or float4, and the functions on them, written on demand."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.compiler.codegen.cuda.words import FUNCTIONS, REDUCTIONS
from explorer.compiler.ir.functions import SIGNS
from explorer.compiler.ir.kernels import Loop, ScheduledKernel, Statement, Where, stays_wide
from explorer.compiler.ir.loops import Accumulate, Accumulator, Compute, Index, Load
from explorer.compiler.ir.node import Atom
from explorer.compiler.target import GpuTarget
from explorer.compiler.unsupported import Unsupported

ELEMENTS = "xyzw"
OPERATORS = {**SIGNS, "neg": "-"}
BOUNDS = {"unless_empty": 1, "segment_mean": 1}
"""Functions that take integers from this operand on."""
PARAMETERS = "abc"

Text = tuple[str, ...]


def vector_type(width: int) -> str:
    """`float`, `float2` or `float4`."""
    if width not in (1, 2, 4):
        raise Unsupported(f"CUDA has no vector of {width} floats for a loop of that step: take 2 or 4.")
    return "float" if width == 1 else f"float{width}"


class Vectors:
    """The names that stand for several consecutive elements, each with the vector loop that makes it so.

    Indices are vectors by a sum with the loop's variable; values by what they are computed of. An accumulator of a
    vector loop's inside that sums vectors is one of accumulators."""

    def __init__(self, kernel: ScheduledKernel) -> None:
        self._steps: dict[str, int] = {}
        self._loop: dict[str, str] = {}  # by name: the variable of its vector loop
        self._around: dict[str, frozenset[str]] = {}  # by accumulator: the vector loops around it
        known = -1
        while known < len(self._loop):
            known = len(self._loop)
            self._visit(kernel.body, frozenset())

    def width(self, atom: Atom) -> int:
        """How many elements a name or constant stands for."""
        return self._steps[self._loop[atom]] if isinstance(atom, str) and atom in self._loop else 1

    def width_of(self, operands: Sequence[Atom]) -> int:
        """How many elements an expression has."""
        return max((self.width(operand) for operand in operands), default=1)

    def _visit(self, body: tuple[Statement, ...], around: frozenset[str]) -> None:
        for statement in body:
            match statement:
                case Loop(step=step) if step > 1:
                    self._steps[statement.variable] = step
                    self._loop[statement.variable] = statement.variable
                    self._visit(statement.body, around | {statement.variable})
                case Loop() | Where():
                    self._visit(statement.body, around)
                case Index(operands=operands) if not self._loop.keys().isdisjoint(operands):
                    if stays_wide(statement, self.width_of(operands)):
                        self._follow(statement.result, operands)
                case Load():
                    self._follow(statement.result, statement.indices)
                case Compute():
                    self._follow(statement.result, statement.operands)
                case Accumulator():
                    self._around[statement.name] = around
                case Accumulate() if not statement.indices:
                    inside = self._around.get(statement.target, frozenset())
                    self._follow(statement.target, [o for o in statement.operands if self._loop.get(str(o)) in inside])

    def _follow(self, result: str, operands: Sequence[Atom]) -> None:
        for operand in operands:
            if isinstance(operand, str) and operand in self._loop:
                self._loop[result] = self._loop[operand]


def elementwise(function: str, widths: Sequence[int]) -> tuple[str, Text]:
    """How a function of vectors is called, as a pattern of its operands, and its text. Operands of width 1 are
    broadcast."""
    width = max(widths)
    kind, formula = vector_type(width), _formula(function)
    names = PARAMETERS[: len(widths)]
    bounds = BOUNDS.get(function, len(widths))
    types = ["int" if place >= bounds else vector_type(width if each > 1 else 1) for place, each in enumerate(widths)]
    parameters = ", ".join(f"{kind} {name}" for kind, name in zip(types, names, strict=True))
    elements = [
        formula.format(*(f"{name}.{element}" if each > 1 else name for name, each in zip(names, widths, strict=True)))
        for element in ELEMENTS[:width]
    ]
    operator = OPERATORS.get(function)
    name = f"operator{operator}" if operator else f"{function}_{kind}"
    text = _function(kind, f"{name}({parameters})", f"make_{kind}({', '.join(elements)})")
    arguments = ", ".join(f"{{{place}}}" for place in range(len(widths)))
    return (FUNCTIONS[function] if operator else f"{name}({arguments})"), text


def broadcast(width: int) -> tuple[str, Text]:
    """A vector of equal elements: its name, and its text."""
    kind = vector_type(width)
    name = f"broadcast_{kind}"
    return name, _function(kind, f"{name}(float a)", f"make_{kind}({', '.join('a' * width)})")


def horizontal(reduction: str, width: int) -> tuple[str, Text]:
    """The reduction of a vector's elements."""
    name, kind = f"{reduction}_elements", vector_type(width)
    first, *others = (f"a.{element}" for element in ELEMENTS[:width])
    for other in others:
        first = REDUCTIONS[reduction].format(first, other)
    return name, _function("float", f"{name}({kind} a)", first)


def add_products(widths: Sequence[int]) -> tuple[str, Text]:
    """The sum of two factors' products, element by element, on top of a scalar."""
    width = max(widths)
    types = [vector_type(each) for each in widths]
    total = "sum"
    for element in ELEMENTS[:width]:
        left, right = (f"{name}.{element}" if each > 1 else name for name, each in zip("ab", widths, strict=True))
        total = f"fmaf({left}, {right}, {total})"
    return "add_products", _function("float", f"add_products({types[0]} a, {types[1]} b, float sum)", total)


def add_vector(width: int, target: GpuTarget) -> tuple[str, Text]:
    """The atomic sum of a vector into memory: one instruction where the GPU has it, else one for each element."""
    kind = vector_type(width)
    if not target.vector_atomics:
        adds = [f"  atomicAdd(&target->{element}, a.{element});" for element in ELEMENTS[:width]]
    else:
        places = ", ".join(f"%{place + 1}" for place in range(width))
        values = ", ".join(f'"f"(a.{element})' for element in ELEMENTS[:width])
        adds = [
            f'  asm volatile("red.global.add.v{width}.f32 [%0], {{{places}}};"',
            f'               :: "l"(__cvta_generic_to_global(target)), {values} : "memory");',
        ]
    return "add_vector", (f"__device__ __forceinline__ void add_vector({kind}* target, {kind} a) {{", *adds, "}")


def over_lanes(function: str, width: int, *, parts: bool) -> Text:
    """The reduction over lanes of each element of a vector, by the function for one; `parts` is one of its operands."""
    kind, more, passed = vector_type(width), "float* parts, " if parts else "", "parts, " if parts else ""
    elements = ", ".join(f"{function}<LANES, APART>(x.{element}, {passed}lanes)" for element in ELEMENTS[:width])
    head = f"{function}({kind} x, {more}unsigned lanes = 0xffffffffu)"
    return ("template <int LANES, int APART = 1>", *_function(kind, head, f"make_{kind}({elements})"))


def _formula(function: str) -> str:
    if function == "fma":
        return "fmaf({0}, {1}, {2})"
    if function not in FUNCTIONS:
        raise Unsupported(f"There is no CUDA for the function {function}.")
    return FUNCTIONS[function]


def _function(result: str, head: str, value: str) -> Text:
    return (f"__device__ __forceinline__ {result} {head} {{", f"  return {value};", "}")
