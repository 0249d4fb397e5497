"""A run of a program on the machine, in slices, core by core."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.ir.access.dlc import DlcProgram
from explorer.machine.account import account_of
from explorer.machine.assembly import opcodes as op
from explorer.machine.assembly.assemble import assemble
from explorer.machine.assembly.binding import bind
from explorer.machine.core.core import make_core
from explorer.machine.faults import MachineError, check_queues, fault
from explorer.machine.held import Held
from explorer.machine.memory.memory import make_memory, make_shared
from explorer.machine.parameters import WORD_BYTES, MachineParameters
from explorer.machine.spent import SpentCycles, spent_cycles
from explorer.machine.units.access import make_access
from explorer.machine.units.execute import make_execute
from explorer.machine.units.interpreter import Machine, advance
from explorer.machine.units.queues import make_queues

APART = 50.0
"""ns that a core's requests run ahead of another's: what they share, they share in nearly the order of time."""


class Simulation:
    """A program with its inputs on a machine; `advance` until it returns True, then read outputs and account.

    `core_alone` runs the clock of the core without an access unit beside it, over the same instructions.

    Making one raises InputError (inputs that do not fit), QueueError (a record that could never be pushed) or
    AssemblyError (a defect of the compiler).
    """

    def __init__(
        self,
        program: DlcProgram,
        inputs: Mapping[str, NDArray[Any]],
        parameters: MachineParameters,
        *,
        core_alone: bool = False,
    ) -> None:
        binding = bind(program, inputs)
        self.parameters = parameters
        self.assembly = assemble(program, binding, parameters.cores)
        self.image = binding.image
        self._program = program
        self._shapes = {name: np.shape(array) for name, array in inputs.items()}
        check_queues(program, self.assembly, parameters)
        self.machines = self._make_machines(core_alone)
        self._running = list(range(parameters.cores))
        self._fronts = [0.0] * parameters.cores

    def _make_machines(self, core_alone: bool) -> list[Machine]:
        """The cores before their first instruction, with their caches cold and the outputs zero."""
        assembly, parameters = self.assembly, self.parameters
        shared = make_shared(parameters)
        memory = np.zeros(assembly.output_words + parameters.cores * assembly.row_words, np.float32)
        return [
            Machine(
                make_access(assembly, self.image, parameters, core),
                make_execute(assembly, parameters, memory, core),
                make_queues(parameters),
                make_memory(parameters, shared),
                make_core(assembly, parameters, self.image.size, core_alone),
            )
            for core in range(parameters.cores)
        ]

    @property
    def finished(self) -> bool:
        """Whether all cores have popped `done`."""
        return not self._running

    @property
    def tokens(self) -> int:
        """That have been popped."""
        return sum(int(machine.queues.state.tokens_popped) for machine in self.machines)

    @property
    def progress(self) -> float:
        """The share of the outermost traversals' iterations that is done."""
        done = sum(int(machine.queues.state.triples) for machine in self.machines)
        return done / max(1, self.assembly.iterations)

    def advance(self, tokens: int) -> bool:
        """Runs until so many more tokens have been popped; True once the program is done.

        Raises MachineError for what an instruction cannot do, and QueueError for a deadlock.
        """
        while self._running and tokens > 0:
            first, *others = sorted(self._running, key=self._fronts.__getitem__)
            until = self._fronts[others[0]] + APART if others else math.inf
            tokens -= self._advance(first, tokens, until)
        return self.finished

    def _advance(self, core: int, tokens: int, until: float) -> int:
        """Runs one core; how many tokens it has popped."""
        machine = self.machines[core]
        popped = int(machine.queues.state.tokens_popped)
        unit, why = advance(machine, popped + tokens, until)
        if why == op.FINISHED:
            self._settle(machine)
            self._running.remove(core)
        elif why != op.REACHED:
            raise fault(machine, self.assembly, unit, why)
        self._fronts[core] = float(machine.access.state.front)
        return int(machine.queues.state.tokens_popped) - popped

    @staticmethod
    def _settle(machine: Machine) -> None:
        """All that was pushed must have been popped."""
        state = machine.queues.state
        left = int(state.words_pushed - state.words_popped)
        if left or state.tokens_pushed != state.tokens_popped:
            raise MachineError(f"{left:,} operands were pushed and never popped")

    @property
    def outputs(self) -> dict[str, NDArray[np.float32]]:
        """What was written, by name, each in its shape."""
        memory = self.machines[0].execute.memory
        return {
            name: memory[first : first + math.prod(shape)].reshape(shape).copy()
            for name, (first, shape) in self.assembly.outputs.items()
        }

    @property
    def nanoseconds(self) -> float:
        """Until all units have stopped and the memory has taken what was written."""
        ends = [max(machine.access.state.back, machine.execute.state.now) for machine in self.machines]
        return float(max([*ends, self.machines[0].memory.shared.channel.free]))

    def cycles(self, nanoseconds: float) -> float:
        """A time in core cycles."""
        return float(nanoseconds) * self.parameters.core_ghz

    def account(self) -> dict[str, Any]:
        """Cycles (all of the core's clock), pushes, pops, bytes, lines: everything that was counted."""
        return account_of(self.machines, self.assembly, self.parameters, self.nanoseconds)

    def spent(self) -> SpentCycles:
        """What the cycles went to; of a run that is finished."""
        return spent_cycles(self.machines, self.assembly, self.nanoseconds, self.parameters.core_ghz)

    def watch(self, records: int) -> list[dict[str, Any]]:
        """Runs the first core a token at a time for so many records at most, and tells what each was: token, cycles at
        which it was pushed and popped, operands, the rows and elements of arrays that these are, and where in the
        data those are from.

        For the start of a run. A record can be read once it is popped: its slots are not filled anew before the
        access unit runs again.
        """
        watched: list[dict[str, Any]] = []
        held = Held(self._program, self.assembly, self._shapes)
        while 0 in self._running and len(watched) < records:
            self._advance(0, 1, math.inf)
            machine = self.machines[0]
            found = held.since(machine.access)
            watched.append(self._last_popped(machine) | {"held": list(found), "sources": list(found.values())})
        return watched

    def _last_popped(self, machine: Machine) -> dict[str, Any]:
        ring = machine.queues
        slot = ring.tokens[(ring.state.tokens_popped - 1) % ring.tokens.size]
        count = int(slot.words)
        words = [(int(ring.state.words_popped) - count + at) % ring.words.size for at in range(count)]
        return {
            "token": self.assembly.tokens[slot.token],
            "cycle": self.cycles(slot.filled),
            "popped": self.cycles(slot.freed),
            "bytes": WORD_BYTES * count,
            "values": [plain(float(ring.floats[w])) if ring.kinds[w] else int(ring.words[w]) for w in words],
        }


def plain(value: float) -> float | str:
    """A number as JSON knows it: infinities and NaN become text."""
    return value if math.isfinite(value) else str(value)
