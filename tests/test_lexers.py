"""The Pygments lexers: no text is lost, what means something has its type, and other programs find them by name."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.lexer import Lexer, words
from pygments.lexers import CudaLexer, get_lexer_by_name
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, String, _TokenType

import explorer
from explorer.lexers import DlcLexer, GraphLexer, KernelsLexer, LoopsLexer, ModelLexer, SassLexer, SlcLexer
from explorer.web.panes.differences import rows
from explorer.web.panes.highlight import (
    LEXERS,
    LONGEST_WORD,
    _css_class,
    _markup,
    _pieces,
    highlight,
    highlight_words,
)

LEXER_OF = {
    "graph": GraphLexer,
    "loops": LoopsLexer,
    "kernels": KernelsLexer,
    **dict.fromkeys(("slc", "slc.opt1", "slc.opt2", "slc.opt3"), SlcLexer),
    "dlc": DlcLexer,
    "sass": SassLexer,
}
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*/*.emb"))


def kinds(lexer: Lexer, text: str) -> list[tuple[_TokenType, str]]:
    return [(kind, value) for _, kind, value in lexer.get_tokens_unprocessed(text)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_and_its_stages_are_covered_without_errors(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    compilation = explorer.compile(text)
    texts = [(ModelLexer(), text)] + [(LEXER_OF[name](), compilation.stages[name].text) for name in LEXER_OF]
    for lexer, shown in texts:
        tokens = kinds(lexer, shown)
        assert "".join(value for _, value in tokens) == shown
        assert not [value for kind, value in tokens if kind in Error]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_line_is_coloured_by_itself_as_in_its_text(path: Path) -> None:
    """No token goes on in the next line, which `highlight` relies on: of CUDA and PTX too, whose lexers are of C."""
    compilation = explorer.compile(path.read_text(encoding="utf-8"), on_demand=True)
    for name in (*LEXER_OF, "cuda", "ptx"):
        shown, lexer = compilation.stages[name].text, LEXERS[name.partition(".")[0]]
        of_text = CudaLexer() if name == "cuda" else lexer
        whole = [piece for kind, value in kinds(of_text, shown) for piece in pieces_of(name, kind, value)]
        lines = [kinds(lexer, f"{line}\n") for line in shown.split("\n")]
        assert whole == [piece for tokens in lines for kind, value in tokens for piece in pieces_of(name, kind, value)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_line_of_cuda_has_by_its_words_the_colours_of_the_whole(path: Path) -> None:
    for options in ({}, {"grad": True}):
        compilation = explorer.compile(path.read_text(encoding="utf-8"), options=options, on_demand=True)
        if compilation.ok:
            coloured_as_whole(compilation.stages["cuda"].text)


def coloured_as_whole(text: str) -> None:
    lines = text.split("\n")
    assert list(highlight("cuda", text)) == [_markup(_pieces("cuda", line)) for line in lines]


CUDA_WORDS = r"""
x E_kernel_s1 int float4 unsigned const __restrict__ return for if else while template ( ) [ ] { } ; < > << && &
1.0f 0x1F 1e-5f "s // c int /* */ + = * ? :: : , 'a' ' default case struct enum typename namespace # $ \ [[ ]]
auto extern "C" __global__ void size_t static_cast goto R"(int)" u8"int" lt amp
"""


@given(st.lists(st.sampled_from(CUDA_WORDS.split()), max_size=9), st.sampled_from(["", " "]))
def test_any_words_of_cuda_have_the_colours_of_the_whole(pieces: list[str], between: str) -> None:
    coloured_as_whole(between.join(pieces))


def test_no_word_of_cuda_that_has_a_colour_is_longer() -> None:
    classes = [vars(cls) for cls in CudaLexer.__mro__]
    known = {word for own in classes for each in own.values() if isinstance(each, set) for word in each}
    known |= {word for own in classes for word in words_of(own.get("tokens", {}))}
    assert {"__multiple_inheritance", "atomic_uint_least16_t", "static_cast"} <= known
    assert max(map(len, known)) <= LONGEST_WORD


def words_of(states: dict[str, list[object]]) -> Iterator[str]:
    """The words that a lexer's rules list."""
    for rule in (rule for rules in states.values() for rule in rules):
        if isinstance(rule, tuple) and isinstance(rule[0], words):
            yield from (rule[0].prefix + word for word in rule[0].words)


def pieces_of(name: str, kind: _TokenType, value: str) -> list[tuple[str, str]]:
    """The words of a token with its class."""
    css = _css_class(name.partition(".")[0], kind, value)
    return [(css, piece) for piece in value.split("\n") if piece]


def test_a_models_words_have_their_types() -> None:
    tokens = kinds(
        ModelLexer(), 'dim D = 64  # size\nscore T(h: entity, r: relation):\n    "a note"\n    return norm(E[h], 2)\n'
    )
    assert (Keyword, "dim") in tokens
    assert (Keyword.Type, "entity") in tokens
    assert (Keyword.Type, "relation") in tokens
    assert (Name.Class, "T") in tokens
    assert (Name.Builtin, "norm") in tokens
    assert (Comment.Single, "# size") in tokens
    assert (String.Doc, '"a note"') in tokens


def test_numbers_of_a_loop_and_comparisons_have_theirs() -> None:
    line = "for k in 0..K: x = where(y[k] >= 0.5, y ** 2, range)\n"
    tokens = [(kind, value) for kind, value in kinds(ModelLexer(), line) if value.strip()]
    assert (Number, "0") in tokens
    assert (Number, "0.5") in tokens
    assert [value for kind, value in tokens if kind is Operator] == ["..", "=", ">=", "**"]


def test_a_graph_line_has_its_set_and_its_dependencies() -> None:
    tokens = kinds(GraphLexer(), "  %5 = bmv %3, %4  : batch [K]  {h, r, t}")
    assert (Name.Function, "bmv") in tokens
    assert (Keyword.Type, "batch") in tokens
    assert (Name.Label, "{h, r, t}") in tokens


@pytest.mark.parametrize(
    ("lexer", "line", "crossing"),
    [
        (SlcLexer(), "    e = slc.to_val(%e)", "slc.to_val"),
        (DlcLexer(), "  push_op(e, d_tr, ite)", "push_op"),
        (DlcLexer(), "      e = dataQ.pop<f32>()", "dataQ.pop"),
        (DlcLexer(), "  callback(d_tr, ite) = d_ite", "callback"),
        (SlcLexer(), "    v = slcv.to_val<16>(%v)", "slcv.to_val"),
        (SlcLexer(), "        slc.push(%buf, %v)", "slc.push"),
        (DlcLexer(), "      v = dataQ.pop<16 x f32>()", "dataQ.pop"),
    ],
)
def test_what_crosses_a_queue_is_marked(lexer: Lexer, line: str, crossing: str) -> None:
    assert (Keyword.Pseudo, crossing) in kinds(lexer, line)


def test_machine_code_has_its_operations_its_control_and_its_names() -> None:
    tokens = kinds(SassLexer(), "    /*08d0*/  @!P0 LDG.E.CONSTANT R13, desc[UR4][R8.64+-0x10];")
    assert (Comment.Multiline, "/*08d0*/") in tokens
    assert (Name.Decorator, "@!P0") in tokens
    assert (Name.Function, "LDG") in tokens
    assert {(Name.Variable, "R13"), (Name.Variable, "UR4"), (Name.Variable, "R8")} <= set(tokens)
    assert (Comment.Multiline, '(*"SpillRefill"*)') in kinds(
        SassLexer(), '    /*0120*/       STL [R1], RZ (*"SpillRefill"*);'
    )
    branch = kinds(SassLexer(), ".L_x_4:\n    /*0920*/       BRA.U `(.L_x_4);\n    /*08f0*/       EXIT;")
    assert [value for kind, value in branch if kind in Keyword] == ["BRA.U", "EXIT"]
    assert [value for kind, value in branch if kind in Name.Label] == [".L_x_4:", "`(.L_x_4)"]


def test_they_are_published_as_entry_points() -> None:
    published = {point.load() for point in entry_points(group="pygments.lexers")}
    assert {ModelLexer, *LEXER_OF.values()} <= published
    assert isinstance(get_lexer_by_name("emb"), ModelLexer)


def test_the_names_in_the_readme_are_theirs(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    for lexer in (ModelLexer, *LEXER_OF.values()):
        assert f"`{lexer.aliases[0]}`" in readme
        for alias in lexer.aliases:
            assert isinstance(get_lexer_by_name(alias), lexer)


@given(st.sampled_from(sorted(LEXERS)), st.text(alphabet=st.characters(exclude_characters="\r\0"), max_size=200))
def test_any_text_comes_out_line_by_line_and_escaped(language: str, text: str) -> None:
    lines = highlight(language, text)
    assert len(lines) == text.count("\n") + 1
    # Every sign of the text that HTML gives a meaning has been escaped: what is left are our own spans.
    assert "\n".join(line.striptags() for line in lines).split() == text.split()


@given(st.lists(st.text("ab<& ", max_size=8), max_size=6), st.lists(st.text("ab<& ", max_size=8), max_size=6))
def test_a_difference_keeps_both_texts_whole(before: list[str], after: list[str]) -> None:
    found = list(rows(before, after))
    assert [before[row.old] for row in found if row.old is not None] == before
    assert [after[row.new] for row in found if row.new is not None] == after
    for row in found:
        if not row.differs:
            assert row.old is not None
            assert row.new is not None
            assert before[row.old].split() == after[row.new].split()


def test_the_words_that_changed_are_picked_out() -> None:
    (row,) = rows(["    for k in 0..K  # a < b"], ["    for k2 in 0..K  # a < b"])
    assert (row.old_words, row.new_words) == (((8, 9),), ((8, 10),))
    (line,) = highlight_words("loops", "    for k2 in 0..K  # a < b", {0: row.new_words})
    assert line == (
        '    <span class="k">for</span> <span class="w">k2</span> <span class="k">in</span> 0..K  '
        '<span class="c"># a &lt; b</span>'
    )


def test_comments_with_only_blanks_between_are_one() -> None:
    (line,) = highlight("sass", "  /*08d0*/ /*-- y 02*/  @P5 LEA R1, R2, 0x4; // a")
    assert line == '  <span class="c">/*08d0*/ /*-- y 02*/</span>  @P5 LEA R1, R2, 0x4; <span class="c">// a</span>'
    (apart,) = highlight("cuda", "/*a*/ x /*b*/ /*c*/\t// d")
    assert apart == '<span class="c">/*a*/</span> x <span class="c">/*b*/ /*c*/\t// d</span>'


def test_markup_in_a_text_is_shown_not_made() -> None:
    (line,) = highlight("model", "score T<script>alert('1')</script>():")
    assert "<script" not in line
    assert "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;" in line
