"""What SLC means: the access unit's loops and streams with the execute unit's callbacks, run in program order."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.compiler.interpret.functions import INDEX_FUNCTIONS, Number
from explorer.compiler.interpret.loops import Environment, Outputs, bind, execute, number
from explorer.compiler.ir import slc
from explorer.compiler.ir.node import Atom


def run_slc(program: slc.SlcProgram, inputs: Mapping[str, Number]) -> Outputs:
    """The program's outputs by name, float32. The two units see each other's values only through `to_val`."""
    values, outputs = bind(program.sizes, program.buffers, inputs)
    _run(program.body, dict(values), values)
    return {name: values[name] for name in outputs}


def _run(items: tuple[slc.Item, ...], streams: Environment, values: Environment) -> None:
    for item in items:
        match item:
            case slc.SlcFor():
                for position in range(number(item.lower, streams), number(item.extent, streams)):
                    streams[item.stream] = position
                    _run(item.body, streams, values)
            case slc.MemStream():
                at = tuple(_index(atom, streams) for atom in item.indices)
                streams[item.result] = streams[item.buffer][at]
            case slc.AluStream():
                left, right = (_index(atom, streams) for atom in item.operands)
                streams[item.result] = INDEX_FUNCTIONS[item.function](left, right)
            case slc.Callback():
                for statement in item.body:
                    if isinstance(statement, slc.ToVal):
                        values[statement.result] = streams[statement.stream]
                    else:
                        execute(statement, values)


def _index(atom: Atom, streams: Environment) -> int:
    return int(streams[atom]) if isinstance(atom, str) else int(atom)
