"""Why a run cannot start or go on, as sentences."""

from __future__ import annotations

from explorer.compiler.ir.access import dlc, execute
from explorer.compiler.ir.node import Node
from explorer.machine.assembly import opcodes as op
from explorer.machine.assembly.assembly import Assembly
from explorer.machine.parameters import WORD_BYTES, MachineParameters
from explorer.machine.units.access import AccessState
from explorer.machine.units.execute import ExecuteState
from explorer.machine.units.interpreter import ACCESS, Machine


class QueueError(ValueError):
    """The queues cannot hold what the program pushes; the message is a sentence for the user."""


class MachineError(Exception):
    """A run that stopped at an instruction that it cannot do; the message is a sentence for the user."""


def check_queues(program: dlc.DlcProgram, assembly: Assembly, parameters: MachineParameters) -> None:
    """Raises QueueError unless empty queues hold a token and what each event pushes at once.

    A record that events push in turn, a buffered one, is found to be too large when the queue is full of it.
    """
    capacity = parameters.queue_bytes
    if capacity < WORD_BYTES:
        raise QueueError(f"the data queue holds {capacity:,} bytes: it needs {WORD_BYTES} for one operand")
    if parameters.control_tokens < 1:
        raise QueueError("the control queue holds no token: it needs room for 1")
    callbacks = {(s.traversal, s.event): s.token for s in program.access if isinstance(s, dlc.Callback)}
    for at, node in enumerate(assembly.access_nodes):
        code = assembly.access_code[at]
        if code.opcode != op.PUSH or not isinstance(node, dlc.PushOp):
            continue
        size = WORD_BYTES * sum(assembly.pushes[number].words for number in range(code.a, code.a + code.b))
        if size > capacity:
            token = callbacks.get((node.traversal, node.event))
            what = f"the record of token {token}" if token else f"what {node.traversal} pushes at {node.event}"
            raise QueueError(f"{what} is {size:,} bytes; the data queue holds {capacity:,}: {ADVICE}")


ADVICE = "make the queue larger, or push fewer operands at once (a smaller dimension, or a lower level)"


def fault(machine: Machine, assembly: Assembly, unit: int, why: int) -> MachineError | QueueError:
    """What went wrong, where and with which number."""
    at: AccessState | ExecuteState = machine.access.state if unit == ACCESS else machine.execute.state
    nodes = assembly.access_nodes if unit == ACCESS else assembly.execute_nodes
    place = _statement(nodes[at.counter])
    if why == op.DEADLOCK:
        have, capacity = WORD_BYTES * int(at.detail), WORD_BYTES * int(at.limit)
        return QueueError(
            f"the machine is in deadlock at `{place}`: the record would be {have:,} bytes or more and the data queue "
            f"holds {capacity:,}; the access unit waits for room, and the execute unit for the record's token: {ADVICE}"
        )
    name = "access unit" if unit == ACCESS else "execute unit"
    return MachineError(f"the {name} {_reason(why, int(at.detail), int(at.limit))}, at `{place}`")


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
    if isinstance(node, dlc.AccessStatement):
        return dlc.print_access(node)
    if isinstance(node, dlc.Pop):
        return f"{node.result} = dataQ.pop<{node.type}>()"
    return execute.print_head(node)
