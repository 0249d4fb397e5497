"""What the cycles of a run went to: by operation of the model, on either unit, found from the instructions' origins.

Each unit's clock advances at an instruction, or at a token that it takes, and is counted there. What an event pushes is
pushed together counts for each operand by its words, and what is waited for, for the operand that comes last. Tokens,
with the branches that go another way than before, are what decoupling costs, and no operation's. Of several cores,
times are means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from explorer.compiler.ir.node import Made, Node, Span
from explorer.machine.assembly import opcodes as op
from explorer.machine.assembly.assembly import Assembly
from explorer.machine.units.interpreter import Machine

Whose = Span | Made | None
"""An operation of the text, what a pass made, or neither."""

WAITING = "waits for the other"
Key = TypeVar("Key")

TOKENS = "tokens and ends of loops"
AFTER = "has ended"
UNITS = 2


@dataclass(frozen=True)
class SpentCycles:
    """Core cycles of the access and of the execute unit: by whose they are, and what was no work of any. All of a unit
    together are the cycles of the run."""

    by_operation: dict[Whose, tuple[float, float]]
    rest: dict[str, tuple[float, float]]


def spent_cycles(machines: Sequence[Machine], assembly: Assembly, nanoseconds: float, core_ghz: float) -> SpentCycles:
    """What a program that has run to its end has spent, of so many nanoseconds."""
    cycles = core_ghz / len(machines)
    found: dict[Whose, list[float]] = {}
    waited, after, tokens = [0.0] * UNITS, [0.0] * UNITS, 0.0
    for machine in machines:
        access, execute = machine.access.state, machine.execute.state
        for unit, parts in enumerate((_of_access(machine, assembly), _of_execute(machine, assembly))):
            for node, time in parts:
                whose = node.origin[0] if node.origin else None
                found.setdefault(whose, [0.0] * UNITS)[unit] += cycles * time
        tokens += cycles * float(machine.execute.tokens_taken.sum())
        for unit, (end, wait) in enumerate(((access.back, access.wait_queue), (execute.now, execute.wait_queue))):
            waited[unit] += cycles * float(wait)
            after[unit] += cycles * (nanoseconds - float(end))
    return SpentCycles(
        {whose: (times[0], times[1]) for whose, times in found.items() if any(times)},
        {TOKENS: (0.0, tokens), WAITING: (waited[0], waited[1]), AFTER: (after[0], after[1])},
    )


Part = tuple[Node, float]


def _of_access(machine: Machine, assembly: Assembly) -> Iterator[Part]:
    """In ns, what the back has spent on each instruction."""
    for at, node in enumerate(assembly.access_nodes):
        if assembly.access_code[at].opcode != op.PUSH:
            yield node, float(machine.access.taken[at])
    for number, node in enumerate(assembly.push_nodes):
        yield node, float(machine.access.pushed[number])


def _of_execute(machine: Machine, assembly: Assembly) -> Iterator[Part]:
    """In ns, what its instructions have taken."""
    for at, node in enumerate(assembly.execute_nodes):
        yield node, float(machine.execute.taken[at])


def together(parts: Sequence[SpentCycles]) -> SpentCycles:
    """What programs that ran one after another have spent."""
    return SpentCycles(*(_summed([part.by_operation for part in parts]), _summed([part.rest for part in parts])))


def _summed(parts: Sequence[dict[Key, tuple[float, float]]]) -> dict[Key, tuple[float, float]]:
    keys = dict.fromkeys(key for part in parts for key in part)
    pairs = {key: [part.get(key, (0.0, 0.0)) for part in parts] for key in keys}
    return {key: (sum(pair[0] for pair in found), sum(pair[1] for pair in found)) for key, found in pairs.items()}
