"""Reads a printed kernel of the loops."""

from __future__ import annotations

from lark import v_args
from lark.tree import Meta

from explorer.compiler.ir import loops
from explorer.compiler.ir.parse.reader import read
from explorer.compiler.ir.parse.statements import StatementBuilder, buffers_of, sizes_of, statements_of


def parse_kernel(text: str) -> loops.Kernel:
    """The kernel whose printed text this is; raises ParseError for a text that is none."""
    parsed: loops.Kernel = read("loops", text, _KernelBuilder(text))
    return parsed


@v_args(inline=True, meta=True)
class _KernelBuilder(StatementBuilder):
    def program(self, meta: Meta, name: str, template: str, *parts: object) -> loops.Kernel:
        return loops.Kernel(
            name=name,
            template=template,
            sizes=sizes_of(parts),
            buffers=buffers_of(parts),
            body=statements_of(parts),
            origin=self.origin(meta),
        )
