"""Every IR prints, and its text parses back to an equal program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.compiler.ir import graph, loops
from explorer.compiler.ir.access import dlc, slc
from explorer.compiler.ir.module import print_module
from explorer.compiler.ir.node import Line, walk
from explorer.compiler.ir.parse import parse_dlc, parse_graph, parse_kernel, parse_module, parse_slc
from explorer.compiler.stages import verify
from tests.compiler.ir.strategies import dlc_programs, graphs, kernels, modules, slc_programs


@dataclass(frozen=True)
class Language:
    """An IR: how to draw, verify, print and parse its programs."""

    programs: st.SearchStrategy
    verify: Callable[[Any], None]
    show: Callable[[Any], tuple[Line, ...]]
    parse: Callable[[str], Any]


def verify_programs(module: Any) -> None:
    """Each program of a module; drawn ones have nothing to do with one another."""
    for program in module.programs:
        verify(program)


LANGUAGES = {
    "graph": Language(graphs(), graph.verify_graph, graph.print_graph, parse_graph),
    "loops": Language(kernels(), loops.verify_kernel, loops.print_kernel, parse_kernel),
    "slc": Language(slc_programs(), slc.verify_slc, slc.print_slc, parse_slc),
    "dlc": Language(dlc_programs(), dlc.verify_dlc, dlc.print_dlc, parse_dlc),
    "module": Language(modules(), verify_programs, print_module, parse_module),
}


def text_of(lines: tuple[Line, ...]) -> str:
    """The printed text, each line with its end."""
    return "".join(f"{line.text}\n" for line in lines)


@pytest.mark.parametrize("count", [60, pytest.param(300, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", LANGUAGES)
def test_random_programs_parse_back(name: str, count: int) -> None:
    language = LANGUAGES[name]

    @settings(max_examples=count)
    @given(language.programs)
    def parses_back(program: Any) -> None:
        language.verify(program)
        text = text_of(language.show(program))
        parsed = language.parse(text)
        assert parsed == program
        assert text_of(language.show(parsed)) == text
        language.verify(parsed)

    parses_back()


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_origin_of_a_parsed_node_is_its_line(name: str) -> None:
    language = LANGUAGES[name]

    @settings(max_examples=30)
    @given(language.programs)
    def knows_its_lines(program: Any) -> None:
        lines = language.show(program)
        parsed = language.parse(text_of(lines))
        assert all(len(node.origin) == 1 for node in walk(parsed))
        for number, line in enumerate(language.show(parsed), 1):
            for span in line.origin:
                # These lines have the origin of the value that they name, those of instances their kernel's.
                if not line.text.startswith(("  return ", "  gradient ", "# ")):
                    assert span.line == number
                text = lines[span.line - 1].text
                assert text[span.column - 1 : span.end_column - 1] == text.strip()

    knows_its_lines()
