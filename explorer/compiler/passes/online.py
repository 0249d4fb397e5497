"""Takes sums of exp(x - max x) while the maximum is still growing: one visit of a segment's elements instead of three.

Where a loop has the maximum m of some x, and loops over the same elements sum terms with a factor exp(x - m), one loop
can do both: whenever the maximum grows from m to m', what has been summed so far is multiplied by exp(m - m') (online
normalisation, Milakov and Gimelshein 2018; Dao et al. 2022 for rows). The sums must be proportional to exp(-m): each
value of the loops is followed through that question alone.

The running maximum starts at the lowest f32 number, not at -inf, so that no difference of infinities arises. Where all
x of a segment are -inf the sums are 0 then, and not NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from explorer.compiler.ir import loops
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import Atom, Names, Origin, merge, walk
from explorer.compiler.passes.nest import SORTED_MAPS
from explorer.compiler.passes.report import Report
from explorer.compiler.passes.sets import THROUGH
from explorer.compiler.passes.statements import all_names, pure, rename, written_names

LOWEST = -3.4028234663852886e38
"""The lowest finite f32 number, in which the search for a maximum starts."""


@each_program
def online(kernel: loops.Kernel, report: Report) -> loops.Kernel:
    """The kernel with each maximum and the sums that wait for it taken in one loop, where they can be."""
    return replace(kernel, body=tuple(_in_loop(s, kernel, report) for s in kernel.body))


def _in_loop(statement: loops.Statement, kernel: loops.Kernel, report: Report) -> loops.Statement:
    if not isinstance(statement, loops.For) or not statement.parallel:
        return statement
    body, names = statement.body, Names(all_names(kernel))
    for inner in statement.body:
        largest = _maximum(body, body.index(inner)) if isinstance(inner, loops.For) and inner in body else None
        if largest is None:
            continue
        try:
            body = _merged(body, largest, kernel, names, report)
        except _Refusal as reason:
            report.refused(f"{largest.name} is found before its sums: {reason}")
    return replace(statement, body=body)


class _Refusal(Exception):
    """Why the loops cannot be one."""


@dataclass(frozen=True)
class _Maximum:
    """`m = -inf; for e { ... m max= x }; u = unless_empty(m)`: an accumulator, or a row that has an element a head."""

    name: str
    loop: loops.For
    reduction: loops.Accumulate
    start: loops.Statement  # the accumulator, or the loops that fill the row
    end: loops.Statement  # the scalar, or the loops that end each element in place

    @property
    def result(self) -> str:
        """What the sums read: the ended scalar or the row."""
        return self.end.result if isinstance(self.end, loops.Compute) else self.name


def _maximum(body: Sequence[loops.Statement], at: int) -> _Maximum | None:
    """The maximum that the loop at that place finds, if that is all it does."""
    loop = body[at]
    assert isinstance(loop, loops.For)
    writes = [node for node in walk(loop) if isinstance(node, loops.Accumulate | loops.Store | loops.Row)]
    if len(writes) != 1 or not isinstance(writes[0], loops.Accumulate) or writes[0].reduction != "max":
        return None
    name = writes[0].target
    starts = [s for s in body[:at] if _starts(s, name)]
    ends = [s for s in body[at + 1 :] if _ends(s, name)]
    if not starts or not ends or not isinstance(loop.extent, str):
        return None
    return _Maximum(name, loop, writes[0], starts[-1], ends[0])


def _starts(statement: loops.Statement, name: str) -> bool:
    if isinstance(statement, loops.Accumulator):
        return statement.name == name and statement.start == float("-inf")
    stores = [node for node in walk(statement) if isinstance(node, loops.Store)]
    return len(stores) == 1 and stores[0].target == name and stores[0].operands == (float("-inf"),)


def _ends(statement: loops.Statement, name: str) -> bool:
    computes = [node for node in walk(statement) if isinstance(node, loops.Compute)]
    if len(computes) != 1 or computes[0].function != "unless_empty":
        return False
    return computes[0].operands[0] == name or (
        isinstance(statement, loops.For) and written_names([statement]) == {name}
    )


def _proportional(largest: _Maximum, loop: loops.For, kernel: loops.Kernel) -> set[str]:
    """The names in a loop, and of what it sums into, that are proportional to exp(-m); raises _Refusal for what
    depends on m in any other way."""
    of_max: set[str] = set() if largest.reduction.indices else {largest.result}
    found: set[str] = set()
    shifted: set[str] = set()  # x - m
    outputs = {buffer.name for buffer in kernel.buffers if buffer.kind == "output"}
    for node in walk(loop):
        if isinstance(node, loops.Load) and node.buffer == largest.name:
            of_max.add(node.result)
        elif isinstance(node, loops.Load) and node.buffer in found:
            found.add(node.result)
        elif isinstance(node, loops.Compute | loops.Accumulate | loops.Store):
            inputs = [atom for atom in node.operands if atom in of_max | found | shifted]
            made = node.result if isinstance(node, loops.Compute) else node.target
            if not inputs:
                continue
            kind = _kind(node, inputs, of_max, shifted)
            if kind == "shifted" and isinstance(node, loops.Compute):
                shifted.add(made)
            elif kind == "proportional" and not (isinstance(node, loops.Accumulate) and node.reduction != "sum"):
                if isinstance(node, loops.Store) and made in outputs:
                    raise _Refusal(f"{made} is stored before the maximum is known")
                found.add(made)
            else:
                raise _Refusal(f"{loops.print_statement(node)} is not proportional to exp(-{largest.name})")
    for node in walk(loop):
        if isinstance(node, loops.Accumulate | loops.Store) and node.target in found:
            zero = isinstance(node, loops.Store) and node.operands == (0.0,)
            if not zero and found.isdisjoint(node.operands):
                raise _Refusal(f"{loops.print_statement(node)} is not proportional to exp(-{largest.name})")
    return found


def _kind(
    node: loops.Compute | loops.Accumulate | loops.Store, inputs: Sequence[Atom], of_max: set[str], shifted: set[str]
) -> str:
    """What a result is whose operands depend on m: "shifted" (x - m), "proportional" to exp(-m), or "" for neither."""
    function, operands = node.function, node.operands
    if function == "sub" and operands[1] in of_max and len(inputs) == 1:
        return "shifted"
    if function == "exp" and inputs[0] in shifted:
        return "proportional"
    if any(name in of_max | shifted for name in inputs):
        return ""
    if function in ("copy", "neg") or (function == "mul" and len(inputs) == 1):
        return "proportional"
    if function == "div" and inputs == [operands[0]]:
        return "proportional"
    if function in ("add", "sub") and len(inputs) == 2:
        return "proportional"
    return ""


# Which loops visit the same elements


@dataclass(frozen=True)
class _Sums:
    """A loop whose sums wait for the maximum. `inner` is its loop over the elements: itself, or one inside it."""

    loop: loops.For
    inner: loops.For
    proportional: frozenset[str]
    along: str  # the map from the elements to where the inner loop is, if the two differ

    @property
    def nested(self) -> bool:
        return self.inner is not self.loop


def _inner_loop(
    loop: loops.For, largest: _Maximum, defined: dict[str, loops.Statement]
) -> tuple[loops.For, str] | None:
    """The loop over the maximum's elements that a loop is or holds, if it visits just those: the edges of a node, or
    those of its pairs, one pair after another."""
    bounds = largest.loop.lower, largest.loop.extent
    if (loop.lower, loop.extent) == bounds:
        return loop, ""
    inner = [s for s in loop.body if isinstance(s, loops.For) and isinstance(s.extent, str) and s.extent in defined]
    segments = [_segment(each, defined) for each in (largest.loop, loop, *inner)]
    if len(inner) != 1 or None in segments:
        return None
    (whole, place), (outer, row), (along, inside) = (segment for segment in segments if segment is not None)
    together = THROUGH.get((along, whole)) == outer and {whole, outer, along} <= SORTED_MAPS
    return (inner[0], along) if together and row == place and inside == loop.variable else None


def _segment(loop: loops.For, defined: dict[str, loops.Statement]) -> tuple[str, Atom] | None:
    """The map and the row of whose segment a loop visits the elements: from `dst_ptr[n]` to `dst_ptr[n + 1]`."""
    first, last = defined.get(str(loop.lower)), defined.get(str(loop.extent))
    if not isinstance(first, loops.Load) or not isinstance(last, loops.Load) or first.buffer != last.buffer:
        return None
    after = defined.get(str(last.indices[0]))
    if not isinstance(after, loops.Index) or (after.function, after.operands) != ("add", (first.indices[0], 1)):
        return None
    return first.buffer.removesuffix("_ptr"), first.indices[0]


# The one loop


def _merged(
    body: tuple[loops.Statement, ...], largest: _Maximum, kernel: loops.Kernel, names: Names, report: Report
) -> tuple[loops.Statement, ...]:
    """The body with the maximum's loop and those of its sums as one, at the place of the last of them."""
    at = body.index(largest.loop)
    early, late, sums = _parted(body[at + 1 :], largest, kernel)
    if not sums:
        return body
    if not report.options.online:
        raise _Refusal("the option online is off")
    if len(largest.reduction.indices) > 1:
        raise _Refusal("it has more than one dimension")
    _check_starts(body, sums)
    host = next((each for each in sums if each.nested), sums[0])
    if any(each.nested for each in sums if each is not host):
        raise _Refusal("two of the loops that wait for it hold loops of their own")
    before = tuple(_restarted(s) if s is largest.start else s for s in body[:at])
    merging = _Merging(largest, kernel, names, host, [each for each in sums if each is not host])
    loop = merging.loop((*before, *early))
    rows = {s.name for s in before if isinstance(s, loops.Row)}
    if largest.name in rows and largest.name not in _read_names(s for s in late if s is not largest.end):
        late.remove(largest.end)
    result = _without_unread((*before, *early, loop, *late))
    loads = [sum(_loads(s) for s in part if _loops_over_segments(s)) for part in (body, result)]
    report.did(
        f"{largest.name} and what waits for it in one loop: {1 + len(sums)} visits of the elements -> 1,"
        f" {loads[0]} loads -> {loads[1]}; the sums are proportional to exp(-{largest.name}), and rescaled as it grows"
    )
    return result


def _loads(statement: loops.Statement) -> int:
    return sum(isinstance(node, loops.Load) for node in walk(statement))


def _loops_over_segments(statement: loops.Statement) -> bool:
    return isinstance(statement, loops.For) and statement.lower != 0


def _parted(
    rest: Sequence[loops.Statement], largest: _Maximum, kernel: loops.Kernel
) -> tuple[list[loops.Statement], list[loops.Statement], list[_Sums]]:
    """What follows the maximum's loop: what can go before the one loop, what must come after it, what becomes part."""
    defined = {name: node for node in walk(kernel) if (name := loops.result_of(node)) is not None}
    early: list[loops.Statement] = []
    late: list[loops.Statement] = []
    sums: list[_Sums] = []
    waiting = {largest.name, largest.result}  # names that have their final values only after the one loop
    refusal: _Refusal | None = None
    for statement in rest:
        touched = _read_names([statement]) | written_names([statement])
        if isinstance(statement, loops.For) and touched & waiting == {largest.result} and statement is not largest.end:
            inner = _inner_loop(statement, largest, defined)  # type: ignore[arg-type]
            try:
                if inner is not None:
                    found = frozenset(_proportional(largest, statement, kernel))
                    sums.append(_Sums(statement, inner[0], found, inner[1]))
                    waiting |= written_names([statement])
                    continue
            except _Refusal as reason:
                refusal = reason
        if touched & waiting:
            late.append(statement)
            waiting |= written_names([statement]) | {loops.result_of(statement) or largest.name}
        else:
            early.append(statement)
    if refusal is not None and not sums:
        raise refusal
    return early, late, sums


def _read_names(statements: Iterable[loops.Statement]) -> set[str]:
    return {name for s in statements for node in walk(s) for name in loops.reads_of(node)}


def _check_starts(body: Sequence[loops.Statement], sums: Sequence[_Sums]) -> None:
    """Whether all that the loops add to starts from 0, which is proportional to anything."""
    targets = {name for each in sums for name in written_names([each.loop]) & each.proportional}
    for statement in body:
        if any(statement is each.loop for each in sums):
            return
        for node in walk(statement):
            if isinstance(node, loops.Accumulator) and node.name in targets and node.start != 0:
                raise _Refusal(f"{node.name} starts from {node.start}")
            if isinstance(node, loops.Store | loops.Accumulate) and node.target in targets and node.operands != (0.0,):
                raise _Refusal(f"{node.target} holds more than these sums")


def _restarted(statement: loops.Statement) -> loops.Statement:
    """The start of the maximum, at the lowest number."""
    match statement:
        case loops.Accumulator():
            return replace(statement, start=LOWEST)
        case loops.Store():
            return replace(statement, operands=(LOWEST,))
        case loops.For():
            return replace(statement, body=tuple(_restarted(s) for s in statement.body))
    return statement


def _without_unread(body: tuple[loops.Statement, ...]) -> tuple[loops.Statement, ...]:
    """The body without scalars, and ends of rows, that nothing reads any more."""
    while True:
        read = _read_names(body)
        kept = tuple(s for s in body if not pure(s) or loops.result_of(s) in read)
        if len(kept) == len(body):
            return kept
        body = kept


@dataclass
class _Block:
    """Statements that grow: what another loop has computed of the same element already is not computed again."""

    parent: _Block | None = None
    body: list[loops.Statement] = field(default_factory=list)
    known: dict[object, Atom] = field(default_factory=dict)

    def find(self, key: object) -> Atom | None:
        block: _Block | None = self
        while block is not None:
            if key in block.known:
                return block.known[key]
            block = block.parent
        return None


class _Merging:
    """Writes the one loop: the maximum's body, then those of the sums, element by element."""

    def __init__(self, largest: _Maximum, kernel: loops.Kernel, names: Names, host: _Sums, guests: list[_Sums]) -> None:
        self.largest, self.host, self.guests, self.names = largest, host, guests, names
        self.constant = {buffer.name for buffer in kernel.buffers if buffer.kind != "output"}
        self.changing = {node.name for node in walk(kernel) if isinstance(node, loops.Accumulator | loops.Row)}
        self.renamed: dict[str, str] = {}
        self.elements = _Block()
        self.heads: tuple[loops.For, _Block] | None = None
        self.behind: set[str] = set()  # what is defined or written after the loop over the heads
        self.now = self.shrink = ""

    def loop(self, before: Sequence[loops.Statement]) -> loops.For:
        """The one loop, which follows `before`."""
        surroundings = _Block()
        for statement in before:
            self.remember(statement, surroundings)
        host = self.host
        if not host.nested:
            return self.element_loop(host.inner, surroundings)
        return self.outer_loop(surroundings)

    def remember(self, statement: loops.Statement, block: _Block) -> None:
        key = self.key(statement)
        if key is not None:
            block.known.setdefault(key, loops.result_of(statement) or "")

    def key(self, statement: loops.Statement) -> object:
        """What a statement computes, if that is the same wherever it is computed."""
        match statement:
            case loops.Load() if statement.buffer in self.constant:
                return statement.buffer, statement.indices
            case loops.Index() | loops.Compute() if self.changing.isdisjoint(map(str, statement.operands)):
                return type(statement), statement.function, statement.operands
        return None

    # Around the elements

    def outer_loop(self, surroundings: _Block) -> loops.For:
        """The loop around the loop over the elements. What it adds itself is rescaled once an iteration."""
        loop, inner = self.host.loop, self.host.inner
        local = {name for s in loop.body if (name := loops.result_of(s)) is not None}
        block = _Block(surroundings)
        place = next(at for at, s in enumerate(loop.body) if s is inner)
        before, after = loop.body[:place], loop.body[place + 1 :]
        if self.largest.reduction.indices:
            raise _Refusal("its loops are not the same, and it has an element a head")
        if self.largest.result in _read_names((*before, *after)):
            raise _Refusal("what waits for it is computed around the loop over the elements")
        sums = (written_names(after) & self.host.proportional) - local
        if sums & written_names([inner]) or sums & written_names(before):
            raise _Refusal("a sum is added to both in and around the loop over the elements")
        origin = self.largest.reduction.origin
        earlier = self.names.new("before")
        if sums:
            block.body.append(self.read_maximum(earlier, (), origin))
        for statement in before:
            self.remember(statement, block)
            block.body.append(statement)
        block.body.append(self.element_loop(inner, block))
        if sums:
            _, shrink = self.rescale(block, earlier, (), origin)
            after = _rescaling(after, sums, shrink)
        block.body += after
        return replace(loop, body=tuple(block.body), origin=merge(*(s.origin for s in block.body)))

    def read_maximum(self, result: str, indices: tuple[Atom, ...], origin: Origin) -> loops.Statement:
        if indices:
            return loops.Load(result=result, buffer=self.largest.name, indices=indices, origin=origin)
        return loops.Compute(result=result, function="copy", operands=(self.largest.name,), origin=origin)

    def rescale(self, block: _Block, earlier: str, indices: tuple[Atom, ...], origin: Origin) -> tuple[str, str]:
        """The maximum as it is now, and exp of how far it has grown, negated: what the sums shrink by."""
        now, grown, shrink = self.names.new("now"), self.names.new("u"), self.names.new("shrink")
        block.body += [
            self.read_maximum(now, indices, origin),
            loops.Compute(result=grown, function="sub", operands=(earlier, now), origin=origin),
            loops.Compute(result=shrink, function="exp", operands=(grown,), origin=origin),
        ]
        return now, shrink

    # The elements

    def element_loop(self, inner: loops.For, surroundings: _Block) -> loops.For:
        """The loop over the elements: x, the maximum, then every sum, each rescaled before it is added to."""
        block = self.elements = _Block(surroundings)
        if self.host.nested:
            block.known[self.host.along, (inner.variable,)] = self.host.loop.variable
        self.renamed[self.largest.loop.variable] = inner.variable
        for statement in self.largest.loop.body:
            self.append(statement, block)
        shrink = self.maximum()
        for each in (*self.guests, self.host):
            local = {name for node in walk(each.inner) if (name := loops.result_of(node)) is not None}
            sums = (written_names([each.inner]) & each.proportional) - local
            if sums & {node.buffer for node in walk(each.inner) if isinstance(node, loops.Load)} | sums & _values(each):
                raise _Refusal("a sum is read while it is added to")
            self.renamed[each.inner.variable] = inner.variable
            for statement in _rescaling(each.inner.body, sums, shrink):
                self.append(statement, block)
        if self.heads is not None:
            loop, body = self.heads[0], self.heads[1].body
            made = replace(loop, body=tuple(body), origin=merge(*(s.origin for s in body)))
            block.body = [made if s is loop else s for s in block.body]
        return replace(inner, body=tuple(block.body), origin=merge(*(s.origin for s in block.body)))

    def maximum(self) -> str:
        """`before = m; m max= x; now = m; shrink = exp(before - now)`, in the loop over the heads if there is one;
        the name of what sums shrink by."""
        reduction = self.largest.reduction
        block = self.elements if self.heads is None else self.heads[1]
        earlier, largest = self.names.new("before"), rename(reduction, self.renamed)
        assert isinstance(largest, loops.Accumulate)
        block.body += [self.read_maximum(earlier, largest.indices, reduction.origin), largest]
        now, shrink = self.rescale(block, earlier, largest.indices, reduction.origin)
        if not largest.indices:
            self.renamed[self.largest.result] = now
        self.now, self.shrink = now, shrink
        return shrink

    def append(self, statement: loops.Statement, block: _Block) -> None:
        """Appends a statement, unless its result is known; the loops over the heads become one."""
        if statement is self.largest.reduction:
            return
        if isinstance(statement, loops.For):
            self.append_loop(statement, block)
            return
        if self.reads_element(statement):
            self.renamed[loops.result_of(statement) or ""] = self.now
            return
        renamed = self.moved(statement)
        key = self.key(renamed)
        known = None if key is None else block.find(key)
        if known is not None:
            self.renamed[loops.result_of(statement) or ""] = str(known)
            return
        self.remember(renamed, block)
        reads = set(loops.reads_of(renamed))
        if self.heads is None:
            block.body.append(renamed)
        elif block is self.heads[1]:
            self.check_order(reads)
            block.body.append(renamed)
        elif key is not None and self.behind.isdisjoint(reads):
            block.body.insert(next(at for at, s in enumerate(block.body) if s is self.heads[0]), renamed)
        else:
            self.behind |= {loops.result_of(renamed) or ""} | written_names([renamed])
            self.append_behind(renamed, block)

    def append_loop(self, loop: loops.For, block: _Block) -> None:
        reduction = self.largest.reduction
        if block is self.elements and self.heads is None and any(s is reduction for s in loop.body):
            self.heads = (loop, _Block(block))
            block.body.append(loop)
            for inner in loop.body:
                self.append(inner, self.heads[1])
            return
        heads = self.heads
        if heads is not None and block is self.elements and any(self.is_element(s, loop.variable) for s in loop.body):
            if (loop.lower, loop.extent) != (heads[0].lower, heads[0].extent):
                raise _Refusal("its sums run over other heads")
            self.renamed[loop.variable] = heads[0].variable
            for inner in loop.body:
                self.append(inner, heads[1])
            return
        renamed = self.moved(loop)
        if heads is not None and block is heads[1]:
            self.check_order(_read_names([renamed]))
            block.body.append(renamed)
        elif heads is not None:
            self.behind |= written_names([renamed])
            self.append_behind(renamed, block)
        else:
            block.body.append(renamed)

    def append_behind(self, statement: loops.Statement, block: _Block) -> None:
        """After the loop over the heads, in which alone a head's maximum is known."""
        if {self.now, self.shrink} & _read_names([statement]):
            raise _Refusal("its sums are not taken head by head")
        block.body.append(statement)

    def check_order(self, reads: set[str]) -> None:
        if reads & self.behind:
            raise _Refusal("the loops over the heads cannot be one")

    def is_element(self, statement: loops.Statement, variable: str) -> bool:
        match statement:
            case loops.Load(buffer=buffer, indices=indices):
                return buffer == self.largest.name and indices == (variable,)
        return False

    def reads_element(self, statement: loops.Statement) -> bool:
        """Whether a statement reads the maximum of the head that the loop is at."""
        if self.heads is None or not isinstance(statement, loops.Load):
            return False
        renamed = rename(statement, self.renamed)
        return self.is_element(renamed, self.heads[0].variable)

    def moved(self, statement: loops.Statement) -> loops.Statement:
        """A statement or loop in the names of the one loop."""
        if isinstance(statement, loops.For):
            lower, extent = (self.renamed.get(str(bound), bound) for bound in (statement.lower, statement.extent))
            return replace(statement, lower=lower, extent=extent, body=tuple(map(self.moved, statement.body)))
        if isinstance(statement, loops.Load) and statement.buffer == self.largest.name:
            raise _Refusal("another head's is read")
        return rename(statement, self.renamed)


def _values(sums: _Sums) -> set[str]:
    """What the statements of a loop compute with, the targets of sums apart."""
    nodes = [node for node in walk(sums.inner) if isinstance(node, loops.Compute | loops.Accumulate | loops.Store)]
    return {atom for node in nodes for atom in node.operands if isinstance(atom, str)}


def _rescaling(body: Sequence[loops.Statement], sums: Iterable[str], shrink: str) -> tuple[loops.Statement, ...]:
    """The statements, with each sum rescaled before it is added to."""
    result: list[loops.Statement] = []
    for statement in body:
        if isinstance(statement, loops.For):
            statement = replace(statement, body=_rescaling(statement.body, sums, shrink))
        elif isinstance(statement, loops.Accumulate) and statement.target in sums:
            result.append(replace(statement, reduction="product", function="copy", operands=(shrink,)))
        result.append(statement)
    return tuple(result)
