"""The account of a run: what the units did with their time, and everything that was counted.

Of several cores, times are means and counts are sums; the cycles of the whole run are those of the last to stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.machine.assembly import opcodes as op
from explorer.machine.assembly.assembly import Assembly
from explorer.machine.assembly.costs import CLASSES, class_cycles
from explorer.machine.parameters import LINE_BYTES, WORD_BYTES, MachineParameters
from explorer.machine.units.interpreter import Machine

TIMES = frozenset({"cycles", "busy", "queue_full", "queue_empty", "storage", "mshrs", "memory", "starts"})
ALIKE = frozenset({"capacity", "capacity_bytes"})
PEAKS = frozenset({"peak", "peak_bytes"})


def account_of(
    machines: Sequence[Machine], assembly: Assembly, parameters: MachineParameters, nanoseconds: float
) -> dict[str, Any]:
    """The account of all cores together, and of each where there are several."""
    cores = [_core_account(machine, assembly, parameters) for machine in machines]
    whole = {
        "cycles": nanoseconds * parameters.core_ghz,
        "microseconds": nanoseconds / 1000,
        "source": "simulated",
        "machine": parameters.describe(),
        **_together(cores),
    }
    return whole | ({"cores": cores} if len(cores) > 1 else {})


def _together(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means of times, sums of counts, the largest of the peaks."""
    both: dict[str, Any] = {}
    for key, value in parts[0].items():
        values = [part[key] for part in parts]
        if isinstance(value, dict):
            both[key] = _together(values)
        elif key in TIMES:
            both[key] = sum(values) / len(values)
        elif key in ALIKE:
            both[key] = value
        else:
            both[key] = max(values) if key in PEAKS else sum(values)
    return both


def _core_account(machine: Machine, assembly: Assembly, parameters: MachineParameters) -> dict[str, Any]:
    return {
        "access": _access(machine, assembly, parameters),
        "execute": _execute(machine, assembly, parameters),
        "queues": _queues(machine, parameters),
        "memory": _memory(machine),
        "tokens": _tokens(machine, assembly),
    }


def _access(machine: Machine, assembly: Assembly, parameters: MachineParameters) -> dict[str, Any]:
    state, ghz = machine.access.state, parameters.core_ghz
    counts = _by_opcode(machine, assembly)
    stalls = {
        "queue_full": state.wait_queue,
        "storage": state.wait_storage,
        "mshrs": state.wait_mshrs,
        "memory": state.wait_memory,
    }
    payload, stored = payload_words(machine, assembly)
    return {
        "cycles": float(state.back) * ghz,
        "busy": float(state.marshalled + state.fronted) * ghz,
        "stalls": {cause: float(time) * ghz for cause, time in stalls.items()},
        "traversals": counts.get(op.ENTER, 0),
        "evaluations": sum(counts.get(code, 0) for code in (op.LOAD, *op.STREAM_FUNCTIONS.values())),
        "loads": counts.get(op.LOAD, 0),
        "payload_bytes": WORD_BYTES * payload,
        "stored_bytes": WORD_BYTES * stored,
    }


def _by_opcode(machine: Machine, assembly: Assembly) -> dict[int, int]:
    counts: dict[int, int] = {}
    for at, executed in enumerate(machine.access.executed):
        code = int(assembly.access_code[at].opcode)
        counts[code] = counts.get(code, 0) + int(executed)
    return counts


def payload_words(machine: Machine, assembly: Assembly) -> tuple[int, int]:
    """The f32 words that were pushed, without those repeated for alignment, and those that the access unit stored."""
    pushed = stored = 0
    for at, executed in enumerate(machine.access.executed):
        code = assembly.access_code[at]
        if code.opcode == op.PUSH:
            rows = [assembly.pushes[number] for number in range(code.a, code.a + code.b)]
            pushed += int(executed) * sum(int(row.words) if row.stride else 1 for row in rows if row.kind)
        elif code.opcode == op.STORE:
            stored += int(executed) * int(assembly.stores[code.a].words)
    return pushed, stored


def _execute(machine: Machine, assembly: Assembly, parameters: MachineParameters) -> dict[str, Any]:
    state, ghz = machine.execute.state, parameters.core_ghz
    counts = dict(zip(CLASSES, class_counts(machine, assembly), strict=True))
    cycles = dict(zip(CLASSES, class_cycles(parameters), strict=True))
    return {
        "cycles": float(state.now) * ghz,
        "busy": float(state.now - state.wait_queue) * ghz,
        "stalls": {"queue_empty": float(state.wait_queue) * ghz},
        "instructions": int(machine.execute.executed.sum()),
        "costs": {name: {"count": counts[name], "total_cycles": counts[name] * cycles[name]} for name in CLASSES},
    }


def class_counts(machine: Machine, assembly: Assembly) -> list[float]:
    """How many of each class of costs the execute unit has done."""
    executed = machine.execute.executed[: len(assembly.weights)]  # a program may leave nothing to execute
    counts: list[float] = (executed @ assembly.weights).tolist()
    counts[CLASSES.index("token")] += int(machine.queues.state.tokens_popped)
    counts[CLASSES.index("misaligned")] += int(machine.execute.state.misaligned)
    counts[CLASSES.index("traversal")] += int(machine.execute.state.turns)
    return counts


def _queues(machine: Machine, parameters: MachineParameters) -> dict[str, Any]:
    state = machine.queues.state
    return {
        "control": {
            "pushes": int(state.tokens_pushed),
            "pops": int(state.tokens_popped),
            "peak": int(state.tokens_peak),
            "capacity": parameters.control_tokens,
        },
        "data": {
            "pushes": int(state.words_pushed),
            "pops": int(state.words_popped),
            "bytes_pushed": WORD_BYTES * int(state.words_pushed),
            "bytes_popped": WORD_BYTES * int(state.words_popped),
            "peak_bytes": WORD_BYTES * int(state.words_peak),
            "capacity_bytes": parameters.queue_bytes,
        },
    }


def _memory(machine: Machine) -> dict[str, Any]:
    state = machine.memory.state
    lines = int(state.misses + 2 * state.core_misses + state.stored)
    return {
        "requests": int(state.requests),
        "l2_lookups": int(state.l2_lookups),
        "l2_hits": int(state.l2_hits),
        "llc_lookups": int(state.llc_lookups),
        "llc_hits": int(state.llc_hits),
        "misses": int(state.misses),
        "output_lookups": int(state.core_lookups),
        "output_misses": int(state.core_misses),
        "lines_stored": int(state.stored),
        "hbm_bytes": LINE_BYTES * lines,
    }


def _tokens(machine: Machine, assembly: Assembly) -> dict[str, int]:
    """How often each token was pushed."""
    counts = dict.fromkeys(assembly.tokens, 0)
    for at, executed in enumerate(machine.access.executed):
        code = assembly.access_code[at]
        if code.opcode == op.TOKEN:
            counts[assembly.tokens[code.a]] += int(executed)
    return counts
