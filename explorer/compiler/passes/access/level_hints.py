"""Tells the caches what is worth keeping (Ember §7.4): where a load looks first, and whether it leaves the line there.

What is gathered by a loaded index, rows or blocks, may be gathered again soon: it is looked for in L2. What a loop
reads from its beginning to its end, such as the indices themselves, is read once: it need not be kept. The option is
for inputs with reuse, as block-sparse attention has it; the compiler cannot see the reuse itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.compiler.ir.access import slc
from explorer.compiler.ir.module import each_program
from explorer.compiler.ir.node import rewrite, walk
from explorer.compiler.report import Report


@each_program
def level_hints(program: slc.SlcProgram, report: Report) -> slc.SlcProgram:
    """The program with a hint at each load that it knows something of, if the option asks for it."""
    if not report.options.level_hints:
        return program
    loaded = _loaded(program)
    positions = {node.stream for node in walk(program) if isinstance(node, slc.SlcFor)}
    loads = [node.buffer for node in walk(program) if isinstance(node, slc.MemStream)]

    def hint(node: Any) -> Any:
        if not isinstance(node, slc.MemStream):
            return node
        if loaded.intersection(map(str, node.indices)):
            report.did(f"{program.name}: {node.buffer} is gathered, and looked for in L2")
            return replace(node, level="L2")
        if loads.count(node.buffer) == 1 and len(node.indices) == 1 and node.indices[0] in positions:
            report.did(f"{program.name}: {node.buffer} is read once, and not kept")
            return replace(node, temporal=False)
        return node

    return rewrite(program, hint)


def _loaded(program: slc.SlcProgram) -> set[str]:
    """The streams that depend on what was loaded."""
    found: set[str] = set()
    for node in walk(program):
        match node:
            case slc.MemStream():
                found.add(node.result)
            case slc.AluStream() if found.intersection(map(str, node.operands)):
                found.add(node.result)
    return found
