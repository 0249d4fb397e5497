"""Reads a printed module: a line that says what it gives, then programs of one IR."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from lark import v_args
from lark.tree import Meta

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.module import AnyProgram, Module, Packing
from explorer.compiler.ir.node import Extent
from explorer.compiler.ir.parse.dlc import parse_dlc
from explorer.compiler.ir.parse.kernels import parse_scheduled
from explorer.compiler.ir.parse.loops import parse_kernel
from explorer.compiler.ir.parse.reader import Builder, ParseError, read
from explorer.compiler.ir.parse.slc import parse_slc

PARSERS: dict[str, Callable[[str], AnyProgram]] = {
    "kernel": parse_kernel,
    "scheduled": parse_scheduled,
    "slc": parse_slc,
    "dlc": parse_dlc,
}
"""By the word that a program begins with."""

Pairs = tuple[tuple[str, str], ...]


Factors = tuple[tuple[str, Extent], ...]


@dataclass(frozen=True)
class Inverses:
    """The part `inverse t = t_order` of a module's first line."""

    pairs: Pairs


@dataclass(frozen=True)
class Products:
    """The part `product r_t = [r of relation, t of entity]` of a module's first line."""

    named: tuple[tuple[str, Factors], ...]


@dataclass(frozen=True)
class Packings:
    """The part `packed msg = [D, att]` of a module's first line."""

    rows: tuple[Packing, ...]


def parse_module(text: str, known: Mapping[str, AnyProgram] | None = None) -> Module:
    """The module whose printed text this is; raises ParseError for a text that is none.

    Comments above the programs are skipped: the table of instances says nothing that the kernels do not. Programs
    whose texts are `known` are taken as they are, with the origins that they have."""
    lines = text.rstrip().split("\n")
    words = [line.partition(" ")[0] for line in lines]
    starts = [number for number, word in enumerate(words) if word in PARSERS]
    first = starts[0] if starts else len(lines)
    for start in starts:
        if words[start] != words[first]:
            raise ParseError(f"the programs of a module are of one IR, and {words[first]} is the first", start + 1, 1)
    head = "\n".join("" if line.startswith("#") else line for line in lines[:first])
    module: Module = read("module", head, _ModuleBuilder(head))
    pieces = zip(starts, [*starts, len(lines)][1:], strict=True)
    # Empty lines above each piece keep its line numbers, which origins and errors have, those of the whole text.
    read_program, known = PARSERS.get(words[first] if starts else "", parse_kernel), known or {}
    programs = tuple(
        known.get("\n".join(lines[start:end]).rstrip()) or read_program("\n" * start + "\n".join(lines[start:end]))
        for start, end in pieces
    )
    return replace(module, programs=programs)


@v_args(inline=True, meta=True)
class _ModuleBuilder(Builder):
    def program(
        self, meta: Meta, name: str, results: tuple[str, ...], *parts: Pairs | Inverses | Products | Packings
    ) -> Module:
        gradients = next((part for part in parts if isinstance(part, tuple)), ())
        inverses = next((part.pairs for part in parts if isinstance(part, Inverses)), ())
        products = next((part.named for part in parts if isinstance(part, Products)), ())
        packed = next((part.rows for part in parts if isinstance(part, Packings)), ())
        return Module(
            name=name,
            result=results[0],
            further=results[1:],
            gradients=gradients,
            programs=(),
            inverses=inverses,
            products=products,
            packed=packed,
            origin=self.origin(meta),
        )

    def results(self, meta: Meta, *names: str) -> tuple[str, ...]:
        return names

    def gradients(self, meta: Meta, *pairs: tuple[str, str]) -> Pairs:
        return pairs

    def inverses(self, meta: Meta, *pairs: tuple[str, str]) -> Inverses:
        return Inverses(pairs)

    def inverse(self, meta: Meta, entry: str, order: str) -> tuple[str, str]:
        return entry, order

    def products(self, meta: Meta, *named: tuple[str, Factors]) -> Products:
        return Products(named)

    def product(self, meta: Meta, name: str, *factors: tuple[str, Extent]) -> tuple[str, Factors]:
        return name, factors

    def factor(self, meta: Meta, entry: str, extent: Extent) -> tuple[str, Extent]:
        return entry, extent

    def packings(self, meta: Meta, *rows: Packing) -> Packings:
        return Packings(rows)

    def packing(self, meta: Meta, vectors: str, length: Extent, scalars: tuple[str, ...], stride: int = 0) -> Packing:
        return Packing(vectors, length, scalars, stride)

    def columns(self, meta: Meta, *names: str) -> tuple[str, ...]:
        return names

    def stride(self, meta: Meta, numbers: int) -> int:
        return numbers

    def gradient(self, meta: Meta, tensor: str, buffer: str) -> tuple[str, str]:
        return tensor, buffer
