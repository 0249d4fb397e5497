"""Reads a printed DLC program."""

from __future__ import annotations

from typing import NamedTuple

from lark import v_args
from lark.tree import Meta

from explorer.compiler.ir import dlc, loops
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.ir.parse.reader import read
from explorer.compiler.ir.parse.statements import INDEX_FUNCTIONS, StatementBuilder, buffers_of, sizes_of


def parse_dlc(text: str) -> dlc.DlcProgram:
    """The DLC program whose printed text this is; raises ParseError for a text that is none."""
    parsed: dlc.DlcProgram = read("dlc", text, _DlcBuilder(text))
    return parsed


class _Access(NamedTuple):
    statements: tuple[dlc.AccessStatement, ...]


class _Execute(NamedTuple):
    cases: tuple[dlc.Case, ...]


@v_args(inline=True, meta=True)
class _DlcBuilder(StatementBuilder):
    def program(self, meta: Meta, name: str, *parts: object) -> dlc.DlcProgram:
        access, execute = parts[-2:]
        assert isinstance(access, _Access)
        assert isinstance(execute, _Execute)
        return dlc.DlcProgram(
            name=name,
            sizes=sizes_of(parts),
            buffers=buffers_of(parts),
            access=access.statements,
            execute=execute.cases,
            origin=self.origin(meta),
        )

    def access(self, meta: Meta, *statements: dlc.AccessStatement) -> _Access:
        return _Access(statements)

    def root(self, meta: Meta, name: str, lower: Atom, upper: Extent, stride: int) -> dlc.Traversal:
        return dlc.Traversal(name=name, parent=None, lower=lower, upper=upper, stride=stride, origin=self.origin(meta))

    def traversal(self, meta: Meta, name: str, parent: str, lower: Atom, upper: Extent, stride: int) -> dlc.Traversal:
        return dlc.Traversal(
            name=name, parent=parent, lower=lower, upper=upper, stride=stride, origin=self.origin(meta)
        )

    def mem_stream(self, meta: Meta, result: str, traversal: str, buffer: str, index: Atom) -> dlc.MemStream:
        return dlc.MemStream(result=result, traversal=traversal, buffer=buffer, index=index, origin=self.origin(meta))

    def alu_stream(self, meta: Meta, result: str, traversal: str, sign: str, left: Atom, right: Atom) -> dlc.AluStream:
        return dlc.AluStream(
            result=result,
            traversal=traversal,
            function=INDEX_FUNCTIONS[sign],
            operands=(left, right),
            origin=self.origin(meta),
        )

    def push_op(self, meta: Meta, stream: str, traversal: str, event: dlc.Event) -> dlc.PushOp:
        return dlc.PushOp(stream=stream, traversal=traversal, event=event, origin=self.origin(meta))

    def callback(self, meta: Meta, traversal: str, event: dlc.Event, token: str) -> dlc.Callback:
        return dlc.Callback(traversal=traversal, event=event, token=token, origin=self.origin(meta))

    def execute(self, meta: Meta, *cases: dlc.Case) -> _Execute:
        return _Execute(cases)

    def case(self, meta: Meta, token: str, *body: dlc.Pop | loops.Statement) -> dlc.Case:
        return dlc.Case(token=token, body=body, origin=self.origin(meta))

    def pop(self, meta: Meta, result: str, kind: str) -> dlc.Pop:
        return dlc.Pop(result=result, type=kind, origin=self.origin(meta))
