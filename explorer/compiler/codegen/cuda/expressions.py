"""The parts of a line of CUDA C++: names, elements, integer arithmetic, f32 expressions, and what assigns them."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.compiler.codegen.cuda.caches import load_kept
from explorer.compiler.codegen.cuda.helpers import Helpers
from explorer.compiler.codegen.cuda.inlining import (
    BINDING,
    CALL,
    LOOSE,
    NAMED,
    PRIMARY,
    PRODUCT,
    SUM,
    Value,
    operands_bind,
    used_in_place,
)
from explorer.compiler.codegen.cuda.integers import INT_LIMIT, Integers
from explorer.compiler.codegen.cuda.narrow import bits_type, from_bits
from explorer.compiler.codegen.cuda.sharing import share_loops, static_number
from explorer.compiler.codegen.cuda.tensor_cores.wgmma import PARTS
from explorer.compiler.codegen.cuda.tiles import accesses, register_tiles
from explorer.compiler.codegen.cuda.vectors import (
    ELEMENTS,
    Vectors,
    add_products,
    add_vector,
    broadcast,
    elementwise,
    horizontal,
    vector_type,
)
from explorer.compiler.codegen.cuda.words import COPY, FUNCTIONS, REDUCTIONS, USED, constant, is_taken
from explorer.compiler.codegen.names import TargetNames
from explorer.compiler.ir.kernels import (
    AtomicAccumulate,
    CheckedLoad,
    Copy,
    KeptLoad,
    Loop,
    Multiply,
    ScheduledKernel,
    Search,
    ShuffledLoad,
    Tile,
    Where,
)
from explorer.compiler.ir.loops import (
    COMPARISONS,
    INFIX_INDEX,
    REDUCTION_SIGNS,
    Accumulate,
    Compute,
    Index,
    Load,
    Store,
)
from explorer.compiler.ir.node import Atom, Extent, Node, Origin, walk
from explorer.compiler.target import GpuTarget
from explorer.compiler.unsupported import Unsupported

CHOICES = {"min": "<", "max": ">"}
REDUCING = {"sum": "add", "product": "mul", "max": "max", "min": "min"}
"""The function that a reduction applies again and again."""
COPIED = 4
"""Elements that a copy moves."""
COMMUTATIVE = ("add", "mul")
"""Functions whose narrower operand is written first, so that one device function does for both orders."""


class Expressions:
    """Writes expressions of one kernel, and knows what its names stand for."""

    def __init__(self, kernel: ScheduledKernel, helpers: Helpers, target: GpuTarget) -> None:
        self.kernel, self.helpers, self.target = kernel, helpers, target
        self.names = TargetNames(kernel, USED, is_taken)
        self.vectors = Vectors(kernel)
        self.shares = share_loops(kernel)
        found = accesses(kernel)
        self.registers = register_tiles(kernel, found, self.shares, self.vectors)
        tiles = [node for node in walk(kernel) if isinstance(node, Tile)]
        self.tiles = {tile.name: tile for tile in tiles}
        self.extents = {buffer.name: buffer.extents for buffer in kernel.buffers}
        self.extents |= {tile.name: tile.extents for tile in tiles}
        self.integers = {buffer.name for buffer in kernel.buffers if buffer.type == "i32"}
        self.integers |= {tile.name for tile in tiles if tile.type == "i32"}
        self.storages = {buffer.name: buffer.storage for buffer in kernel.buffers if buffer.storage != "f32"}
        self.written = {node.target for node in walk(kernel) if isinstance(node, (Store, Accumulate))}
        self.wide = {name for name in found if any(self.vectors.width(place[-1]) > 1 for place in found[name])}
        self.slot_loops = {
            str(index) for name in self.registers for place in found.get(name, []) for index in place
        } & set(self.shares)
        self.numbers = Integers(kernel)
        self.slot_of: dict[str, str] = {}  # by the variable of a shared loop that goes round
        self.slice_of: dict[str, str] = {}  # by tile in shared memory: the index of the thread's own slice
        self.shift: dict[str, int] = {}  # by vector index: which of its elements is meant
        self.in_place = used_in_place(kernel, self.has_no_braces)
        self.values: dict[str, Value] = {}  # by name: what is written in its place
        self.taken: list[Value] = []  # of those, what the line that is being written has
        self.used: set[str] = set()
        self.members: set[str] = set()
        self.origin: Origin = ()

    def atom(self, atom: Atom, least: int = PRIMARY, *, value: bool = False) -> str:
        """A name, what is written in its place, or a constant; `least` is how tightly it must bind."""
        if not isinstance(atom, str):
            return constant(atom) if value else str(atom)
        self.used.add(atom)
        more = self.shift.get(atom)
        known = self.values.get(atom)
        if known is not None:
            self.taken.append(known)
            return f"({known.within(SUM)} + {more})" if more else known.within(least)
        return f"({self.names[atom]} + {more})" if more else self.names[atom]

    def has_no_braces(self, loop: Loop) -> bool:
        """Whether each member of a level has one iteration of a loop, and so its body stands by itself."""
        share = self.shares.get(loop.variable)
        if share is None:
            return loop.bind in ("block", "column")
        return share.rounds == 1 and share.iterations is not None and share.iterations % share.width == 0

    def is_named(self, loop: Loop) -> bool:
        """Whether the text of the loop's body has its variable: dimensions shared over it are indexed by the slot."""
        for node in walk(loop):
            target, indices = _access(node)
            if (target not in self.registers and loop.variable in indices) or loop.variable in _other_atoms(node):
                return True
        return False

    # Integers.

    def index(self, index: Index) -> tuple[str, str, int]:
        """Integer arithmetic: the type that its result has, the text, and how tightly that binds."""
        numbers = self.numbers
        numbers.define_result(index)
        kind = numbers.type_of(index.result)
        match index:
            case (
                Index(function="add" | "sub", operands=(str(kept), 0)) | Index(function="add", operands=(0, str(kept)))
            ):
                return kind, self.atom(kept), PRIMARY
        if index.function in CHOICES:
            if kind == "int":
                left, right = (self.atom(operand, LOOSE) for operand in index.operands)
                return kind, f"{index.function}({left}, {right})", CALL
            left, right = (self.atom(operand) for operand in index.operands)
            return kind, f"{left} {CHOICES[index.function]} {right} ? {left} : {right}", NAMED
        if index.function in COMPARISONS:
            left, right = (self.atom(operand, SUM) for operand in index.operands)
            return kind, f"{left} {COMPARISONS[index.function]} {right}", LOOSE
        if index.function == "select":
            own, *choices = index.operands
            return kind, f"{self.atom(own)} ? {' : '.join(self.atom(each, LOOSE) for each in choices)}", NAMED
        sign, divisor = self.sign(index)
        of_left, of_right, binds = BINDING[sign]
        right = divisor or self.atom(index.operands[1], of_right)
        wide = any(map(numbers.is_wide, index.operands))
        if kind == "long long" and not wide:
            return kind, f"(long long){self.atom(index.operands[0])} {sign} {right}", binds
        # What is narrower than its operands needs a name, whose type makes it so.
        return (
            kind,
            f"{self.atom(index.operands[0], of_left)} {sign} {right}",
            NAMED if wide and kind == "int" else binds,
        )

    def sign(self, index: Index) -> tuple[str, str]:
        """The operator, and its right side if that is another. The loops' // rounds down, as a shift by bits does; C's
        / on signed integers rounds to zero, which takes an addition more, unless nvcc knows that neither side is
        negative."""
        dividend, divisor = index.operands
        if self.numbers.largest(dividend) is None and isinstance(divisor, int) and divisor.bit_count() == 1:
            if index.function == "div":
                return ">>", str(divisor.bit_length() - 1)
            if index.function == "mod":
                return "&", str(divisor - 1)
        return INFIX_INDEX[index.function][0], ""

    # Elements.

    def element(self, target: str, indices: tuple[Atom, ...], width: int = 1) -> str:
        """An element of a tile or a buffer, or `width` consecutive ones, or an accumulator."""
        if target in self.registers:
            return self.register_element(target, indices, width)
        if not indices and target not in self.extents:
            return self.names[target]
        offset = self.offset(target, indices) if indices else 0
        return self.vector_at(target, f"{self.array(target)}[{offset}]", width)

    def array(self, target: str) -> str:
        """A buffer or a tile in shared memory, of which a thread may have a slice of its own."""
        return self.names[target] + self.slice_of.get(target, "")

    def vector_at(self, target: str, element: str, width: int) -> str:
        if width == 1:
            return element
        return f"*reinterpret_cast<{self.pointed(target, width)}*>(&{element})"

    def pointed(self, target: str, width: int) -> str:
        """The vector type behind a pointer: constant for the arrays that the kernel does not write."""
        written = target in self.tiles or target in self.written
        kind = bits_type(self.storages[target], width) if target in self.storages else vector_type(width)
        return kind if written else f"const {kind}"

    def offset(self, target: str, indices: Sequence[Atom]) -> str:
        """An element's place in row-major order."""
        extents = self.extents[target]
        tile = self.tiles.get(target)
        while len(indices) > 1 and indices[0] == 0:
            indices, extents = indices[1:], extents[1:]
        if len(indices) == 1:
            return self.atom(indices[0], LOOSE)
        if self.is_large(extents) and not self.numbers.is_wide(indices[0]):
            text = f"(long long){self.atom(indices[0])}"
        else:
            text = self.atom(indices[0], PRODUCT)
        for place, (index, extent) in enumerate(zip(indices[1:], extents[1:], strict=True), 1):
            text = f"({text})" if place > 1 else text
            length, last = self.atom(extent), place == len(extents) - 1
            if tile and tile.padding and last:
                length = f"({length} + {tile.padding})"
            added = self.atom(index, PRODUCT)
            if tile and tile.swizzled and last and indices[-2] != 0:
                added = f"({self.atom(index, CALL)} ^ {self.atom(indices[-2], PRIMARY)} % 8 * 4)"
            text = f"{text} * {length}" if added == "0" else f"{text} * {length} + {added}"
        return text

    def floats_text(self, tile: Tile) -> str:
        """The elements of a tile in shared memory: `16 * (128 + 4)`."""
        *outer, last = (self.atom(extent) for extent in tile.extents)
        return " * ".join([*outer, f"({last} + {tile.padding})" if tile.padding else last])

    def register_element(self, target: str, indices: tuple[Atom, ...], width: int) -> str:
        tile, text = self.registers[target], self.names[target]
        for place, index in enumerate(indices):
            if tile.shared[place]:
                if tile.rounds[place] > 1:
                    text += f"[{self.slot_of[str(index)]}]"
            elif place == len(indices) - 1 and tile.width > 1:
                text += (
                    f"[{self.atom(index)} / {tile.width}]"
                    if isinstance(index, str)
                    else f"[{int(index) // tile.width}]"
                )
            else:
                text += f"[{self.atom(index)}]"
        return text if tile.width == width else self.vector_at(target, text, width)

    def is_large(self, extents: tuple[Extent, ...]) -> bool:
        """Whether an offset into a buffer of these extents may exceed 31 bits."""
        product = 1
        for extent in extents:
            product *= static_number(self.kernel, extent) or INT_LIMIT
        return product > INT_LIMIT

    def elements(self, target: str, indices: tuple[Atom, ...]) -> list[str]:
        """The single elements of an access by a vector index that is not its last; empty for all others."""
        wide = [place for place, index in enumerate(indices) if self.vectors.width(index) > 1]
        if not wide or wide[-1] == len(indices) - 1:
            return []
        (vector,) = (str(indices[place]) for place in wide)
        found = []
        for more in range(self.vectors.width(vector)):
            self.shift[vector] = more
            found.append(self.element(target, indices))
        del self.shift[vector]
        return found

    # Values.

    def load(self, load: Load) -> tuple[str, str]:
        """The type of what is loaded, and the expression."""
        kind, text = self.plain_load(load)
        if not isinstance(load, CheckedLoad):
            return kind, text
        inside = (
            condition
            for index, extent in zip(load.indices, self.extents[load.buffer], strict=True)
            if index in load.checked
            for condition in self.inside(index, extent)
        )
        return kind, f"{' && '.join(inside)} ? {text} : {kind}{{}}"

    def inside(self, index: Atom, extent: Extent) -> tuple[str, str]:
        """The conditions for an index, and all that a vector's stands for, to be inside."""
        last = self.vectors.width(index) - 1
        end = f"{self.atom(index)} + {last}" if last else self.atom(index)
        return f"0 <= {self.atom(index)}", f"{end} < {self.atom(extent)}"

    def plain_load(self, load: Load) -> tuple[str, str]:
        """The same, wherever its indices are."""
        if load.buffer in self.integers:
            if self.vectors.width(load.result) > 1:
                raise Unsupported(f"Indices of {load.buffer} are loaded one by one: its loop may have no step.")
            self.numbers.define(load.result, None)
            return "int", self.loaded(load.buffer, self.element(load.buffer, load.indices))
        width = self.vectors.width(load.result)
        single = self.elements(load.buffer, load.indices)
        kind = vector_type(width)
        if isinstance(load, KeptLoad):
            self.helpers.use("load_kept", load_kept(width, self.storages.get(load.buffer, "f32")), self.origin)
            place = _pointer_to(self.element(load.buffer, load.indices, width))
            return kind, self.converted(load.buffer, f"load_kept({place}, {self.atom(load.kept, LOOSE)})", width)
        if single:
            return kind, f"make_{kind}({', '.join(self.converted(load.buffer, each, 1) for each in single)})"
        element = self.element(load.buffer, load.indices, width)
        if isinstance(load, ShuffledLoad):  # the lane's own element, and the number of the lane whose element it gets
            return kind, f"__shfl_sync(0xffffffffu, {element}, {self.atom(load.indices[-1], LOOSE)})"
        return kind, self.converted(load.buffer, self.loaded(load.buffer, element), width)

    def converted(self, array: str, bits: str, width: int) -> str:
        """The numbers that some elements are, as an array of a narrow type has them."""
        storage = self.storages.get(array)
        if storage is None:
            return bits
        function = f"from_{storage}"
        for each in {1, width}:
            self.helpers.use(f"{function} of {each}", from_bits(storage, each), self.origin)
        return f"{function}({bits})"

    def loaded(self, array: str, element: str) -> str:
        """The value of an element, of one that is streamed by the load that caches forget first."""
        return f"__ldcs({_pointer_to(element)})" if array in self.kernel.streamed else element

    def stored(self, array: str, element: str, value: str) -> str:
        """The assignment to an element, likewise."""
        return f"__stcs({_pointer_to(element)}, {value})" if array in self.kernel.streamed else f"{element} = {value}"

    def expression(self, function: str, operands: tuple[Atom, ...], of_copy: int = CALL) -> str:
        """A function of scalars, or of vectors element by element; `of_copy` is how tightly a copied value must
        bind."""
        if function not in FUNCTIONS:
            raise Unsupported(f"There is no CUDA for the function {function}.")
        if function in PARTS:
            self.helpers.use(function, PARTS[function], self.origin)
        if function in COMMUTATIVE and self.vectors.width(operands[0]) > self.vectors.width(operands[1]):
            operands = (operands[1], operands[0])
        least = [of_copy] if function == "copy" else operands_bind(function, len(operands))
        texts = [self.atom(operand, bind, value=True) for operand, bind in zip(operands, least, strict=True)]
        widths = [self.vectors.width(operand) for operand in operands]
        if max(widths) == 1 or function == "copy":
            return FUNCTIONS[function].format(*texts)
        return self.call(function, widths, texts)

    def call(self, function: str, widths: Sequence[int], texts: Sequence[str]) -> str:
        pattern, text = elementwise(function, widths)
        self.helpers.use(f"{function} of {max(widths)}", text, self.origin)
        return pattern.format(*texts)

    def widened(self, text: str, width: int, wanted: int) -> str:
        """A scalar as the vector that is wanted."""
        if width == wanted:
            return text
        name, function = broadcast(wanted)
        self.helpers.use(name, function, self.origin)
        return f"{name}({text})"

    # Changes.

    def store(self, store: Store) -> list[str]:
        """The assignments of a store: one, or one for each element of a vector that is stored across rows."""
        if store.target in self.integers:
            return [f"{self.element(store.target, store.indices)} = {self.narrow(store.operands[0])}"]
        width = self.vectors.width_of(store.operands)
        single = self.elements(store.target, store.indices)
        value = self.expression(store.function, store.operands, CALL if single else LOOSE)
        if single and width == 1:
            return [f"{element} = {value}" for element in single]
        if single:
            if store.function != "copy":
                value = f"({value})"
            return [f"{e} = {value}.{x}" for e, x in zip(single, ELEMENTS, strict=False)]
        wanted = self.vectors.width(store.indices[-1]) if store.indices else 1
        element = self.element(store.target, store.indices, wanted)
        return [self.stored(store.target, element, self.widened(value, width, wanted))]

    def narrow(self, atom: Atom) -> str:
        """An integer for an array of 32-bit ones."""
        return f"(int){self.atom(atom)}" if self.numbers.is_wide(atom) else self.atom(atom, LOOSE)

    def accumulate(self, statement: Accumulate) -> list[str]:
        """The assignment that adds to an element, a vector of them, or an accumulator."""
        indices = statement.indices
        if statement.target in self.integers:
            return [f"{self.element(statement.target, indices)} += {self.narrow(statement.operands[0])}"]
        width = self.vectors.width(indices[-1]) if indices else self.vectors.width(statement.target)
        target = self.element(statement.target, indices, width)
        values = self.vectors.width_of(statement.operands)
        if statement.reduction == "sum" and statement.function == "mul":
            return [f"{target} = {self.multiply_add(statement, target, width)}"]
        value = self.expression(statement.function, statement.operands, LOOSE if width == 1 else CALL)
        if width == 1:
            return [self.accumulate_scalar(statement.reduction, target, value, values)]
        function = REDUCING[statement.reduction]
        if statement.function != "copy" and function in COMMUTATIVE:
            value = f"({value})"
        if function in COMMUTATIVE and values < width:
            return [f"{target} = {self.call(function, [values, width], [value, target])}"]
        return [f"{target} = {self.call(function, [width, values], [target, value])}"]

    def multiply_add(self, statement: Accumulate, target: str, width: int) -> str:
        widths = [self.vectors.width(operand) for operand in statement.operands]
        texts = [self.atom(operand, LOOSE, value=True) for operand in statement.operands]
        if width > 1:
            return self.call("fma", [*widths, width], [*texts, target])
        if max(widths) == 1:
            return f"fmaf({texts[0]}, {texts[1]}, {target})"
        name, text = add_products(widths)
        self.helpers.use(name, text, self.origin)
        return f"{name}({texts[0]}, {texts[1]}, {target})"

    def accumulate_scalar(self, reduction: str, target: str, value: str, width: int) -> str:
        if width > 1:
            name, text = horizontal(reduction, width)
            self.helpers.use(name, text, self.origin)
            value = f"{name}({value})"
        if reduction in ("sum", "product"):
            return f"{target} {REDUCTION_SIGNS[reduction]} {value}"
        return f"{target} = {REDUCTIONS[reduction].format(target, value)}"

    def atomic(self, statement: AtomicAccumulate) -> str:
        """The atomic sum, an expression of what was there before."""
        target, indices = statement.target, statement.indices
        width = self.vectors.width(indices[-1]) if indices else 1
        if target in self.integers:
            (operand,) = statement.operands
            call = f"atomicAdd(&{self.element(target, indices)}, {self.narrow(operand)})"
            self.numbers.define(statement.result, None)
            return call
        value = self.expression(statement.function, statement.operands)
        values = self.vectors.width_of(statement.operands)
        if width == 1:
            if values > 1:
                name, text = horizontal("sum", values)
                self.helpers.use(name, text, self.origin)
                value = f"{name}({value})"
            return f"atomicAdd(&{self.element(target, indices)}, {value})"
        name, text = add_vector(width, self.target)
        self.helpers.use(name, text, self.origin)
        place = f"reinterpret_cast<{vector_type(width)}*>(&{self.element(target, indices)})"
        return f"{name}({place}, {self.widened(value, values, width)})"

    def copy(self, statement: Copy) -> str:
        """The call that starts a copy."""
        if statement.buffer in self.storages:  # what is narrower is converted on its way
            source = self.element(statement.buffer, statement.buffer_indices, COPIED)
            target = self.element(statement.target, statement.indices, COPIED)
            return f"{target} = {self.converted(statement.buffer, source, COPIED)}"
        self.helpers.use("copy_async", COPY, self.origin)
        target = self.element(statement.target, statement.indices)
        return f"copy_async(&{target}, &{self.element(statement.buffer, statement.buffer_indices)})"


def _pointer_to(element: str) -> str:
    return element[1:] if element.startswith("*") else f"&{element}"


def _access(node: Node) -> tuple[str, tuple[Atom, ...]]:
    """The tile or buffer that a statement accesses, and where."""
    match node:
        case Load():
            return node.buffer, node.indices
        case Store() | Accumulate():
            return node.target, node.indices
    return "", ()


def _other_atoms(node: Node) -> tuple[Atom, ...]:
    """What a statement reads besides the indices of its element."""
    match node:
        case Copy():
            return node.buffer_indices
        case Store() | Accumulate():
            return node.operands
        case Index() | Compute():
            return node.operands
        case Where():
            return (node.left, node.right)
        case Multiply():
            return (*node.left_indices, *node.right_indices, node.column)
        case Search():
            return (node.value, node.lower, node.upper)
        case KeptLoad():
            return (node.kept,)
        case CheckedLoad():
            return node.checked
        case Loop(extent=str(extent), lower=lower):
            return (lower, extent)
    return ()
