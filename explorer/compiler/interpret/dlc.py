"""What DLC means: an access unit that fills two queues, and an execute unit that empties them.

The queues are unbounded here; the machine bounds them. The access unit runs ahead by one event at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from explorer.compiler.interpret.functions import INDEX_FUNCTIONS, Number
from explorer.compiler.interpret.loops import Environment, Outputs, bind, execute, number
from explorer.compiler.ir import dlc
from explorer.compiler.ir.node import Atom


@dataclass
class Queues:
    """What has been pushed and not yet popped."""

    control: deque[str] = field(default_factory=deque)
    data: deque[Any] = field(default_factory=deque)


def run_dlc(program: dlc.DlcProgram, inputs: Mapping[str, Number]) -> Outputs:
    """The program's outputs by name, float32; raises RuntimeError if something is left in a queue."""
    values, outputs = bind(program.sizes, program.buffers, inputs)
    queues = Queues()
    cases = {case.token: case for case in program.execute}
    for _ in _access(program, dict(values), queues):
        token = queues.control.popleft()
        if token != dlc.DONE:
            _execute(cases[token], queues, values)
    if queues.control or queues.data:
        raise RuntimeError(f"{len(queues.control)} tokens and {len(queues.data)} operands were never popped")
    return {name: values[name] for name in outputs}


def pushed(program: dlc.DlcProgram, inputs: Mapping[str, Number], tokens: int) -> list[tuple[str, tuple[Number, ...]]]:
    """The first tokens that the access unit pushes, each with its operands: what the queues hold, in order."""
    values, _ = bind(program.sizes, program.buffers, inputs)
    queues = Queues()
    records = []
    for _ in islice(_access(program, values, queues), tokens):
        records.append((queues.control.popleft(), tuple(queues.data)))
        queues.data.clear()
    return records


def _access(program: dlc.DlcProgram, streams: Environment, queues: Queues) -> Iterator[None]:
    """Runs the access unit, stopping after each token that it pushes."""
    for root in program.traversals(None):
        yield from _traverse(program, root, streams, queues)
    queues.control.append(dlc.DONE)
    yield


def _traverse(
    program: dlc.DlcProgram, traversal: dlc.Traversal, streams: Environment, queues: Queues
) -> Iterator[None]:
    own, inner = program.streams(traversal.name), program.traversals(traversal.name)
    yield from _fire(program, traversal.name, "beg", streams, queues)
    for position in range(_index(traversal.lower, streams), number(traversal.upper, streams), traversal.stride):
        streams[f"{traversal.name}.ite"] = position
        for stream in own:
            _evaluate(stream, streams)
        yield from _fire(program, traversal.name, "ite", streams, queues)
        for child in inner:
            yield from _traverse(program, child, streams, queues)
    yield from _fire(program, traversal.name, "end", streams, queues)


def _evaluate(stream: dlc.MemStream | dlc.AluStream, streams: Environment) -> None:
    if isinstance(stream, dlc.MemStream):
        streams[stream.result] = streams[stream.buffer].reshape(-1)[_index(stream.index, streams)]
    else:
        left, right = (_index(atom, streams) for atom in stream.operands)
        streams[stream.result] = INDEX_FUNCTIONS[stream.function](left, right)


def _fire(
    program: dlc.DlcProgram, traversal: str, event: dlc.Event, streams: Environment, queues: Queues
) -> Iterator[None]:
    token = program.token(traversal, event)
    if token is None:
        return
    for push in program.pushes(traversal, event):
        queues.data.append(streams[push.stream])
    queues.control.append(token)
    yield


def _execute(case: dlc.Case, queues: Queues, values: Environment) -> None:
    for statement in case.body:
        if isinstance(statement, dlc.Pop):
            value = queues.data.popleft()
            values[statement.result] = np.float32(value) if statement.type == "f32" else int(value)
        else:
            execute(statement, values)


def _index(atom: Atom, streams: Environment) -> int:
    return int(streams[atom]) if isinstance(atom, str) else int(atom)
