"""What the compiler prints for real models parses back, stage by stage, and so does every text kept as golden."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

import explorer
from explorer.compiler.ir.module import Module
from explorer.compiler.ir.parse import parse_dlc, parse_graph, parse_kernel, parse_module, parse_scheduled, parse_slc
from explorer.compiler.ir.print.kernels import print_scheduled
from explorer.compiler.ir.verify.kernels import verify_scheduled
from tests.compiler.ir.test_round_trip import LANGUAGES, Language, text_of
from tests.compiler.layers import LAYERS
from tests.compiler.models import EXAMPLES, compiled

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
PARSERS = {
    "score": parse_graph,
    "layer": parse_graph,
    "op": parse_graph,
    "kernel": parse_kernel,
    "scheduled": parse_scheduled,
    "slc": parse_slc,
    "dlc": parse_dlc,
    "module": parse_module,
}
SCHEDULED = Language(st.nothing(), verify_scheduled, print_scheduled, parse_scheduled)
NEGATIVES = ("none", "tail:3", "head:2", "tail:3/4")


STAGES = ("graph", "loops", "slc", "slc.opt1", "slc.opt2", "slc.opt3", "dlc", "kernels")


def language_of(text: str) -> Language:
    """The IR of a text, known by its first word."""
    word = text.split(maxsplit=1)[0]
    if word == "scheduled":  # its programs obey rules that none drawn at random does
        return SCHEDULED
    parse = PARSERS[word]
    return next(entry for entry in LANGUAGES.values() if entry.parse is parse)


def assert_parses_back(compilation: explorer.Compilation, passes: bool = True) -> None:
    """Each stage with a parser gives the stage's own program, which the verifier accepts and the printer repeats;
    so does, with `passes`, each other text that a pass printed."""
    read = set()
    for name in STAGES:
        stage = compilation.stages[name]
        language = language_of(stage.text)
        parsed = language.parse(stage.text)
        assert parsed == stage.program
        assert text_of(language.show(parsed)) == stage.text
        language.verify(parsed)
        read.add(stage.text)
        for report in stage.passes if passes else ():
            text = text_of(report.after)
            language = language_of(text)
            assert text in read or text_of(language.show(language.parse(text))) == text, report.name
            read.add(text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("negatives", NEGATIVES)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_stages_of_an_example(path: Path, negatives: str) -> None:
    text = path.read_text()
    declared = compiled(text, on_demand=True).sizes
    for scale in (None, 1, 7):
        sizes = {} if scale is None else {name: scale + number for number, name in enumerate(declared)}
        assert_parses_back(compiled(text, sizes=sizes, options={"negatives": negatives}))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("reorder", [False, True])
@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("path", LAYERS, ids=lambda path: path.stem)
def test_the_stages_of_a_layer(path: Path, grad: bool, compact: bool, reorder: bool) -> None:
    compilation = compiled(path.read_text(), options={"grad": grad, "compact": compact, "reorder": reorder})
    assert isinstance(compilation.stages["loops"].program, Module)
    assert_parses_back(compilation, passes=compact and reorder)


@pytest.mark.parametrize("precision", ["tf32x3", "tf32"])
def test_the_stages_of_products_on_tensor_cores(precision: str) -> None:
    for path in (*EXAMPLES, *LAYERS):
        if path.stem in ("transr", "rgcn"):
            compilation = compiled(path.read_text(), options={"precision": precision})
            assert f" in {precision}\n" in compilation.stages["kernels"].text, path.stem
            assert_parses_back(compilation, passes=False)


def golden_texts() -> list[Path]:
    """The golden texts that are programs of an IR, known by their first word."""
    return [path for path in sorted(GOLDEN.rglob("*.txt")) if path.read_text().split(maxsplit=1)[0] in PARSERS]


def test_the_golden_texts() -> None:
    for path in golden_texts():
        text = path.read_text()
        language = language_of(text)
        assert text_of(language.show(language.parse(text))) == text.rstrip("\n") + "\n", path.name


@pytest.mark.parametrize("sign", ["+", "-", "*", "//", "%"])
@pytest.mark.parametrize("left", ["0", "i"])
def test_an_index_of_numbers_and_names(left: str, sign: str) -> None:
    text = "\n".join(
        [
            "scheduled Copy  template rows  threads 32",
            "  output out[N]",
            "  for i in 0..N @thread",
            f"    index n = {left} {sign} 4",
            "    out[n] = 1.0\n",
        ]
    )
    assert text_of(print_scheduled(parse_scheduled(text))) == text
