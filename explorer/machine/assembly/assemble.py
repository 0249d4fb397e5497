"""DLC to integer code for both units, and each core's part of it."""

from __future__ import annotations

import numpy as np

from explorer.compiler.ir.access import dlc
from explorer.machine.assembly.assemble_access import AccessAssembler
from explorer.machine.assembly.assemble_execute import ExecuteAssembler
from explorer.machine.assembly.assembly import ArrayRow, Assembly, AssemblyError, LoadRow, PushRow, StoreRow, table_of
from explorer.machine.assembly.binding import Binding, outputs
from explorer.machine.assembly.slices import slice_counter, slice_traversals


def assemble(program: dlc.DlcProgram, binding: Binding, cores: int = 1) -> Assembly:
    """The program's code for these sizes and so many cores.

    Raises AssemblyError for a program that the machine cannot run, and InputError for one that cores cannot share.
    """
    tokens = token_names(program)
    writer = ExecuteAssembler(binding)
    shapes = {buffer.name: binding.shape(buffer) for buffer in outputs(program)}
    numbers = {name: writer.array(name, shape, shared=True) for name, shape in shapes.items()}
    output_words = writer.words
    access = AccessAssembler(program, binding, tokens, numbers)
    slices = slice_traversals(program, access.known, cores)
    access.assemble(slices)
    counters = {
        writer.counter(counter.name, counter.start): slice_counter(program, counter, slices, cores)
        for counter in program.counters
    }
    cases = [writer.case(case) for case in program.execute]
    return Assembly(
        access_code=access.code.table,
        access_nodes=tuple(access.code.nodes),
        access_registers=np.array(access.registers.initial, np.int64),
        access_weights=access.code.weights,
        loads=table_of(LoadRow, access.loads),
        pushes=table_of(PushRow, access.pushes),
        push_nodes=tuple(access.push_nodes),
        stores=table_of(StoreRow, access.stores),
        inner=tuple(access.inner),
        buffers=np.array(access.buffers, np.int64).reshape(-1, 3),
        records=access.records(),
        iterations=sum(
            len(range(low, high, traversal.stride))
            for traversal in program.traversals(None)
            for low, high in slices[traversal.name]
        ),
        slices=access.slices,
        execute_code=writer.code.table,
        execute_nodes=tuple(writer.code.nodes),
        weights=writer.code.weights,
        x_registers=np.array(writer.x.initial, np.int64),
        f_registers=np.array(writer.f.initial, np.float32),
        counters=counters,
        cases=np.array([*cases, -1], np.int64),
        arrays=table_of(ArrayRow, writer.arrays),
        output_words=output_words,
        row_words=writer.words - output_words,
        outputs={name: (writer.arrays[number][0], shapes[name]) for name, number in numbers.items()},
        tokens=tuple(tokens),
    )


def token_names(program: dlc.DlcProgram) -> list[str]:
    """The tokens in the order of their cases, then `done`."""
    pushed = {statement.token for statement in program.access if isinstance(statement, dlc.Callback)}
    for case in program.execute:
        if case.token not in pushed:
            raise AssemblyError(f"no callback pushes the token {case.token}")
    return [*(case.token for case in program.execute), dlc.DONE]
