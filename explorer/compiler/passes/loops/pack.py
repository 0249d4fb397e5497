"""Lays scalars of a row in the array of vectors that is read with them: `att[edges]` as a column of `msg[edges, D]`.

Hector (§6) proposes it as a data layout: "storing edge attention and edge message together in one tensor where the
innermost dimension becomes (size of hidden dimension + 1)", an array of structures. It bears on temporaries over one
index set that one kernel writes: `msg[edges, D]` and `att[edges]`, or `msg[edges, H, D]` and `att[edges, H]`. Whoever
reads the scalar has to read the vector at the same row, for the scalar alone would take a sector of memory.

    v25[src_pairs, G], v27[src_pairs]        v25[src_pairs, 68]
    a = v27[s]                               a = v25[s, 64]
    m = v25[s, g]                            m = v25[s, g]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from explorer.compiler.frozen import dataclass, replace
from explorer.compiler.ir import loops
from explorer.compiler.ir.module import Module, Packing
from explorer.compiler.ir.node import Atom, walk
from explorer.compiler.passes.loops.cleared import sums_in_place
from explorer.compiler.passes.loops.columns import in_columns, sectors, stride
from explorer.compiler.passes.stored.storage import SECTOR
from explorer.compiler.report import Report
from explorer.compiler.target import FLOAT_BYTES


@dataclass(frozen=True)
class _Made:
    """A temporary, and the kernel that writes it."""

    buffer: loops.Buffer
    kernel: loops.Kernel


def pack(program: loops.Kernel | Module, report: Report) -> loops.Kernel | Module:
    """The program with scalars of a row packed with the vectors that are read with them, if the option asks for it.

    A single kernel has no temporaries."""
    if not isinstance(program, Module):
        return program
    kernels = list(_kernels(program))
    made = {buffer.name: _Made(buffer, kernel) for kernel in kernels for buffer in kernel.buffers if _is_made(buffer)}
    for name in program.kept:
        made.pop(name, None)
    packings, reasons = _packings(made, kernels)
    if not report.options.pack:
        for packing in packings:
            names = " and ".join((packing.vectors, *packing.scalars))
            report.refused(f"{names} are arrays of their own: the option pack is off. {_cost(packing, made)}")
        return program
    for reason in reasons:
        report.refused(reason)
    for packing in packings:
        report.did(f"{_placed(packing, made)}. {_cost(packing, made)}")
    programs = tuple(in_columns(kernel, packings) for kernel in kernels)
    return replace(program, programs=programs, packed=tuple(packings)) if packings else program


def _kernels(module: Module) -> Iterator[loops.Kernel]:
    for kernel in module.programs:
        assert isinstance(kernel, loops.Kernel)
        yield kernel


def _is_made(buffer: loops.Buffer) -> bool:
    return buffer.kind == "output" and bool(buffer.extents)


# What may be packed


def _packings(made: Mapping[str, _Made], kernels: list[loops.Kernel]) -> tuple[list[Packing], list[str]]:
    """The arrays of vectors with the scalars that go with them, and what keeps others apart."""
    readers: dict[str, list[_Reader]] = {}
    for reader in map(_Reader.of, kernels):
        for name in reader.accesses:
            readers.setdefault(name, []).append(reader)
    found: dict[str, list[str]] = {}
    reasons: list[str] = []
    for name, scalar in made.items():
        own = readers.get(name, [])
        beside = dict.fromkeys(other for reader in own for other in reader.accesses if other in made)
        wider = [made[each] for each in beside if made[each].buffer.extents[:-1] == scalar.buffer.extents]
        apart = {vectors.buffer.name: _apart(scalar, vectors, own) for vectors in wider}
        whole = next((vectors for vectors, reason in apart.items() if reason is None), None)
        if whole is None:
            reasons += [reason for reason in apart.values() if reason]
        else:
            found.setdefault(whole, []).append(name)
    columns = {name for scalars in found.values() for name in scalars}
    reasons += [
        f"{', '.join(scalars)} no column of {vectors}: that is one itself"
        for vectors, scalars in found.items()
        if vectors in columns
    ]
    packings = [
        Packing(vectors, made[vectors].buffer.extents[-1], tuple(scalars))
        for vectors, scalars in found.items()
        if vectors not in columns
    ]
    return packings, reasons


@dataclass(frozen=True)
class _Reader:
    """A kernel, and by each temporary that it reads the indices that it reads it at."""

    name: str
    accesses: Mapping[str, set[tuple[Atom, ...]]]

    @classmethod
    def of(cls, kernel: loops.Kernel) -> _Reader:
        temporaries = {buffer.name for buffer in kernel.buffers if buffer.kind == "temporary"}
        found: dict[str, set[tuple[Atom, ...]]] = {}
        for node in walk(kernel):
            if isinstance(node, loops.Load) and node.buffer in temporaries:
                found.setdefault(node.buffer, set()).add(node.indices)
        return cls(kernel.name, found)

    def rows(self, vectors: str) -> set[tuple[Atom, ...]]:
        """The rows of an array of vectors that it reads any of."""
        return {indices[:-1] for indices in self.accesses.get(vectors, ())}


def _apart(scalar: _Made, vectors: _Made, readers: list[_Reader]) -> str | None:
    """Why a scalar, which these kernels read, and a vector of a row stay apart; "" where none reads both at one row,
    None where they need not."""
    own, row = scalar.buffer.name, vectors.buffer.name
    if not any(reader.accesses[own] & reader.rows(row) for reader in readers):
        return ""
    if scalar.kernel is not vectors.kernel:
        return f"{own} is no column of {row}: another kernel writes it"
    if _is_summed(scalar) != _is_summed(vectors):  # a target would clear all of a row, or nothing
        return f"{own} is no column of {row}: one is summed in place, from zeros, and the other is stored"
    alone = next((reader.name for reader in readers if not reader.accesses[own] <= reader.rows(row)), None)
    return f"{own} is no column of {row}: {alone} reads it without the row" if alone else None


def _is_summed(array: _Made) -> bool:
    return any(
        isinstance(loop, loops.For) and bool(sums_in_place(loop, array.buffer.name)) for loop in array.kernel.body
    )


# What is said of it


def _placed(packing: Packing, made: Mapping[str, _Made]) -> str:
    length = made[packing.vectors].kernel.size(packing.length)
    columns = (f"{name} is column {length + place}" for place, name in enumerate(packing.scalars))
    return f"{' and '.join(columns)} of {packing.vectors}"


def _cost(packing: Packing, made: Mapping[str, _Made]) -> str:
    """What a row takes to gather, in sectors on the mean over all rows, and in memory, with what is padding."""
    length, scalars = made[packing.vectors].kernel.size(packing.length), len(packing.scalars)
    apart = sectors(length, length) + scalars
    together = sectors(length + scalars, stride(length, scalars))
    taken, padding = stride(length, scalars), stride(length, scalars) - length - scalars
    return (
        f"A row gathered from one array touches {float(together):g} sectors of {SECTOR * FLOAT_BYTES} bytes, "
        f"from {1 + scalars} arrays {float(apart):g}; {padding * FLOAT_BYTES} of its {taken * FLOAT_BYTES} bytes "
        "are padding"
    )
