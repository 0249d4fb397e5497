"""The body of one kernel in CUDA C++, from top to bottom: loops, conditions, tiles, and what waits for what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from explorer.compiler.codegen.cuda.helpers import Helpers
from explorer.compiler.codegen.cuda.inlining import BITS, LOOSE, PRIMARY, SUM, Value, binds
from explorer.compiler.codegen.cuda.lines import Lines, joined_starts
from explorer.compiler.codegen.cuda.multiply import multiply_line
from explorer.compiler.codegen.cuda.sharing import Share, iterations_of, static_number
from explorer.compiler.codegen.cuda.tensor_cores.wgmma import SHOWN
from explorer.compiler.codegen.cuda.tiles import SharedMemory, SharedTile, shared_tiles
from explorer.compiler.codegen.cuda.vectors import over_lanes, vector_type
from explorer.compiler.codegen.cuda.words import (
    LAST_AT_MOST,
    LAST_FROM,
    NEIGHBOURS,
    WAIT_FOR_COPIES,
    constant,
    lanes_reduction,
    lanes_reduction_in,
)
from explorer.compiler.frozen import replace
from explorer.compiler.ir.kernels import (
    ROLLED,
    AtomicAccumulate,
    Barrier,
    Copy,
    Count,
    Loop,
    Multiply,
    Reduce,
    ScheduledKernel,
    Search,
    Statement,
    Tile,
    Where,
)
from explorer.compiler.ir.loops import Accumulate, Accumulator, Compute, Index, Load, Store
from explorer.compiler.ir.node import Atom, Extent, Line, Node, Origin, merge, serving, walk
from explorer.compiler.target import WARP, GpuTarget
from explorer.compiler.unsupported import Unsupported

OTHERWISE = {"<": ">=", "<=": ">", "==": "!="}
SAME = {sign: sign for sign in OTHERWISE}
MEMBERS = {
    "warp": f"threadIdx.x / {WARP}",
    "lane": f"threadIdx.x % {WARP}",
    "thread": "threadIdx.x",
}
BARRIERS = {"block": "__syncthreads();", "warp": "__syncwarp();"}


class Writer(Lines):
    """Writes one kernel."""

    def __init__(self, kernel: ScheduledKernel, helpers: Helpers, target: GpuTarget) -> None:
        super().__init__(kernel, helpers, target)
        self.grid = _grid(kernel)
        self.columns = 1
        self.around: list[Share] = []  # the loops over warps, lanes and threads around the statement
        self.in_column = False
        self.apart = False  # whether lanes of one warp may be at different places
        self.shared = shared_tiles(kernel, self.shares)
        self.memory = SharedMemory(kernel, self.shared, target)
        self.together = any(isinstance(node, Multiply) and node.warps > 1 for node in walk(kernel))
        self.positions: dict[str, tuple[str, Origin]] = {}  # by text: the name of a thread's place, and its origin

    def body(self) -> list[Line]:
        """The kernel's statements, behind what they name of the thread."""
        self.block(self.kernel.body, at_end=True)
        body, self.lines = self.lines, []
        origin = self.grid.origin
        members = [f"{member} = {value}" for member, value in MEMBERS.items() if member in self.members]
        if members:
            self.write(f"const int {', '.join(members)};", origin)
        for text, (name, of_loops) in self.positions.items():
            self.declare("const int", f"{name} = {text}", of_loops)
        if self.memory.launch_bytes:
            self.write(f"extern __shared__ {self.memory.alignment}float4 shared_memory[];", origin)
        return [*self.lines, *joined_starts(body)]

    def block(self, body: Sequence[Statement], *, at_end: bool = False) -> None:
        """Statements in order; `at_end`: nothing is done after the last of them."""
        for place, statement in enumerate(body):
            following = body[place + 1] if place + 1 < len(body) else None
            if place and self.clearing(body[place - 1], statement):
                continue  # the line with the tile says it
            if isinstance(statement, Tile):
                cleared = self.clearing(statement, following)
                tile = replace(statement, origin=merge(statement.origin, *(node.origin for node in cleared)))
                self.tile(tile, start=" = {}" if cleared else "")
            else:
                self.statement(statement, at_end=at_end and following is None)

    def clearing(self, tile: Statement, following: Statement | None) -> tuple[Statement, ...]:
        """What follows a register tile's declaration, with what is inside, if that is to store 0 in all its elements;
        else nothing."""
        if not isinstance(tile, Tile) or tile.memory != "register" or tile.type != "f32" or following is None:
            return ()
        nest, ranges = [following], dict[Atom, Extent]()
        while isinstance(loop := nest[-1], Loop):
            if len(loop.body) != 1 or loop.lower != 0 or isinstance(loop.extent, Count):
                return ()
            ranges[loop.variable] = static_number(self.kernel, loop.extent) or loop.extent
            nest.append(loop.body[0])
        whole = [self.kernel.size(extent) for extent in tile.extents]
        match nest[-1]:
            case Store(target=tile.name, function="copy", operands=(0.0,), indices=indices) if whole == [
                ranges.get(index, 1) for index in indices
            ]:
                return tuple(nest)
        return ()

    def statement(self, statement: Statement, *, at_end: bool) -> None:
        origin = statement.origin
        self.origin = origin
        match statement:
            case Loop():
                self.loop(statement, at_end=at_end)
            case Where():
                self.where(statement, at_end=at_end)
            case Reduce():
                self.reduce(statement)
            case Barrier():
                if self.together:
                    self.helpers.use("show_to_tensor_cores", SHOWN, origin)
                    self.write("show_to_tensor_cores();", origin)
                if statement.copies:
                    self.helpers.use("wait_for_copies", WAIT_FOR_COPIES, origin)
                    self.write("wait_for_copies();", origin)
                self.write(BARRIERS[statement.level], origin)
            case Search():
                self.helpers.use("last_at_most", LAST_AT_MOST, origin)
                search = "last_at_most" if statement.lower == 0 else "last_from"
                if search == "last_from":
                    self.helpers.use(search, LAST_FROM, origin)
                atoms = ", ".join(self.atom(a, LOOSE) for a in (statement.value, statement.lower, statement.upper))
                call = f"{search}({self.array(statement.buffer)}, {atoms})"
                self.numbers.define(statement.result, None)
                self.define(statement.result, "int", Value(call, PRIMARY, origin, lasting=False))
            case Multiply():
                self.write(multiply_line(self, statement), origin)
            case Load():
                kind, text = self.load(statement)
                lasting = statement.buffer not in self.written and statement.buffer not in self.tiles
                self.define(statement.result, kind, Value(text, PRIMARY, origin, lasting))
            case Index():
                kind, text, tightly = self.index(statement)
                self.define(statement.result, kind, Value(text, tightly, origin))
            case Compute():
                kind = vector_type(self.vectors.width(statement.result))
                text = self.expression(statement.function, statement.operands)
                self.define(statement.result, kind, Value(text, binds(statement.function), origin, lasting=False))
            case Accumulator():
                width = self.vectors.width(statement.name)
                start = constant(statement.start)
                start = start[1:-1] if start.startswith("(") else start
                if width > 1:
                    start = self.widened(start, 1, width) if statement.start else "{}"
                self.write(f"{vector_type(width)} {self.names[statement.name]} = {start};", origin)
            case AtomicAccumulate():
                call, once = self.atomic(statement), self.once(statement.result)
                if statement.result:
                    kind = "int" if statement.target in self.integers else "float"
                    self.define(statement.result, kind, Value(call, PRIMARY, origin, lasting=False))
                else:
                    self.write(f"{once}{call};", origin)
            case Copy():
                self.changes(statement, [self.copy(statement)])
            case Store():
                self.changes(statement, self.store(statement))
            case Accumulate():
                self.changes(statement, self.accumulate(statement))

    def changes(self, statement: Store | Accumulate, texts: Sequence[str]) -> None:
        """What changes an element or an accumulator: one thread does it where memory is not each thread's own."""
        own = statement.target in self.registers or not statement.indices
        for text in texts:
            self.write(f"{'' if own else self.once()}{text};", statement.origin)

    def once(self, result: str = "") -> str:
        """The condition that holds for one of the threads that do a statement alike, with its `if`."""
        conditions = ["blockIdx.y == 0"] if self.columns > 1 and not self.in_column else []
        by_level = {level: [share for share in self.around if share.loop.bind == level] for level in MEMBERS}
        if by_level["thread"]:
            conditions += self.first_of("thread", by_level["thread"], self.kernel.threads)
        elif not by_level["warp"] and not by_level["lane"] and self.kernel.threads > WARP:
            conditions.append(f"{self.member('thread')} == 0")
        else:
            conditions += self.first_of("warp", by_level["warp"], max(1, self.kernel.threads // WARP))
            conditions += self.first_of("lane", by_level["lane"], WARP)
        if result and conditions:
            raise Unsupported(f"Only one thread would know {result}, what an element held before an atomic sum.")
        return f"if ({' && '.join(conditions)}) " if conditions else ""

    def first_of(self, level: str, shares: Sequence[Share], members: int) -> list[str]:
        """The conditions for the first of a level's members that have the same iterations of all loops around."""
        conditions = []
        above = members
        for share in sorted(shares, key=lambda share: -share.stride):
            if share.top < above:
                name = self.member(level)
                text = f"{name} % {above}" if above < members else name
                conditions.append(f"{text} == 0" if share.top == 1 else f"{text} < {share.top}")
            above = share.stride
        if above > 1:
            name = self.member(level)
            conditions.append(f"{name} % {above} == 0" if above < members else f"{name} == 0")
        return conditions

    def member(self, level: str) -> str:
        self.members.add(level)
        return level

    def loop(self, loop: Loop, *, at_end: bool) -> None:
        match loop.bind:
            case "block":
                self.of_grid(loop, "blockIdx.x")
                self.block(loop.body, at_end=at_end)
            case "column":
                columns = iterations_of(self.kernel, loop)
                if columns is None:
                    raise Unsupported(f"The number of the grid's columns, {loop.extent}, must be known here.")
                self.columns, self.in_column = columns, True
                self.of_grid(loop, "blockIdx.y")
                self.block(loop.body, at_end=at_end)
                self.in_column = False
            case "":
                with self.diverging(self.apart or self.varies(loop)):
                    self.own_loop(loop)
            case _:
                self.shared_loop(loop, at_end=at_end)

    def varies(self, loop: Loop) -> bool:
        """Whether lanes that stand in different iterations of a loop around may leave this one at different times."""
        lanes = any(share.loop.bind in ("lane", "thread") for share in self.around)
        return lanes and iterations_of(self.kernel, loop) is None

    @contextmanager
    def diverging(self, apart: bool) -> Iterator[None]:
        before, self.apart = self.apart, apart
        yield
        self.apart = before

    def of_grid(self, loop: Loop, place: str) -> None:
        """A loop of which each block has one iteration."""
        if loop.lower != 0 or loop.step != 1:
            raise Unsupported("A loop over the grid's blocks counts from 0 by 1.")
        size = static_number(self.kernel, loop.extent)
        self.numbers.define(loop.variable, None if loop.bind == "block" else (size or 1) - 1)
        if self.is_named(loop):
            if loop.variable in self.in_place:
                place = f"(int){place}"  # it has no sign
            self.define(loop.variable, "int", Value(place, PRIMARY, loop.origin))

    def variable_type(self, loop: Loop) -> str:
        """As wide as the bounds; notes the variable's largest value."""
        size = static_number(self.kernel, loop.extent)
        bounds = [bound for bound in (loop.lower, loop.extent) if not isinstance(bound, Count)]
        wide = any(map(self.numbers.is_wide, bounds))
        self.numbers.define(loop.variable, None if size is None else max(0, size - 1), wide=wide)
        return self.numbers.type_of(loop.variable)

    def own_loop(self, loop: Loop) -> None:
        """A loop that each thread does by itself."""
        kind, name = self.variable_type(loop), self.names[loop.variable]
        step = f"{name}++" if loop.step == 1 else f"{name} += {loop.step}"
        self.pragma(loop)
        head = f"for ({kind} {name} = {self.atom(loop.lower)}; {name} < {self.bound(loop)}; {step})"
        with self.braces(head, loop.origin):
            self.block(loop.body)

    def pragma(self, loop: Loop) -> None:
        if loop.unroll != 1:
            times = 1 if loop.unroll == ROLLED else loop.unroll
            self.write(f"#pragma unroll {times}" if times else "#pragma unroll")

    def bound(self, loop: Loop) -> str:
        assert isinstance(loop.extent, (str, int)), "only a loop over blocks has a count of iterations"
        return self.atom(loop.extent, BITS)

    def shared_loop(self, loop: Loop, *, at_end: bool) -> None:
        """A loop whose iterations the members of a level share: a variable, in rounds where they are too many."""
        share = self.shares[loop.variable]
        even = share.iterations is not None and share.iterations % share.width == 0
        lanes = loop.bind != "warp"
        self.around.append(share)
        with self.diverging(self.apart or (lanes and not even)):
            if share.rounds == 1:
                self.one_round(loop, share, share.position, at_end=at_end)
            elif share.rounds is not None and (loop.unroll == 0 or self.in_registers(loop)):
                self.slots(loop, share)
            else:
                self.strided(loop, share)
        self.around.pop()

    def in_registers(self, loop: Loop) -> bool:
        """Whether a dimension of a register tile is shared over the loop."""
        return loop.variable in self.slot_loops

    def one_round(self, loop: Loop, share: Share, place: str, *, at_end: bool) -> None:
        """The variable of a member's iteration at `place`, and the body, where there is such an iteration."""
        kind = self.variable_type(loop)
        whole = share.iterations is not None and share.iterations % share.width == 0
        alike = not whole and share.rounds == 1 and self.may_be_done_again(loop)
        if alike and self.is_named(loop):
            first, bound = self.first(loop, place), self.bound(loop)
            text = f"{first} < {bound} ? {first} : {bound} - {loop.step}"
            self.define(loop.variable, kind, Value(text, LOOSE, loop.origin))
        elif not (whole or alike) or self.is_named(loop):
            text = self.first(loop, place)
            if loop.lower == 0 and share.rounds == 1:
                self.values[loop.variable] = Value(self.position(text, loop), PRIMARY, loop.origin)
            else:
                self.define(loop.variable, kind, Value(text, LOOSE, loop.origin))
        if whole or alike:
            self.block(loop.body, at_end=at_end)
        else:
            with self.braces(f"if ({self.atom(loop.variable)} < {self.bound(loop)})", loop.origin):
                self.block(loop.body)

    def position(self, text: str, loop: Loop) -> str:
        """The name of a thread's place, which is the same in the whole kernel, so it is named once, at its head."""
        if text == loop.bind:
            return text
        name, origin = self.positions.get(text, (self.names[loop.variable], ()))
        self.positions[text] = name, serving("place of a thread", "generate_cuda", (origin, loop.origin))
        return name

    def may_be_done_again(self, loop: Loop) -> bool:
        """Whether members without an iteration may do the last one again, in place of a condition around the body:
        where it reads arrays that nobody writes, and changes nothing but each member's own registers of tiles."""
        own = {name for name in self.registers if self.registers[name].shared[-1:] == (True,)}
        for node in loop.body:
            match node:
                case Compute() | Index():
                    continue
                case Load(buffer=buffer):
                    if buffer not in self.registers and (buffer in self.tiles or buffer in self.written):
                        return False
                case Store(target=target, indices=(*_, last)) | Accumulate(target=target, indices=(*_, last)):
                    if isinstance(node, AtomicAccumulate) or target not in own or last != loop.variable:
                        return False
                case _:
                    return False
        return loop.lower == 0

    def first(self, loop: Loop, place: str) -> str:
        """The loop's variable at a place among the iterations."""
        self.member(loop.bind)
        if loop.step > 1:
            place = f"{loop.step} * {place}" if place.isidentifier() else f"{loop.step} * ({place})"
        return place if loop.lower == 0 else f"{self.atom(loop.lower)} + {place}"

    def slots(self, loop: Loop, share: Share) -> None:
        """A constant trip count, unrolled: only so do the elements of register tiles stay in registers."""
        slot = self.names.new("slot")
        self.slot_of[loop.variable] = slot
        self.write("#pragma unroll")
        with self.braces(f"for (int {slot} = 0; {slot} < {share.rounds}; {slot}++)", loop.origin):
            position = share.position
            self.one_round(loop, share, f"{position} + {share.width} * {slot}", at_end=False)
        del self.slot_of[loop.variable]

    def strided(self, loop: Loop, share: Share) -> None:
        kind, name = self.variable_type(loop), self.names[loop.variable]
        self.pragma(loop)
        first, stride = self.first(loop, share.position), loop.step * share.width
        step = f"{name}++" if stride == 1 else f"{name} += {stride}"
        with self.braces(f"for ({kind} {name} = {first}; {name} < {self.bound(loop)}; {step})", loop.origin):
            self.block(loop.body)

    def where(self, where: Where, *, at_end: bool) -> None:
        holds = [where]
        while len(holds[-1].body) == 1 and isinstance(inner := holds[-1].body[0], Where):
            holds.append(inner)
        lanes = any(share.loop.bind in ("lane", "thread") for share in self.around)
        if at_end:  # where threads are to meet later, all of them or none leave
            self.write(f"if ({self.condition(holds, OTHERWISE, ' || ')}) return;", where.origin)
            with self.diverging(self.apart or lanes):
                self.block(holds[-1].body, at_end=True)
            return
        with (
            self.diverging(self.apart or lanes),
            self.braces(f"if ({self.condition(holds, SAME, ' && ')})", where.origin),
        ):
            self.block(holds[-1].body)

    def condition(self, holds: Sequence[Where], signs: Mapping[str, str], joint: str) -> str:
        """All of some conditions, or, with the signs of their opposites, that not all of them hold."""
        return joint.join(
            f"{self.atom(where.left, SUM)} {signs[where.comparison]} {self.atom(where.right, SUM)}" for where in holds
        )

    def tile(self, tile: Tile, start: str) -> None:
        """A tile's storage: some elements a thread, with what they `start` as, or the block's shared memory, or a slice
        of that."""
        name = self.names[tile.name]
        if tile.name in self.registers:
            held = self.registers[tile.name]
            kind = "int" if tile.type == "i32" else vector_type(held.width)
            aligned = "__align__(16) " if kind == "float" and tile.name in self.wide else ""
            extents = "".join(f"[{extent}]" for extent in held.extents)
            self.declare(f"{aligned}{kind}", f"{name}{extents}{start}", tile.origin)
            return
        kind = "int" if tile.type == "i32" else "float"
        place, size = self.shared[tile.name], self.floats_text(tile)
        if self.memory.launch_bytes:
            own = f" + {self.own_slice(place)} * ({size})" if place.slices > 1 else ""
            offset = self.memory.offsets[tile.name]
            start = f"reinterpret_cast<{kind}*>(shared_memory)" + (f" + {offset}" if offset else "")
            self.write(f"{kind}* const {name} = {start}{own};", tile.origin)
        elif place.slices > 1:
            self.slice_of[tile.name] = f"[{self.own_slice(place)}]"
            self.declare(f"__shared__ __align__(16) {kind}", f"{name}[{place.slices}][{size}]", tile.origin)
        else:
            self.declare(f"__shared__ __align__({place.alignment}) {kind}", f"{name}[{size}]", tile.origin)

    def own_slice(self, tile: SharedTile) -> str:
        self.members.update(tile.levels)
        return tile.own

    def reduce(self, reduce: Reduce) -> None:
        """The parts that lanes hold of an accumulator, or of a register tile's elements, put together."""
        name, origin = self.names[reduce.target], reduce.origin
        held = self.registers.get(reduce.target)
        width = held.width if held else self.vectors.width(reduce.target)
        function = f"lanes_{reduce.reduction}" + ("_in" if reduce.parts else "")
        text = lanes_reduction_in(reduce.reduction) if reduce.parts else lanes_reduction(reduce.reduction)
        self.helpers.use(function, text, origin)
        if width > 1:
            whole = over_lanes(function, width, parts=bool(reduce.parts))
            self.helpers.use(f"{function} of vectors", whole, origin)
        lanes, among = str(reduce.lanes), f", {self.array(reduce.parts)}" if reduce.parts else ""
        if reduce.apart > 1:
            lanes += f", {reduce.apart}"
        if self.apart and reduce.lanes < WARP:
            self.helpers.use("neighbours", NEIGHBOURS, origin)
            among += f", neighbours<{reduce.lanes * reduce.apart}>()"
        element, depth = name, self.depth
        for extent in held.extents if held else ():
            slot = self.names.new("slot")
            self.write("#pragma unroll")
            self.write(f"for (int {slot} = 0; {slot} < {extent}; {slot}++) {{", origin)
            self.depth += 1
            element += f"[{slot}]"
        self.write(f"{element} = {function}<{lanes}>({element}{among});", origin)
        while self.depth > depth:
            self.depth -= 1
            self.write("}")


def _grid(kernel: ScheduledKernel) -> Loop:
    """The loop over blocks."""
    loops: list[Node] = [node for node in walk(kernel) if isinstance(node, Loop) and node.bind == "block"]
    if len(loops) != 1 or not isinstance(loops[0], Loop):
        raise Unsupported(f"The kernel {kernel.name} has {len(loops)} loops over blocks: it must have one.")
    return loops[0]
