"""DLC to integer code for both units."""

from __future__ import annotations

import numpy as np

from explorer.compiler.ir import dlc
from explorer.machine.assemble_access import AccessAssembler
from explorer.machine.assemble_execute import ExecuteAssembler
from explorer.machine.assembly import Assembly, AssemblyError, Token
from explorer.machine.binding import Binding, outputs


def assemble(program: dlc.DlcProgram, binding: Binding) -> Assembly:
    """The program's code for these sizes. Raises AssemblyError for a program that the machine cannot run."""
    tokens = token_table(program)
    access = AccessAssembler(program, binding, [token.name for token in tokens])
    access.assemble()
    execute = ExecuteAssembler(binding)
    written = list(outputs(program))
    if len(written) != 1:
        raise AssemblyError(f"a program writes one output, but this one has {len(written)}")
    output_array = execute.array(written[0].name, binding.shape(written[0]))
    cases = [execute.case(case) for case in program.execute]
    return Assembly(
        access_code=access.code.table,
        access_nodes=tuple(access.code.nodes),
        access_registers=np.array(access.registers.initial, np.int64),
        operands=np.array(access.operands, np.int64),
        buffers=np.array(access.buffers, np.int64).reshape(-1, 2),
        loads=access.loads,
        records=access.records(),
        execute_code=execute.code.table,
        execute_nodes=tuple(execute.code.nodes),
        x_registers=np.array(execute.x.initial, np.int64),
        f_registers=np.array(execute.f.initial, np.float32),
        cases=np.array([*cases, -1], np.int64),
        arrays=np.array(execute.places, np.int64).reshape(-1, 2),
        memory_words=execute.words,
        output=written[0].name,
        output_place=(execute.places[output_array][0], binding.shape(written[0])),
        tokens=tokens,
    )


def token_table(program: dlc.DlcProgram) -> tuple[Token, ...]:
    """The tokens in the order of their cases, then `done`."""
    types = {statement.name + ".ite": "i32" for statement in program.access if isinstance(statement, dlc.Traversal)}
    kinds = {buffer.name: buffer.type for buffer in program.buffers}
    events = {}
    for statement in program.access:
        match statement:
            case dlc.MemStream():
                types[statement.result] = kinds[statement.buffer]
            case dlc.AluStream():
                types[statement.result] = "i32"
            case dlc.Callback():
                events[statement.token] = (statement.traversal, statement.event)
    table = []
    for case in program.execute:
        if case.token not in events:
            raise AssemblyError(f"no callback pushes the token {case.token}")
        pushes = program.pushes(*events[case.token])
        table.append(Token(case.token, tuple(types[push.stream] for push in pushes)))
    return (*table, Token(dlc.DONE, ()))
