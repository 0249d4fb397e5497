"""Why a run cannot start or go on, as sentences."""

from __future__ import annotations

from explorer.compiler.ir import dlc, loops
from explorer.compiler.ir.node import Node
from explorer.machine import opcodes as op
from explorer.machine.access import AccessState
from explorer.machine.assembly import Assembly
from explorer.machine.execute import ExecuteState
from explorer.machine.interpreter import ACCESS, Machine
from explorer.machine.parameters import WORD_BYTES, MachineParameters


class QueueError(ValueError):
    """The queues cannot hold what the program pushes; the message is a sentence for the user."""


class MachineError(Exception):
    """A run that stopped at an instruction that it cannot do; the message is a sentence for the user."""


def check_queues(assembly: Assembly, parameters: MachineParameters) -> None:
    """Raises QueueError unless every record, all its operands and its token, fits into empty queues.

    With that, the run cannot deadlock: records are pushed whole or not at all.
    """
    capacity = parameters.queue_bytes
    if capacity < WORD_BYTES:
        raise QueueError(f"the data queue holds {capacity:,} bytes: it needs {WORD_BYTES} for one operand")
    if parameters.control_tokens < 1:
        raise QueueError("the control queue holds no token: it needs room for 1")
    for token in assembly.tokens:
        size = WORD_BYTES * len(token.types)
        if size > capacity:
            raise QueueError(
                f"the record of token {token.name} is {size:,} bytes; the data queue holds {capacity:,}: "
                "make the queue larger, or push fewer operands at once (a smaller dimension)"
            )


def fault(machine: Machine, assembly: Assembly, unit: int, why: int) -> MachineError:
    """What went wrong, where and with which number."""
    at: AccessState | ExecuteState = machine.access.state if unit == ACCESS else machine.execute.state
    nodes = assembly.access_nodes if unit == ACCESS else assembly.execute_nodes
    name = "access unit" if unit == ACCESS else "execute unit"
    reason = _reason(why, int(at.detail), int(at.limit))
    return MachineError(f"the {name} {reason}, at `{_statement(nodes[at.counter])}`")


def _reason(why: int, detail: int, limit: int) -> str:
    match why:
        case op.BAD_ADDRESS:
            return f"reaches for element {detail:,} of an array of {limit:,}"
        case op.BAD_INDEX:
            return f"uses index {detail:,} in a dimension of {limit:,}"
        case op.BAD_DIVISION:
            return "divides an index by zero"
        case op.TOO_WIDE:
            return f"pushes {detail:,}, which does not fit the data queue's 32 bits"
        case op.UNDERFLOW:
            return "pops an operand from an empty data queue"
    raise ValueError(f"no fault: {why}")


def _statement(node: Node) -> str:
    """The statement that an instruction is a part of, in short."""
    match node:
        case dlc.MemStream():
            return f"{node.result} = {node.traversal}.mem_str({node.buffer}, {node.index})"
        case dlc.AluStream():
            left, right = node.operands
            return f"{node.result} = {node.traversal}.alu_str('{loops.INFIX_INDEX[node.function]}', {left}, {right})"
        case dlc.PushOp():
            return f"push_op({node.stream}, {node.traversal}, {node.event})"
        case dlc.Pop():
            return f"{node.result} = dataQ.pop<{node.type}>()"
    return loops.print_statement(node)
