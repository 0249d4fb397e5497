"""Reads the printed text of each IR back into an equal program: what `print_graph`, `print_kernel`, `print_scheduled`,
`print_slc`, `print_dlc` and `print_module` write. The origin of a node that was read is its own line in the text that
was read."""

from explorer.compiler.ir.parse.dlc import parse_dlc
from explorer.compiler.ir.parse.graph import parse_graph
from explorer.compiler.ir.parse.kernels import parse_scheduled
from explorer.compiler.ir.parse.loops import parse_kernel
from explorer.compiler.ir.parse.module import parse_module
from explorer.compiler.ir.parse.reader import ParseError
from explorer.compiler.ir.parse.slc import parse_slc

__all__ = ["ParseError", "parse_dlc", "parse_graph", "parse_kernel", "parse_module", "parse_scheduled", "parse_slc"]
