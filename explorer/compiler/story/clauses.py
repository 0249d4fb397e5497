"""Which of the sentences that a pass says speak of one operation.

A pass says what it did to a whole program, one clause after another: `%3 from edge to src_pair: ...; RGAT_0, loop g3:
16 lanes`. A clause's subject is the first name in it that the program defines, and it speaks of the operation on whose
own lines that name is defined. One without a subject speaks of all that the pass changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from explorer.compiler.frozen import dataclass
from explorer.compiler.ir.graph import Graph
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.node import Line, Span

NAME = re.compile(r"(?<!\w\()(?:%?[A-Za-z_]\w*|%\d+)")
"""A name of any IR, with the sign that the graph and SLC put before theirs; the x of `exp(x)` is none."""
LOOP = re.compile(r"\b(?:slcv?\.)?for(?:<\d+>)?\s*\(*\s*(%?\w+)")
"""The variable of a loop, in the loops and in SLC."""
WRITTEN = re.compile(r"\s*(?:acc|row|index|register|shared)?\s*(%?\w+)\s*(?:\[[^\]]*\])?\s*(?:=|\+=|max=|min=)(?!=)")
"""What a line gives a value."""
DECLARED = re.compile(r"\s*row (\w+)\[")
COUNTED_ON = "counted on "
"""Begins what a pass says of a whole graph's costs, which the story says of the operation."""


@dataclass(frozen=True)
class Names:
    """A program's kernels and all names that it defines; the kernels and names that have an operation's own lines, and
    all that stands in these."""

    kernels: frozenset[str]
    all: frozenset[str]
    own_kernels: frozenset[str]
    own: frozenset[str]
    read: frozenset[str]


def own_lines(lines: Iterable[Line], operation: Span) -> list[Line]:
    """The lines whose primary is the operation."""
    return [line for line in lines if line.origin and line.origin[0] == operation]


def defined(lines: Iterable[Line]) -> frozenset[str]:
    """The names that lines define, without the sign that SLC puts before streams."""
    found: set[str] = set()
    for line in lines:
        for pattern in (LOOP, WRITTEN, DECLARED):
            if match := pattern.search(line.text) if pattern is LOOP else pattern.match(line.text):
                found.add(_plain(match[1]))
    return frozenset(found)


def names_of(program: object, lines: Sequence[Line], operation: Span) -> Names:
    """What a program defines, of which `lines` are the text."""
    inner = program.programs if isinstance(program, Module) else () if isinstance(program, Graph) else (program,)
    kernels = [str(getattr(each, "name", "")) for each in inner]
    own = own_lines(lines, operation)
    own_texts = {id(line) for line in own}
    own_kernels = {name for name, part in _by_kernel(lines, kernels) if any(id(line) in own_texts for line in part)}
    read = frozenset(_plain(name) for line in own for name in NAME.findall(line.text))
    named = frozenset(filter(None, kernels))
    return Names(named, defined(lines), frozenset(own_kernels & named), defined(own), read)


def _by_kernel(lines: Sequence[Line], kernels: Sequence[str]) -> list[tuple[str, list[Line]]]:
    """The lines from each kernel's heading to the next one's; of one alone, all."""
    found: list[tuple[str, list[Line]]] = [(kernels[0], [])] if len(kernels) == 1 else []
    for line in lines:
        words = line.text.split(maxsplit=2)
        if len(kernels) > 1 and not line.origin and len(words) > 1 and words[1] in kernels:
            found.append((words[1], []))
        if found:
            found[-1][1].append(line)
    return found


def about(sentences: Iterable[str], before: Names, after: Names, or_kernels: bool = False) -> list[str]:
    """The sentences that speak of the operation, each once, in order: of what its lines define, and where there are
    none, of what they read, such as the loop that they are in; with `or_kernels`, where there are none either, of the
    kernels that have its lines."""
    told = [(sentence, *_subject(sentence, before, after)) for sentence in dict.fromkeys(sentences)]
    own_kernels, several = before.own_kernels | after.own_kernels, len(before.kernels | after.kernels) > 1
    here = [
        (sentence, kernel, subject)
        for sentence, kernel, subject in told
        if not sentence.startswith(COUNTED_ON) and (kernel in own_kernels or (not kernel and (subject or not several)))
    ]
    # A pass speaks in the names of what it was given; those that it makes may be the same ones in another kernel.
    for given, made in ((before.own, after.own), (before.read, after.read)):
        if found := [text for text, _, name in here if not name or name in (given if name in before.all else made)]:
            return found
    return [sentence for sentence, kernel, _ in here if kernel] if or_kernels else []


def _subject(sentence: str, before: Names, after: Names) -> tuple[str, str]:
    """The kernel that a sentence names, and the first other name that the program defines; "" for none."""
    kernels = before.kernels | after.kernels
    named = [_plain(name) for name in NAME.findall(sentence)]
    of = next((kernel for name in named if (kernel := _whole(name, kernels))), "")
    return of, next((name for name in named if name in before.all | after.all and not _whole(name, kernels)), "")


def _whole(name: str, kernels: Iterable[str]) -> str:
    """The kernel that a name is of: `RGAT_0_product` is made of RGAT_0; "" where there is none."""
    return max((kernel for kernel in kernels if name == kernel or name.startswith(f"{kernel}_")), key=len, default="")


def _plain(name: str) -> str:
    """A stream of SLC by the name that the execute unit has for it; `%5` of the graph keeps its sign."""
    return name if name[1:].isdigit() else name.removeprefix("%")
