"""Reads a printed SLC program."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from lark import v_args
from lark.tree import Meta

from explorer.compiler.ir.access import slc
from explorer.compiler.ir.node import Atom, Extent, Level, Node
from explorer.compiler.ir.parse.reader import read
from explorer.compiler.ir.parse.statements import (
    INDEX_FUNCTIONS,
    StatementBuilder,
    buffers_of,
    note_of,
    sizes_of,
    width_of,
)


def parse_slc(text: str) -> slc.SlcProgram:
    """The SLC program whose printed text this is; raises ParseError for a text that is none."""
    parsed: slc.SlcProgram = read("slc", text, _SlcBuilder(text))
    return parsed


class _Mask(NamedTuple):
    stream: str


class _Masked(NamedTuple):
    stream: str
    mask: str


class _Counter(NamedTuple):
    name: str


class _Toggle(NamedTuple):
    stream: str


class _Level(NamedTuple):
    name: Level


class _NonTemporal(NamedTuple):
    word: str


def _items_of(parts: tuple[object, ...]) -> tuple[slc.Item, ...]:
    return tuple(part for part in parts if isinstance(part, slc.Item))


def _mask_of(parts: tuple[object, ...]) -> str:
    return next((part.stream for part in parts if isinstance(part, _Mask)), "")


@v_args(inline=True, meta=True)
class _SlcBuilder(StatementBuilder):
    def program(self, meta: Meta, name: str, *parts: object) -> slc.SlcProgram:
        return slc.SlcProgram(
            name=name,
            sizes=sizes_of(parts),
            buffers=buffers_of(parts),
            body=_items_of(parts),
            origin=self.origin(meta),
        )

    def slc_for(self, meta: Meta, *parts: Any) -> slc.SlcFor:
        atoms = [part for part in parts if isinstance(part, (str, int, _Masked))]
        stream, lower, extent = cast("list[Any]", atoms)
        return slc.SlcFor(
            stream=stream.stream if isinstance(stream, _Masked) else stream,
            lower=lower,
            extent=extent,
            body=_items_of(parts),
            vector=width_of(parts),
            mask=stream.mask if isinstance(stream, _Masked) else "",
            counter=next((part.name for part in parts if isinstance(part, _Counter)), ""),
            note=note_of(parts),
            origin=self.origin(meta),
        )

    def masked(self, meta: Meta, stream: str, mask: str) -> _Masked:
        return _Masked(stream, mask)

    def mask(self, meta: Meta, stream: str) -> _Mask:
        return _Mask(stream)

    def counter(self, meta: Meta, word: str, name: str, lower: Extent) -> _Counter:
        return _Counter(name)

    def mem_stream(self, meta: Meta, result: str, *parts: object) -> slc.MemStream:
        return slc.MemStream(
            result=result,
            buffer=next(part for part in parts if isinstance(part, str)),
            indices=_indices_of(parts),
            vector=width_of(parts),
            mask=_mask_of(parts),
            level=next((part.name for part in parts if isinstance(part, _Level)), ""),
            temporal=not any(isinstance(part, _NonTemporal) for part in parts),
            origin=self.origin(meta),
        )

    def LEVEL(self, token: str) -> _Level:
        return _Level(cast("Level", str(token)))

    def NON_TEMPORAL(self, token: str) -> _NonTemporal:
        return _NonTemporal(token)

    def alu_stream(self, meta: Meta, result: str, *parts: Any) -> slc.AluStream:
        sign, left, right = parts[-3:]
        return slc.AluStream(
            result=result,
            function=INDEX_FUNCTIONS[sign],
            operands=(left, right),
            vector=width_of(parts),
            origin=self.origin(meta),
        )

    def acc_stream(self, meta: Meta, result: str, operand: Atom, start: Atom) -> slc.AccStream:
        return slc.AccStream(result=result, operand=operand, start=start, origin=self.origin(meta))

    def buf_stream(self, meta: Meta, result: str, *parts: object) -> slc.BufStream:
        return slc.BufStream(result=result, vector=width_of(parts), origin=self.origin(meta))

    def push(self, meta: Meta, buffer: str, stream: str) -> slc.Push:
        return slc.Push(buffer=buffer, stream=stream, origin=self.origin(meta))

    def store_stream(self, meta: Meta, *parts: Any) -> slc.StoreStream:
        buffer, stream = (part for part in parts if isinstance(part, str))
        return slc.StoreStream(
            buffer=buffer,
            indices=_indices_of(parts),
            stream=stream,
            vector=width_of(parts),
            mask=_mask_of(parts),
            origin=self.origin(meta),
        )

    def stream_indices(self, meta: Meta, *indices: Atom) -> list[Atom]:
        return list(indices)

    def callback(self, meta: Meta, *parts: object) -> slc.Callback:
        toggle = next((part.stream for part in parts if isinstance(part, _Toggle)), "")
        body = tuple(part for part in parts if isinstance(part, Node))
        return slc.Callback(body=body, toggle=toggle, origin=self.origin(meta))

    def toggle(self, meta: Meta, stream: str) -> _Toggle:
        return _Toggle(stream)

    def to_val(self, meta: Meta, result: str, *parts: object) -> slc.ToVal:
        first = parts[-1] == "[0]"
        stream = str(parts[-2 if first else -1])
        return slc.ToVal(result=result, stream=stream, vector=width_of(parts), first=first, origin=self.origin(meta))

    def to_val_of_splat(self, meta: Meta, result: str, splat: int, stream: str, first: str) -> slc.ToVal:
        return slc.ToVal(result=result, stream=stream, splat=splat, origin=self.origin(meta))


def _indices_of(parts: tuple[object, ...]) -> tuple[Atom, ...]:
    return next((tuple(part) for part in parts if isinstance(part, list)), ())
