"""Reads a printed SLC program."""

from __future__ import annotations

from lark import v_args
from lark.tree import Meta

from explorer.compiler.ir import loops, slc
from explorer.compiler.ir.node import Atom, Extent
from explorer.compiler.ir.parse.reader import read
from explorer.compiler.ir.parse.statements import INDEX_FUNCTIONS, StatementBuilder, buffers_of, note_of, sizes_of


def parse_slc(text: str) -> slc.SlcProgram:
    """The SLC program whose printed text this is; raises ParseError for a text that is none."""
    parsed: slc.SlcProgram = read("slc", text, _SlcBuilder(text))
    return parsed


def _items_of(parts: tuple[object, ...]) -> tuple[slc.Item, ...]:
    return tuple(part for part in parts if isinstance(part, slc.Item))


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

    def slc_for(self, meta: Meta, stream: str, lower: Extent, extent: Extent, *rest: object) -> slc.SlcFor:
        return slc.SlcFor(
            stream=stream,
            lower=lower,
            extent=extent,
            body=_items_of(rest),
            note=note_of(rest),
            origin=self.origin(meta),
        )

    def mem_stream(self, meta: Meta, result: str, buffer: str, indices: tuple[Atom, ...] = ()) -> slc.MemStream:
        return slc.MemStream(result=result, buffer=buffer, indices=indices, origin=self.origin(meta))

    def alu_stream(self, meta: Meta, result: str, sign: str, left: Atom, right: Atom) -> slc.AluStream:
        return slc.AluStream(
            result=result, function=INDEX_FUNCTIONS[sign], operands=(left, right), origin=self.origin(meta)
        )

    def stream_indices(self, meta: Meta, *indices: Atom) -> tuple[Atom, ...]:
        return indices

    def callback(self, meta: Meta, *body: slc.ToVal | loops.Statement) -> slc.Callback:
        return slc.Callback(body=body, origin=self.origin(meta))

    def to_val(self, meta: Meta, result: str, stream: str) -> slc.ToVal:
        return slc.ToVal(result=result, stream=stream, origin=self.origin(meta))
