"""Expressions as text: one statement for what is used more than once, or is long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import isfinite
from string import ascii_lowercase

from explorer.runtime.trace.tapes.tape import TraceError
from explorer.runtime.trace.texts.names import fresh, identifier
from explorer.runtime.trace.values.expressions import Node, walk

LONGEST, DEEPEST = 64, 8
"""Characters, and brackets in brackets, of an expression that stands within another one."""
_BINDS = {"+": 2, "-": 2, "*": 3, "/": 3, "@": 3, "neg": 4, "**": 5}
_COMPARED = {">", "<", ">=", "<=", "==", "!="}
_LEAVES = {"tensor", "number", "gather"}
_POSTFIX, _ATOM = 6, 7


class Sayer:
    """Says expressions, in lines that it collects. `read` says what a leaf is: a tensor, or a row of one."""

    def __init__(self, roots: Iterable[Node], names: dict[Node, str], used: set[str]) -> None:
        self.lines: list[str] = []
        self.variables: dict[Node, None] = {}  # that have a statement, in the order of the lines
        self.said: dict[Node, str] = {}
        self._names, self._used = names, used
        self._uses: Counter[Node] = Counter()
        roots = tuple(roots)
        self._uses.update(roots)
        for node in walk(roots):
            self._uses.update(set(node.operands))

    def leaf(self, node: Node) -> str:
        """A tensor, a number, or a row that is gathered."""
        raise NotImplementedError

    def is_leaf(self, node: Node) -> bool:
        """Whether an expression is said the same wherever it is used."""
        cheap = node.operator in ("T", "item", "neg") and self.is_leaf(node.operands[0])
        return node.operator in _LEAVES or cheap

    def root(self, node: Node) -> str:
        """An expression that stands by itself."""
        for operand in node.operands:
            self.say(operand)
        if node in self.said or self._uses[node] > 1:
            return self.say(node)
        return self._text(node)

    def say(self, node: Node, binds: int = 0) -> str:
        """The expression, in brackets where what is around it binds tighter."""
        if node not in self.said:
            for operand in node.operands:
                if not self.is_leaf(operand):
                    self.say(operand)
        text = self.said.get(node)
        if text is None:
            text = self._text(node)
            if not self.is_leaf(node) and (self._uses[node] > 1 or len(text) > LONGEST or _depth(text) > DEEPEST):
                name = fresh(identifier(self._names.get(node, "x")), self._used)
                self.lines.append(f"{name} = {text}")
                self.variables[node] = None
                text = name
            self.said[node] = text
        if node in self.variables or self.strength(node) >= binds:
            return text
        return f"({text})"

    def strength(self, node: Node) -> int:
        """How tight the outermost operator binds."""
        if node.operator in _COMPARED:
            return 1
        if node.operator == "number" and str(_number(node)).startswith("-"):
            return _BINDS["neg"]
        return _BINDS.get(node.operator, _ATOM)

    def _text(self, node: Node) -> str:
        operands, data = node.operands, node.data
        match node.operator:
            case "number":
                return _number(node)
            case "neg":
                return f"-{self.say(operands[0], 5)}"
            case "T":
                return f"{self.say(operands[0], _POSTFIX)}.T"
            case "permute":
                letters = ascii_lowercase[: len(data)]
                there = "".join(letters[int(str(axis))] for axis in data)
                return f'einsum("{letters}->{there}", {self.say(operands[0])})'
            case "item":
                return f"{self.say(operands[0], _POSTFIX)}[{data[0]}]"
            case "slice":
                return f"{self.say(operands[0], _POSTFIX)}[{_range(data)}]"
            case "call":
                parts = [*(self.say(operand) for operand in operands), *([str(data[1])] if data[1] else [])]
                return f"{data[0]}({', '.join(parts)})"
            case "concat" | "stack":
                usual = -1 if node.operator == "concat" else 0
                axis = "" if data[0] == usual else f", axis={data[0]}"
                return f"{node.operator}([{', '.join(map(self.say, operands))}]{axis})"
            case "empty" | "place":
                raise TraceError(
                    "rows are put into a tensor one kind after another, and no table of kinds can say it: each kind's "
                    "must be computed alike, of rows in the same places, and all rows be put."
                )
            case "some":
                raise TraceError(
                    "a maximum along ids that begins with infinity is infinity where no id leads, which has no name in "
                    "the model language: begin with a large number, or read it by the same ids alone."
                )
            case "tensor" | "gather" | "reduce" | "total":
                return self.leaf(node)
            case "**":
                return f"{self.say(operands[0], _POSTFIX)} ** {self.say(operands[1], _POSTFIX)}"
        binds = _BINDS.get(node.operator, 1)
        left = binds + (node.operator in _COMPARED)
        return f"{self.say(operands[0], left)} {node.operator} {self.say(operands[1], binds + 1)}"


def _number(node: Node) -> str:
    value = node.data[0]
    assert isinstance(value, float)
    if not isfinite(value):
        raise TraceError("infinity has no name in the model language: write a large number.")
    return str(int(value)) if value == int(value) and abs(value) < 1e9 else repr(value)


def _range(data: tuple[object, ...]) -> str:
    start, stop, step = ("" if each is None else str(each) for each in data)
    start = "" if start == "0" else start
    return f"{start}:{stop}" + (f":{step}" if step not in ("", "1") else "")


def _depth(text: str) -> int:
    deepest = depth = 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        deepest = max(deepest, depth)
    return deepest
