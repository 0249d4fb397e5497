"""Reads a model's text into Python syntax trees for the reference, independently of the compiler's parser.

The language is Python but for its declarations, so those lines are rewritten and Python's own parser does the
rest. Only texts that the compiler has accepted come here, so nothing is diagnosed.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

DATA_NAME = re.compile(r'"[A-Za-z_]\w*"')
LETTERS = re.compile(r'"[a-z, ]*->[a-z ]*"')
SKIPPED = re.compile(r'#[^\n]*|"""[\s\S]*?"""|"[^"\n]*"')
CONTINUATION = re.compile(r"\\[ \t]*\r?\n")
LEADING_ZEROS = re.compile(r"(?<![\w.])0+(?=[0-9])")
HEADER = re.compile(r"^(\s*)(score|layer|op)(?=\s+\w+\s*\()")
LISTS = re.compile(r"\b(bag|blocks|negatives)\s+of\s+(\w+)")
MAP_WORD = "m\u00e4p"
"""What declares a map in Python: no name of the language, whose letters are ASCII."""
MAP = re.compile(r"^(\s*)map\s+(\w+)\s*:\s*(\w+)\s*->\s*(\w+)\s*$")
DIMENSIONS = re.compile(r"^(\s*)dim\s+(.*)$")
DOTS = re.compile(r"\.\.")
STORED = re.compile(r"\s*:\s*\w+(?=\s*(,|$))")
"""What a tensor is stored in: whoever gives it has rounded it."""
DECLARATION = re.compile(r"^(\s*)(param|input)\s+(?=\w)")


class ReferenceFailure(ValueError):
    """The reference cannot evaluate a text that the compiler accepted: a defect of one of the two."""


class _Renamed(ast.NodeTransformer):
    """Names in the places of others."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:  # as the base class calls it
        return ast.copy_location(ast.Name(self._names.get(node.id, node.id), node.ctx), node)


@dataclass(frozen=True)
class Definition:
    """A `score`, a `layer`, an `op` or a `def`. A helper's parameters have the set ""; `defaults` are of the last."""

    name: str
    family: str
    parameters: tuple[tuple[str, str], ...]
    defaults: tuple[ast.expr, ...]
    tensors: tuple[tuple[str, tuple[str, ...]], ...]  # name and extents, as written
    given: frozenset[str]  # those of the tensors that are declared as `input`
    body: tuple[ast.stmt, ...]
    maps: tuple[tuple[str, tuple[str, ...]], ...] = ()  # of a layer: name, and the sets that it leads from and to

    def with_functions(self, functions: Mapping[str, str]) -> Definition:
        """A helper with functions, by the parameters that stand for them, in their places."""
        if not functions:
            return self
        body = tuple(_Renamed(functions).visit(copy.deepcopy(statement)) for statement in self.body)
        return replace(self, body=body)

    def sets_beside(self, sizes: Collection[str]) -> frozenset[str]:
        """The names among the extents of its tensors that are no sizes: sets, those that computed ids lead to too."""
        named = {extent for _, extents in self.tensors for extent in extents if extent.isidentifier()}
        return frozenset(named.difference(sizes))


@dataclass(frozen=True)
class Model:
    """The sizes that a text declares, in order and with their defaults, and its definitions by name."""

    dims: tuple[tuple[str, ast.expr | None], ...]
    definitions: dict[str, Definition]

    def sizes(self, given: Collection[str]) -> set[str]:
        """The names of sizes, those that are given beside the declared ones too."""
        return {name for name, _ in self.dims}.union(given)

    def main(self, name: str | None) -> Definition:
        """The definition of that name, or the last that is not a helper."""
        runnable = [entry for entry in self.definitions.values() if entry.family != "def"]
        chosen = [entry for entry in runnable if name in (None, entry.name)]
        if not chosen:
            raise ReferenceFailure(f"there is no definition {name or ''} to run")
        return chosen[-1]


def read_model(text: str) -> Model:
    """Reads a text; raises ReferenceFailure where it is not one of the language's."""
    return _model_of(*_read_tree(text))


def said_to_mean(text: str, name: str | None = None) -> str:
    """All of a text that its definition's meaning depends on: alike for texts that differ in how they are set, in what
    comments say, or in what the definition is called.

    Raises ReferenceFailure as `read_model` does, and where there is no such definition."""
    tree, families = _read_tree(text)
    main = _model_of(tree, families).main(name).name
    is_called = any(isinstance(node, ast.Name) and node.id == main for node in ast.walk(tree))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == main and not is_called:
            node.name = ""
    return repr(("" if not is_called else main, [families.get(node.lineno) for node in tree.body], ast.dump(tree)))


def _read_tree(text: str) -> tuple[ast.Module, dict[int, str]]:
    """A text as Python, and by line the family of the definition whose header it is."""
    families: dict[int, str] = {}
    lines = []
    for number, line in enumerate(_logical_lines(text), start=1):
        header = HEADER.match(line)
        if header:
            families[number] = header[2]
        lines.append(_to_python(line))
    try:
        return ast.parse("\n".join(lines) + "\n"), families
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ReferenceFailure(f"the reference cannot read the text: {error}") from error


def _model_of(tree: ast.Module, families: Mapping[int, str]) -> Model:
    definitions = {
        node.name: _read_definition(node, families.get(node.lineno, "def"))
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    return Model(tuple(_read_dims(tree)), definitions)


def _logical_lines(text: str) -> Iterator[str]:
    """The lines without comments and with 0 for strings, but for names of data and the letters of einsum; those inside
    brackets are joined."""
    text = SKIPPED.sub(_without_prose, text.replace("\ufeff", " "))
    line, depth = "", 0
    for part in CONTINUATION.sub(" ", text).split("\n"):
        line += part.rstrip("\r")
        depth += sum(part.count(bracket) for bracket in "([") - sum(part.count(bracket) for bracket in ")]")
        if depth <= 0:
            yield line
            line, depth = "", 0
    yield line


def _without_prose(found: re.Match[str]) -> str:
    if DATA_NAME.fullmatch(found[0]) or LETTERS.fullmatch(found[0]):
        return found[0]
    return "" if found[0].startswith("#") else "0"


def _to_python(line: str) -> str:
    """A line as Python: a header as `def`, sizes as a call, tensors as an assignment, and `0..K` as `0 << K`, an
    operator that binds less than all of the language's."""
    line = DOTS.sub(" << ", LEADING_ZEROS.sub("", line))
    if HEADER.match(line):
        line = LISTS.sub(r"\1[\2]", HEADER.sub(r"\1def", line))
    line = MAP.sub(rf"\1{MAP_WORD} = \2[\3, \4]", line)
    line = DIMENSIONS.sub(r"\1dim(\2)", line)
    return DECLARATION.sub(r"\1\2 = ", STORED.sub("", line) if DECLARATION.match(line) else line)


def _read_dims(tree: ast.Module) -> Iterator[tuple[str, ast.expr | None]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dim":
            yield from ((name.id, None) for name in node.args if isinstance(name, ast.Name))
            yield from ((size.arg, size.value) for size in node.keywords if size.arg)


def _read_definition(node: ast.FunctionDef, family: str) -> Definition:
    tensors: list[tuple[str, tuple[str, ...]]] = []
    given: set[str] = set()
    maps: list[tuple[str, tuple[str, ...]]] = []
    body: list[ast.stmt] = []
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="param" | "input" as kind)], value=value):
                declared = [_read_tensor(part) for part in (value.elts if isinstance(value, ast.Tuple) else [value])]
                tensors += declared
                given |= {name for name, _ in declared if kind == "input"}
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() as value) if name == MAP_WORD:
                maps.append(_read_tensor(value))
            case ast.Expr(value=ast.Constant() | ast.Call(func=ast.Name(id="dim"))) | ast.Pass():
                continue
            case _:
                body.append(statement)
    parameters = tuple(
        (argument.arg, ast.unparse(argument.annotation) if argument.annotation else "") for argument in node.args.args
    )
    defaults = tuple(node.args.defaults)
    return Definition(
        *(node.name, family, parameters, defaults),
        tensors=tuple(tensors),
        given=frozenset(given),
        body=tuple(body),
        maps=tuple(maps),
    )


def _read_tensor(node: ast.expr) -> tuple[str, tuple[str, ...]]:
    match node:
        case ast.Name(id=name):
            return name, ()
        case ast.Subscript(value=ast.Name(id=name), slice=extents):
            parts = extents.elts if isinstance(extents, ast.Tuple) else [extents]
            return name, tuple(ast.unparse(part) for part in parts)
    raise ReferenceFailure(f"not a declaration: {ast.unparse(node)}")
