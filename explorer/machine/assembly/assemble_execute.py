"""The cases of the execute unit as instructions."""

from __future__ import annotations

from explorer.compiler.ir import loops
from explorer.compiler.ir.access import dlc, execute
from explorer.compiler.ir.node import Atom, Node
from explorer.machine.assembly import opcodes as op
from explorer.machine.assembly.assembly import AssemblyError, Code, Registers
from explorer.machine.assembly.binding import Binding
from explorer.machine.assembly.costs import FREE, REDUCTION, UPDATE, arithmetic, parts
from explorer.machine.parameters import LINE_WORDS


class ExecuteAssembler:
    """Writes one case after another. What a case defines, later cases may read: registers are shared.

    In a vector region of some width, names that have a value a lane are vectors, so many registers; `_lanes` are the
    indices that step by one a lane.
    """

    def __init__(self, binding: Binding) -> None:
        self.code = Code()
        self.x = Registers()
        self.f = Registers()
        self.arrays: list[list[int]] = []
        self.words = 0
        self._binding = binding
        self._shapes: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._vectors: set[str] = set()
        self._lanes: set[str] = set()
        self._width = 0
        self._depth = 0

    def array(self, name: str, shape: tuple[int, ...], shared: bool = False) -> int:
        """The number of a row or output; its place in the unit's memory is made at the first mention, lines apart."""
        if name not in self._shapes:
            length = 1
            for extent in shape:
                length *= extent
            span = shape[-1] if len(shape) > 1 else 1
            self._shapes[name] = (len(self.arrays), shape)
            self.arrays.append([self.words, length, max(1, span), int(shared), 0, 0])
            self.words += -(-length // LINE_WORDS) * LINE_WORDS
        return self._shapes[name][0]

    def counter(self, name: str, start: int) -> int:
        """The register of a counter, which starts at a number."""
        register = self.x.named(name)
        self.x.initial[register] = start
        return register

    def case(self, case: dlc.Case) -> int:
        """Writes a case; the number of its first instruction."""
        first = len(self.code.rows)
        for statement in case.body:
            self._statement(statement)
        self.code.add(case, op.END_CASE)
        return first

    def _statement(self, statement: Node) -> None:
        match statement:
            case dlc.Pop():
                self._pop(statement)
            case loops.For():
                self._for(statement)
            case execute.Lanes():
                self._region(statement)
            case loops.Load():
                self._load(statement)
            case loops.Index() | execute.Increment() | execute.Reset():
                self._index_statement(statement)
            case loops.Compute():
                self._compute(statement, statement.function, statement.operands, statement.result)
            case loops.Row():
                array = self.array(statement.name, tuple(self._binding.number(e) for e in statement.extents))
                self.code.add(statement, op.ROW_POISON, array)
            case loops.Accumulator():
                start = self.f.constant(float(statement.start))
                self.code.add(statement, op.COPY, self.f.named(statement.name), start)
            case loops.Accumulate():
                self._accumulate(statement)
            case loops.Store():
                value = self._value(statement, statement.function, statement.operands)
                self._write(statement, op.ROW_STORE, op.LANES_STORE, value, 1)
            case _:
                raise AssemblyError(f"the execute unit has no such statement: {type(statement).__name__}")

    def _pop(self, pop: dlc.Pop) -> None:
        cost = ("pop", 1.0) if pop.words == 1 else ("vector", float(parts(pop.words)))
        if pop.vector > 1:
            if pop.type != "f32" or pop.splat > 1:
                raise AssemblyError(f"{pop.result} is no vector of f32")
            self.code.add(pop, op.POP_VECTOR, self._vector(pop.result, pop.vector), pop.words, cost=cost)
        elif pop.type == "i32":
            self.code.add(pop, op.POP_INDEX, self.x.named(pop.result), pop.words, cost=cost)
        else:
            self.code.add(pop, op.POP_FLOAT, self.f.named(pop.result), pop.words, cost=cost)

    def _for(self, loop: loops.For) -> None:
        if loop.step < 1:
            raise AssemblyError(f"the loop over {loop.variable} has step {loop.step}, but must go forward")
        lower, extent, variable = self._index(loop.lower), self._index(loop.extent), self.x.named(loop.variable)
        enter, following = (op.FOR_ENTER, op.FOR_NEXT) if loop.step == 1 else (op.LANES_ENTER, op.LANES_NEXT)
        start = self.code.add(loop, enter, variable, extent, -1, lower, loop.step)
        first = len(self.code.rows)
        self._body(loop.variable, loop.step, loop.body, depth=1)
        cost = ("scalar" if loop.step == 1 else "vector", 1.0)
        self.code.add(loop, following, variable, extent, first, 0, loop.step, cost=cost)
        self.code.rows[start][3] = len(self.code.rows)

    def _region(self, lanes: execute.Lanes) -> None:
        """One trip of a vector loop, from the index that was popped on."""
        if lanes.width < 2:
            raise AssemblyError(f"{lanes.variable} has {lanes.width} lanes, which is no vector")
        extent, start = self._index(lanes.extent), self.x.named(lanes.variable)
        cost = ("unbuffered", float(parts(lanes.width)))
        enter = self.code.add(lanes, op.LANES_ENTER, start, extent, -1, start, lanes.width, cost=cost)
        self._body(lanes.variable, lanes.width, lanes.body, depth=0)
        self.code.rows[enter][3] = len(self.code.rows)

    def _body(self, variable: str, width: int, body: tuple[Node, ...], depth: int) -> None:
        if width > 1 and self._width:
            raise AssemblyError(f"the vector region over {variable} is inside another")
        outside = self._width, self._lanes
        if width > 1:
            self._width, self._lanes = width, {variable}
        self._depth += depth
        for statement in body:
            self._statement(statement)
        self._depth -= depth
        self._width, self._lanes = outside

    def _vector(self, name: str, lanes: int) -> int:
        self._vectors.add(name)
        return self.f.named(name, lanes)

    def _index_statement(self, statement: loops.Index | execute.Increment | execute.Reset) -> None:
        operands: tuple[Atom, ...]
        match statement:
            case execute.Increment():
                name, function, operands = statement.target, "add", (statement.target, statement.by)
            case execute.Reset():
                name, function, operands = statement.target, "add", (statement.value, 0)
            case loops.Index():
                name, function, operands = statement.result, statement.function, statement.operands
        if any(operand in self._lanes for operand in operands):
            if function != "add" and (function != "sub" or operands[1] in self._lanes):
                raise AssemblyError(f"{name} does not step by one from lane to lane")
            self._lanes.add(name)
        left, right = (self._index(operand) for operand in operands)
        cost = (FREE, 0.0) if self._depth else ("scalar", 1.0)
        self.code.add(statement, op.INDEX_FUNCTIONS[function], self.x.named(name), left, right, cost=cost)

    def _load(self, load: loops.Load) -> None:
        array, element, lanes = self._element(load, load.buffer, load.indices)
        if lanes:
            result = self._vector(load.result, self._width)
            self.code.add(load, op.LANES_LOAD, array, element, result, cost=("vector", parts(self._width)))
        else:
            self.code.add(load, op.ROW_LOAD, array, element, self.f.named(load.result), cost=("scalar", 1.0))

    def _write(self, node: loops.Store | loops.Accumulate, scalar: int, lanes: int, value: int, amount: int) -> None:
        """Writes a value, one for all lanes or one a lane, to an element or to those of all lanes."""
        array, element, each = self._element(node, node.target, node.indices)
        if each:
            cost = ("vector", float(amount * parts(self._width)))
            self.code.add(node, lanes, array, element, value, self._stride(node), cost=cost)
            return
        if self._stride(node) or (self._width and amount > 1):
            raise AssemblyError(f"{node.target} takes one value, but the lanes have one each")
        self.code.add(node, scalar, array, element, value, cost=("scalar", float(amount)))

    def _accumulate(self, statement: loops.Accumulate) -> None:
        value = self._value(statement, statement.function, statement.operands)
        if statement.indices:
            scalar, lanes = op.ROW_REDUCTIONS[statement.reduction], op.LANES_REDUCTIONS[statement.reduction]
            self._write(statement, scalar, lanes, value, UPDATE)
            return
        target, function = self.f.named(statement.target), op.REDUCTIONS[statement.reduction]
        if self._width:
            cost = ("vector", float(parts(self._width) + REDUCTION))
            self.code.add(statement, op.REDUCE, target, value, 0, function, self._stride(statement), cost=cost)
        else:
            self.code.add(statement, function, target, target, value, cost=arithmetic(function, 0))

    def _stride(self, statement: loops.Store | loops.Accumulate) -> int:
        """Whether the expression of a statement has a value a lane."""
        return int(any(self._is_vector(operand) for operand in statement.operands))

    def _is_vector(self, atom: Atom) -> bool:
        return isinstance(atom, str) and (atom in self._vectors or atom in self._lanes)

    def _value(self, statement: Node, function: str, operands: tuple[Atom, ...]) -> int:
        """The register of an expression's value: the operand's own for a copy."""
        if function == "copy":
            return self._float(statement, operands[0])
        kind = "lanes" if any(self._is_vector(operand) for operand in operands) else "value"
        name = f"{kind} of the statement {self._width}"
        self._compute(statement, function, operands, name)
        return self.f.named(name)

    def _compute(self, statement: Node, function: str, operands: tuple[Atom, ...], name: str) -> None:
        each = any(self._is_vector(operand) for operand in operands)
        if each and not self._width:
            raise AssemblyError(f"{name} is computed of a vector, but outside of a vector region")
        result = self._vector(name, self._width) if each else self.f.named(name)
        if function in op.SEGMENT_FUNCTIONS:
            value, begin, end = operands
            places = self._float(statement, value), self._index(begin), self._index(end)
            opcode, cost = (
                op.SEGMENT_FUNCTIONS[function],
                arithmetic(op.SEGMENT_FUNCTIONS[function], self._width * each),
            )
            self.code.add(statement, opcode, result, *places, int(each), cost=cost)
            return
        registers = [self._float(statement, operand) for operand in operands]
        functions = op.UNARY_FUNCTIONS if len(registers) == 1 else op.BINARY_FUNCTIONS
        if function not in functions or len(registers) > 2:
            raise AssemblyError(f"the execute unit has no {function} of {len(registers)} operands")
        opcode = functions[function]
        if not each:
            self.code.add(statement, opcode, result, *registers, cost=arithmetic(opcode, 0))
            return
        strides = sum(self._is_vector(operand) << place for place, operand in enumerate(operands))
        left, right = registers[0], registers[-1]
        cost = arithmetic(opcode, self._width)
        self.code.add(statement, op.LANES, result, left, right, opcode, strides, cost=cost)

    def _element(self, statement: Node, name: str, indices: tuple[Atom, ...]) -> tuple[int, int, bool]:
        """The number of an array, the register of an element's place in it, and whether each lane has its own."""
        if name not in self._shapes:
            raise AssemblyError(f"{name} is neither a row nor the output: the execute unit cannot reach it")
        number, shape = self._shapes[name]
        if len(indices) not in (1, len(shape)):
            raise AssemblyError(f"{name} has {len(shape)} dimensions, but is used with {len(indices)}")
        if any(index in self._lanes for index in indices[:-1]):
            raise AssemblyError(f"the lanes' elements of {name} are not neighbours")
        each = bool(indices) and indices[-1] in self._lanes
        element = self._index(indices[0]) if indices else self.x.constant(0)
        cost = (FREE, 0.0) if self._depth else ("scalar", 1.0)
        for place, (index, extent) in enumerate(zip(indices[1:], shape[1:], strict=False)):
            opcode = op.LANES_FLATTEN if each and place == len(indices) - 2 else op.FLATTEN
            flat = self.x.named("element of the statement")
            self.code.add(statement, opcode, flat, element, self._index(index), extent, cost=cost)
            element = flat
        return number, element, each

    def _index(self, atom: Atom) -> int:
        """The register of an index, a size or a whole number."""
        if isinstance(atom, float):
            raise AssemblyError(f"{atom} is not an index")
        if isinstance(atom, int):
            return self.x.constant(atom)
        if atom in self._binding.sizes:
            return self.x.constant(self._binding.sizes[atom])
        if atom not in self.x:
            raise AssemblyError(f"{atom} is used as an index, but is none")
        return self.x.named(atom)

    def _float(self, statement: Node, atom: Atom) -> int:
        """The register of an f32 operand; a number or a size becomes a constant, an index is converted."""
        if not isinstance(atom, str):
            return self.f.constant(float(atom))
        if atom in self.f:
            return self.f.named(atom)
        if atom in self._binding.sizes:
            return self.f.constant(float(self._binding.sizes[atom]))
        if atom not in self.x:
            raise AssemblyError(f"{atom} is used before its definition")
        name, index = f"{atom} as a float", self.x.named(atom)
        if atom in self._lanes:
            lanes = self.f.named(f"{name} {self._width}", self._width)
            self.code.add(statement, op.LANES_TO_FLOAT, lanes, index, cost=("vector", float(parts(self._width))))
            return lanes
        self.code.add(statement, op.TO_FLOAT, self.f.named(name), index, cost=("scalar", 1.0))
        return self.f.named(name)
