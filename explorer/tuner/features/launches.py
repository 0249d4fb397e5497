"""Features of launches: what each takes of the GPU by NVRTC's own figures, and what its machine code is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.compiler.codegen.binary.instructions import Instructions, read_instructions
from explorer.compiler.codegen.resources import Resources, occupancy
from explorer.compiler.codegen.text import Code, Launch
from explorer.compiler.target import TARGETS

KINDS: Mapping[str, tuple[str, ...]] = {
    "global_loads": ("LDG",),
    "copies": ("LDGSTS",),
    "shared_loads": ("LDS",),
    "shared_stores": ("STS",),
    "global_stores": ("STG",),
    "atomics": ("REDG", "ATOMG", "ATOMS"),
    "local": ("LDL", "STL"),
    "shuffles": ("SHFL",),
    "multiply_adds": ("FFMA",),
    "floats": ("FADD", "FMUL", "FMNMX", "FSEL", "FSETP"),
    "roots": ("MUFU",),
    "tensor_cores": ("HMMA",),
    "integers": ("IMAD", "IADD3", "LEA", "LOP3", "SHF", "ISETP", "VIADD", "VIADDMNMX", "VIMNMX", "SEL", "MOV", "CS2R"),
    "barriers": ("BAR", "WARPSYNC"),
    "branches": ("BRA", "BSSY", "BSYNC", "CALL"),
}
"""The mix of instructions, by the names of operations."""
LAUNCHED = ("once", "blocks", "columns", "threads", "warps", "registers", "shared_bytes", "stack_bytes")
FITTING = ("spill_stores", "spill_loads", "occupancy", "resident_blocks", "waves", "tail")
CODE = ("instructions", "loops", "depth", "cycles", "load_bytes", "store_bytes")
INNER = ("inner_instructions", "inner_cycles", "inner_load_bytes", "inner_copied_bytes")
NAMES = (*LAUNCHED, *FITTING, *CODE, *KINDS, *INNER, *(f"inner_{kind}" for kind in KINDS))
"""What each number of a launch is. `blocks` is the grid's first extent and `columns` its second; `occupancy` is that of
the most warps an SM, `waves` how often all SMs are filled, `tail` the share of them that the last wave leaves idle;
`cycles` are the stalls that the code's control bits say, each instruction once; the `inner` loop is that of the loops
that hold no other which does the most."""
WORK = ("LDG", "LDGSTS", "LDS", "FFMA", "FADD", "HMMA")


def launch_features(code: Code, sizes: Mapping[str, int]) -> NDArray[np.float32]:
    """Features of each launch of compiled code, float32 [launches, NAMES], where extents have these sizes. Raises
    ValueError where the code has no machine code, or nothing is known of what a kernel takes."""
    if code.binary is None:
        raise ValueError("features are of machine code, and there is none")
    known = dict(sizes)
    for name, count in code.counts:
        known[name] = count.value(known)
    instructions = read_instructions(code.binary.cubin)
    taken = {resources.kernel: resources for resources in code.binary.resources}
    if unknown := [launch.symbol for launch in code.launches if launch.symbol not in taken]:
        raise ValueError(f"ptxas has not said what {unknown[0]} takes")
    rows = [
        [*_launched(launch, taken[launch.symbol], known), *_code(instructions[launch.symbol])]
        for launch in code.launches
    ]
    return np.array(rows, np.float32).reshape(len(code.launches), len(NAMES))


def _launched(launch: Launch, taken: Resources, sizes: Mapping[str, int]) -> list[float]:
    blocks = launch.blocks.value(sizes)
    total, shared = blocks * launch.columns, taken.shared_bytes + launch.shared_bytes
    fits = occupancy(taken.arch, launch.threads, taken.registers, shared)
    at_once = max(1, fits.blocks * TARGETS[taken.arch].multiprocessors)
    waves = -(-total // at_once)
    return [
        *(launch.once, blocks, launch.columns, launch.threads, total * -(-launch.threads // 32)),
        *(taken.registers, shared, taken.stack_bytes, taken.spill_store_bytes, taken.spill_load_bytes),
        *(fits.warps / fits.most_warps, fits.blocks, total / at_once, waves - total / at_once),
    ]


def _code(code: Instructions) -> list[float]:
    loops = code.loops()
    inside = np.zeros((len(loops), len(code)), np.bool_)
    for own, (begin, end) in zip(inside, loops, strict=True):
        own[begin : end + 1] = True
    inner = _inner(code, loops, inside)
    stores, loads, copies = code.are("STG", "REDG"), code.are("LDG"), code.are("LDGSTS")
    depth = int(inside.sum(0).max()) if len(code) else 0
    return [
        *(len(code), len(loops), depth, int(code.stalls.sum())),
        *(int(code.widths[loads].sum()), int(code.widths[stores].sum())),
        *_mix(code, np.ones(len(code), np.bool_)),
        *(int(inner.sum()), int(code.stalls[inner].sum())),
        *(int(code.widths[inner & loads].sum()), int(code.widths[inner & copies].sum())),
        *_mix(code, inner),
    ]


def _inner(code: Instructions, loops: NDArray[np.int64], inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which instructions are those of the inner loop; none where there is no loop."""
    if not len(loops):
        return np.zeros(len(code), np.bool_)
    sizes = inside.sum(1)
    holds = np.array([((inside & ~own).any(1) == 0).sum() > 1 for own in inside])  # its own is one of them
    work = (inside & code.are(*WORK)).sum(1)
    return np.asarray(inside[int(np.lexsort((-sizes, work, ~holds))[-1])])


def _mix(code: Instructions, taken: NDArray[np.bool_]) -> list[float]:
    return [int((code.are(*names) & taken).sum()) for names in KINDS.values()]


def digest_parts(code: Code) -> Iterable[bytes]:
    """What tells compiled code from any other that would run differently: of each launch its instructions, grid and
    arguments. Names and lines of the source, which cubins have too, are left out."""
    assert code.binary is not None
    instructions = read_instructions(code.binary.cubin)
    for launch in code.launches:
        words = instructions[launch.symbol].words.tobytes()
        shape = (launch.blocks, launch.columns, launch.threads, launch.shared_bytes, launch.once, launch.busy)
        yield from (words, repr((shape, launch.arguments)).encode())
    yield repr(code.counts).encode()


def total(features: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Features of programs, float32 [programs, 2 * NAMES + 1], of those of their launches: the sums, the largest, and
    how many launches there are, without those that run once."""
    rows = []
    for launches in features:
        timed = launches[launches[:, 0] == 0] if len(launches) else launches
        timed = timed if len(timed) else np.zeros((1, len(NAMES)), np.float32)
        rows.append(np.concatenate([timed.sum(0), timed.max(0), [len(timed)]]))
    return np.array(rows, np.float32)
