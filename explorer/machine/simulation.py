"""A run of a program on the machine, in slices, and its account."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.ir.dlc import DlcProgram
from explorer.machine import opcodes as op
from explorer.machine.access import make_access
from explorer.machine.assemble import assemble
from explorer.machine.binding import bind
from explorer.machine.execute import make_execute
from explorer.machine.faults import MachineError, check_queues, fault
from explorer.machine.interpreter import Machine, advance
from explorer.machine.memory import make_memory
from explorer.machine.parameters import LINE_BYTES, WORD_BYTES, MachineParameters
from explorer.machine.queues import make_queues


class Simulation:
    """A program with its inputs on a machine; `advance` until it returns True, then read output and account.

    Making one raises InputError (inputs that do not fit), QueueError (a record that could never be pushed) or
    AssemblyError (a defect of the compiler).
    """

    def __init__(self, program: DlcProgram, inputs: Mapping[str, NDArray[Any]], parameters: MachineParameters) -> None:
        binding = bind(program, inputs)
        self.parameters = parameters
        self.assembly = assemble(program, binding)
        check_queues(self.assembly, parameters)
        self.finished = False
        self.machine = Machine(
            make_access(self.assembly, binding.image, parameters),
            make_execute(self.assembly, parameters),
            make_queues(parameters),
            make_memory(parameters),
        )

    def advance(self, tokens: int) -> bool:
        """Runs until so many more tokens have been popped; True once the program is done. Raises MachineError."""
        if self.finished:
            return True
        popped = int(self.machine.queues.state.tokens_popped)
        unit, why = advance(self.machine, popped + tokens)
        if why == op.REACHED:
            return False
        if why != op.FINISHED:
            raise fault(self.machine, self.assembly, unit, why)
        self._settle()
        self.finished = True
        return True

    def _settle(self) -> None:
        """All that was pushed must have been popped."""
        state = self.machine.queues.state
        left = int(state.words_pushed - state.words_popped)
        if left or state.tokens_pushed != state.tokens_popped:
            raise MachineError(f"{left:,} operands were pushed and never popped")

    @property
    def outputs(self) -> dict[str, NDArray[np.float32]]:
        """What the execute unit has written, by name, each in its shape."""
        memory = self.machine.execute.memory
        return {
            name: memory[first : first + math.prod(shape)].reshape(shape).copy()
            for name, (first, shape) in self.assembly.outputs.items()
        }

    @property
    def nanoseconds(self) -> float:
        """Until both units have stopped."""
        return float(max(self.machine.access.state.back, self.machine.execute.state.now))

    def cycles(self, nanoseconds: float) -> float:
        """A time in core cycles."""
        return float(nanoseconds) * self.parameters.core_ghz

    def account(self) -> dict[str, Any]:
        """Cycles (all of the core's clock), pushes, pops, bytes, lines: everything that was counted."""
        return {
            "cycles": self.cycles(self.nanoseconds),
            "microseconds": self.nanoseconds / 1000,
            "machine": self.parameters.describe(),
            "access": self._access_account(),
            "execute": self._execute_account(),
            "queues": self._queue_account(),
            "memory": self._memory_account(),
        }

    def _access_account(self) -> dict[str, Any]:
        state = self.machine.access.state
        whole, busy = state.back, max(state.evaluated, state.marshalled)
        queue_full = min(state.wait_queue, whole - busy)
        return {
            "cycles": self.cycles(whole),
            "busy": self.cycles(busy),
            "stalls": {
                "queue_full": self.cycles(queue_full),
                "memory": self.cycles(whole - busy - queue_full),
            },
            "evaluations": int(state.evaluations),
            "loads": int(state.loads),
        }

    def _execute_account(self) -> dict[str, Any]:
        state = self.machine.execute.state
        return {
            "cycles": self.cycles(state.now),
            "busy": self.cycles(state.busy),
            "stalls": {"queue_empty": self.cycles(state.wait_queue)},
            "instructions": int(state.instructions),
        }

    def _queue_account(self) -> dict[str, Any]:
        state = self.machine.queues.state
        return {
            "control": {
                "pushes": int(state.tokens_pushed),
                "pops": int(state.tokens_popped),
                "peak": int(state.tokens_peak),
                "capacity": self.parameters.control_tokens,
            },
            "data": {
                "pushes": int(state.words_pushed),
                "pops": int(state.words_popped),
                "bytes_pushed": WORD_BYTES * int(state.words_pushed),
                "bytes_popped": WORD_BYTES * int(state.words_popped),
                "peak_bytes": WORD_BYTES * int(state.words_peak),
                "capacity_bytes": self.parameters.queue_bytes,
            },
        }

    def _memory_account(self) -> dict[str, Any]:
        state = self.machine.memory.state
        return {
            "requests": int(state.requests),
            "l2_hits": int(state.l2_hits),
            "llc_hits": int(state.llc_hits),
            "misses": int(state.misses),
            "hbm_bytes": LINE_BYTES * int(state.misses),
        }

    def watch(self, records: int) -> list[dict[str, Any]]:
        """Runs one token at a time for so many records at most, and tells what each was: token, cycle, operands.

        For the start of a run. A record can be read once it is popped: its slots are not filled anew before the
        access unit runs again.
        """
        watched: list[dict[str, Any]] = []
        finished = False
        while not finished and len(watched) < records:
            finished = self.advance(1)
            watched.append(self._last_popped())
        return watched

    def _last_popped(self) -> dict[str, Any]:
        ring = self.machine.queues
        slot = ring.tokens[(ring.state.tokens_popped - 1) % ring.tokens.size]
        token = self.assembly.tokens[slot.token]
        first = int(ring.state.words_popped) - len(token.types)
        words = [(first + at) % ring.words.size for at in range(len(token.types))]
        values = [
            int(ring.words[word]) if kind == "i32" else plain(float(ring.floats[word]))
            for word, kind in zip(words, token.types, strict=True)
        ]
        return {
            "token": token.name,
            "cycle": self.cycles(slot.filled),
            "values": values,
        }


def plain(value: float) -> float | str:
    """A number as JSON knows it: infinities and NaN become text."""
    return value if math.isfinite(value) else str(value)
