"""The cases of the execute unit as instructions."""

from __future__ import annotations

from explorer.compiler.ir import dlc, loops
from explorer.compiler.ir.node import Atom, Node
from explorer.machine import opcodes as op
from explorer.machine.assembly import AssemblyError, Code, Registers
from explorer.machine.binding import Binding


class ExecuteAssembler:
    """Writes one case after another. What a case defines, later cases may read: registers are shared."""

    def __init__(self, binding: Binding) -> None:
        self.code = Code()
        self.x = Registers()
        self.f = Registers()
        self.places: list[list[int]] = []
        self.words = 0
        self._binding = binding
        self._arrays: dict[str, tuple[int, tuple[int, ...]]] = {}

    def array(self, name: str, shape: tuple[int, ...]) -> int:
        """The number of a row or output; its place in the unit's memory is made at the first mention."""
        if name not in self._arrays:
            length = 1
            for extent in shape:
                length *= extent
            self._arrays[name] = (len(self.places), shape)
            self.places.append([self.words, length])
            self.words += length
        return self._arrays[name][0]

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
            case loops.Load():
                array, element = self._element(statement, statement.buffer, statement.indices)
                self.code.add(statement, op.ROW_LOAD, array, element, self.f.named(statement.result))
            case loops.Index():
                left, right = (self._index(operand) for operand in statement.operands)
                result = self.x.named(statement.result)
                self.code.add(statement, op.INDEX_FUNCTIONS[statement.function], result, left, right)
            case loops.Compute():
                self._compute(statement, statement.function, statement.operands, self.f.named(statement.result))
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
                array, element = self._element(statement, statement.target, statement.indices)
                self.code.add(statement, op.ROW_STORE, array, element, value)
            case _:
                raise AssemblyError(f"the execute unit has no such statement: {type(statement).__name__}")

    def _pop(self, pop: dlc.Pop) -> None:
        if pop.type == "i32":
            self.code.add(pop, op.POP_INDEX, self.x.named(pop.result))
        else:
            self.code.add(pop, op.POP_FLOAT, self.f.named(pop.result))

    def _for(self, loop: loops.For) -> None:
        variable, extent = self.x.named(loop.variable), self._index(loop.extent)
        enter = self.code.add(loop, op.FOR_ENTER, variable, extent, -1)
        body = len(self.code.rows)
        for statement in loop.body:
            self._statement(statement)
        self.code.add(loop, op.FOR_NEXT, variable, extent, body)
        self.code.rows[enter][3] = len(self.code.rows)

    def _accumulate(self, statement: loops.Accumulate) -> None:
        value = self._value(statement, statement.function, statement.operands)
        if statement.indices:
            array, element = self._element(statement, statement.target, statement.indices)
            self.code.add(statement, op.ROW_REDUCTIONS[statement.reduction], array, element, value)
        else:
            target = self.f.named(statement.target)
            self.code.add(statement, op.REDUCTIONS[statement.reduction], target, target, value)

    def _value(self, statement: Node, function: str, operands: tuple[Atom, ...]) -> int:
        """The register of an expression's value: the operand's own for a copy."""
        if function == "copy":
            return self._float(statement, operands[0])
        result = self.f.named("value of the statement")
        self._compute(statement, function, operands, result)
        return result

    def _compute(self, statement: Node, function: str, operands: tuple[Atom, ...], result: int) -> None:
        registers = [self._float(statement, operand) for operand in operands]
        functions = op.UNARY_FUNCTIONS if len(registers) == 1 else op.BINARY_FUNCTIONS
        if function not in functions or len(registers) > 2:
            raise AssemblyError(f"the execute unit has no {function} of {len(registers)} operands")
        self.code.add(statement, functions[function], result, *registers)

    def _element(self, statement: Node, name: str, indices: tuple[Atom, ...]) -> tuple[int, int]:
        """The number of an array, and the register of an element's place in it."""
        if name not in self._arrays:
            raise AssemblyError(f"{name} is neither a row nor the output: the execute unit cannot reach it")
        number, shape = self._arrays[name]
        if len(indices) != len(shape):
            raise AssemblyError(f"{name} has {len(shape)} dimensions, but is used with {len(indices)}")
        element = self._index(indices[0]) if indices else self.x.constant(0)
        for index, extent in zip(indices[1:], shape[1:], strict=True):
            flat = self.x.named("element of the statement")
            self.code.add(statement, op.FLATTEN, flat, element, self._index(index), extent)
            element = flat
        return number, element

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
        converted = self.f.named(f"{atom} as a float")
        self.code.add(statement, op.TO_FLOAT, converted, self.x.named(atom))
        return converted
