"""Reads a printed DLC program."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from lark import v_args
from lark.tree import Meta

from explorer.compiler.ir.access import dlc
from explorer.compiler.ir.access.execute import Counter
from explorer.compiler.ir.node import Atom, Extent, Level, Node
from explorer.compiler.ir.parse.reader import read
from explorer.compiler.ir.parse.statements import (
    INDEX_FUNCTIONS,
    StatementBuilder,
    buffers_of,
    sizes_of,
    width_of,
)


def parse_dlc(text: str) -> dlc.DlcProgram:
    """The DLC program whose printed text this is; raises ParseError for a text that is none."""
    parsed: dlc.DlcProgram = read("dlc", text, _DlcBuilder(text))
    return parsed


class _Access(NamedTuple):
    statements: tuple[dlc.AccessStatement, ...]


class _Execute(NamedTuple):
    counters: tuple[Counter, ...]
    cases: tuple[dlc.Case, ...]


class _Toggle(NamedTuple):
    stream: str


class _Hint(NamedTuple):
    word: str


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
            counters=execute.counters,
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

    def mem_stream(self, meta: Meta, result: str, traversal: str, *parts: Any) -> dlc.MemStream:
        hints = [part.word for part in parts if isinstance(part, _Hint)]
        operands: list[Any] = [part for part in parts if isinstance(part, (str, int))]
        buffer, index = operands
        return dlc.MemStream(
            result=result,
            traversal=traversal,
            buffer=buffer,
            index=index,
            vector=width_of(parts),
            level=cast("Level", next((word for word in hints if word != "non_temporal"), "")),
            temporal="non_temporal" not in hints,
            origin=self.origin(meta),
        )

    def LEVEL(self, token: str) -> _Hint:
        return _Hint(str(token))

    def NON_TEMPORAL(self, token: str) -> _Hint:
        return _Hint(str(token))

    def alu_stream(self, meta: Meta, result: str, traversal: str, sign: str, left: Atom, right: Atom) -> dlc.AluStream:
        return dlc.AluStream(
            result=result,
            traversal=traversal,
            function=INDEX_FUNCTIONS[sign],
            operands=(left, right),
            origin=self.origin(meta),
        )

    def acc_stream(self, meta: Meta, result: str, traversal: str, operand: Atom, start: Atom) -> dlc.AccStream:
        return dlc.AccStream(result=result, traversal=traversal, operand=operand, start=start, origin=self.origin(meta))

    def push_op(self, meta: Meta, stream: str, traversal: str, event: dlc.Event) -> dlc.PushOp:
        return dlc.PushOp(stream=stream, traversal=traversal, event=event, origin=self.origin(meta))

    def push_splat(self, meta: Meta, splat: int, stream: str, traversal: str, event: dlc.Event) -> dlc.PushOp:
        return dlc.PushOp(stream=stream, traversal=traversal, event=event, splat=splat, origin=self.origin(meta))

    def store_stream(self, meta: Meta, *parts: Any) -> dlc.StoreStream:
        operands: list[Any] = [part for part in parts if isinstance(part, (str, int))]
        buffer, index, stream, traversal, event = operands
        return dlc.StoreStream(
            buffer=buffer,
            index=index,
            stream=stream,
            traversal=traversal,
            event=event,
            vector=width_of(parts),
            origin=self.origin(meta),
        )

    def callback(self, meta: Meta, traversal: str, event: dlc.Event, *rest: Any) -> dlc.Callback:
        toggle = next((part.stream for part in rest if isinstance(part, _Toggle)), "")
        return dlc.Callback(traversal=traversal, event=event, token=rest[-1], toggle=toggle, origin=self.origin(meta))

    def toggle(self, meta: Meta, stream: str) -> _Toggle:
        return _Toggle(stream)

    def execute(self, meta: Meta, *parts: Counter | dlc.Case) -> _Execute:
        counters = tuple(part for part in parts if isinstance(part, Counter))
        return _Execute(counters, tuple(part for part in parts if isinstance(part, dlc.Case)))

    def counter(self, meta: Meta, word: str, name: str, start: int) -> Counter:
        return Counter(name=name, start=start, origin=self.origin(meta))

    def case(self, meta: Meta, token: str, *body: Node) -> dlc.Case:
        return dlc.Case(token=token, body=body, origin=self.origin(meta))

    def pop(self, meta: Meta, result: str, *parts: Any) -> dlc.Pop:
        words = next((part for part in parts if isinstance(part, int)), 1)
        type_ = next(part for part in parts if part in ("i32", "f32"))
        first = parts[-1] == "[0]"
        return dlc.Pop(
            result=result,
            type=type_,
            vector=1 if first else words,
            splat=words if first else 1,
            origin=self.origin(meta),
        )
