"""A text that is no program is refused with a sentence and a place, whatever is wrong with it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.compiler.ir.parse import ParseError, parse_dlc, parse_graph, parse_kernel, parse_module, parse_slc
from tests.compiler.ir.test_round_trip import LANGUAGES, text_of

GRAPH = """score F over batch
  dim D = 4
  map h: batch -> entity
  param E[entity, D]
  %1 = gather_vec E[h]  : batch [D]  {h}
  %2 = norm<2> %1  : batch []  {h}
  return %2"""

KERNEL = """kernel F  template batch
  size D = 4
  index h[B]
  param E[entity, D]
  output out[B]
  parallel for b in 0..B
    ih = h[b]
    acc s = 0.0
    for d in 0..D
      e = E[ih, d]
      s += e * e
    out[b] = sqrt(s)"""

SLC = """slc F
  index h[B]
  output out[B]
  slc.for (%b from 0 to B) {
    %ih = slc.mem_str(h[%b])
    slc.callback {
      b = slc.to_val(%b)
      out[b] = 1.0
    }
  }"""

DLC = """dlc F
  index h[B]
access
  b_tr = loop_tr(0, B, 1)
  ih = b_tr.mem_str(h, b_tr.ite)
  push_op(ih, b_tr, ite)
  callback(b_tr, ite) = b_ite
execute
  while ((token = ctrlQ.pop()) != done) {
    if (token == b_ite) {
      i = dataQ.pop<i32>()
    }
  }"""

MODULE = f"""module F  result out  gradient E = g
# F  batch  over B

{KERNEL}"""

PROGRAMS = {"graph": GRAPH, "loops": KERNEL, "slc": SLC, "dlc": DLC, "module": MODULE}


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_texts_that_are_broken_below_are_programs(name: str) -> None:
    language = LANGUAGES[name]
    program = language.parse(PROGRAMS[name])
    language.verify(program)
    assert language.parse(text_of(language.show(program))) == program


@pytest.mark.parametrize(
    ("parse", "text", "old", "new", "line", "column", "message"),
    [
        (parse_graph, GRAPH, "over batch", "over edges", 1, 1, "there is no score over edges"),
        (parse_graph, GRAPH, "norm<2> %1", "norm<3> %1", 6, 8, "there is no operator norm<3> of a value"),
        (parse_graph, GRAPH, "norm<2> %1", "slice<a:b> %1", 6, 8, "slice cannot have the parameter <a:b>"),
        (parse_graph, GRAPH, "norm<2> %1", "bmv %1", 6, 8, "there is no operator bmv of a value"),
        (parse_graph, GRAPH, "norm<2> %1", "exp<2> %1", 6, 8, "there is no operator exp<2> of a value"),
        (parse_graph, GRAPH, "D = 4", "D = " + "9" * 5000, 2, 11, "no word of this language begins with '9'"),
        (parse_graph, GRAPH, "norm<2> %1", "exp 3", 6, 8, "only `constant` takes a number"),
        (parse_graph, GRAPH, "gather_vec", "fetch", 5, 8, "fetch does not read a tensor"),
        (parse_graph, GRAPH, "return %2", "return %7", 7, 3, "%7 is returned, but no line defines it"),
        (parse_graph, GRAPH, "return %2", "", 6, 35, "expected 'return' or a value such as %1, found the end"),
        (parse_kernel, KERNEL, "s += e * e", "s -= e * e", 11, 9, "found '-'"),
        (parse_kernel, KERNEL, "sqrt(s)", "root(s)", 12, 14, "there is no function root"),
        (parse_kernel, KERNEL, "sqrt(s)", "sqrt(s, s)", 12, 14, "sqrt takes 1 operands, not 2"),
        (parse_kernel, KERNEL, "sqrt(s)", "E[ih, 0]", 12, 5, "load E into a name first: out is memory"),
        (parse_kernel, KERNEL, "acc s = 0.0", "acc s = ih", 8, 5, "s must start from a number, not from ih"),
        (parse_kernel, KERNEL, "    out", "   out", 12, 4, "indented like none of the lines above it"),
        (parse_kernel, KERNEL, "0..B", "0.B", 6, 22, "no word of this language begins with '.'"),
        (parse_slc, SLC, "    }\n  }", "    }", 9, 6, "expected '}'"),
        (parse_slc, SLC, "slc.to_val(%b)", "slc.to_val(b)", 7, 22, "expected 'splat<' or a stream, found 'b'"),
        (parse_dlc, DLC, "pop<i32>", "pop<f64>", 11, 21, "expected 'i32' or 'f32'"),
        (parse_dlc, DLC, "tr, ite)\n", "tr, start)\n", 6, 21, "expected 'beg', 'ite' or 'end'"),
        (parse_dlc, DLC, "access\n", "", 3, 3, "found 'b_tr'"),
        (parse_graph, GRAPH, "return %2", "return %2\n  gradient E = %7", 8, 3, "%7 is a gradient, but no line"),
        (parse_graph, GRAPH, "norm<2> %1", "fold %1 by h", 6, 8, "fold is no reduction of segments"),
        (parse_kernel, KERNEL, "sqrt(s)", "segment_mean(s, 0)", 12, 14, "segment_mean takes 3 operands, not 2"),
        (parse_module, MODULE, "result out", "out", 1, 11, "expected 'result', found 'out'"),
        (parse_module, MODULE, "gradient E = g", "gradient E", 1, 33, "expected '=', found the end of the line"),
        (parse_module, MODULE, "s += e * e", "s += e * ", 14, 16, "found the end of the line"),
        (parse_module, MODULE, "kernel F ", "slc F ", 4, 8, "expected the end of the line, found 'template'"),
        (parse_module, MODULE + "\n\nslc G", "F", "F", 17, 1, "the programs of a module are of one IR, and kernel is"),
    ],
)
def test_a_broken_text_is_refused_where_it_breaks(parse, text, old, new, line, column, message) -> None:
    assert text.count(old) >= 1
    with pytest.raises(ParseError) as refused:
        parse(text.replace(old, new, 1))
    error = refused.value
    assert (error.line, error.column) == (line, column), error.message
    assert message in error.message


@pytest.mark.parametrize("parse", [parse_graph, parse_kernel, parse_slc, parse_dlc, parse_module])
@pytest.mark.parametrize("text", ["", "\n\n", "x", "kernel", "score", "\x00", "slc S\n x", "dlc D"])
def test_fragments_are_refused(parse, text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)


@pytest.mark.parametrize("name", LANGUAGES)
def test_an_edited_text_is_a_program_or_refused(name: str) -> None:
    language = LANGUAGES[name]
    pieces = st.sampled_from(["%", "[", "]", "(", ",", "{", "}", "\n", "\n  ", " ", "0", "1.5", "e", "=", "#", "for "])

    @settings(max_examples=150)
    @given(st.data())
    def never_fails_otherwise(data: st.DataObject) -> None:
        text = PROGRAMS[name]
        start = data.draw(st.integers(0, len(text)))
        stop = data.draw(st.integers(start, min(start + 12, len(text))))
        edited = text[:start] + data.draw(pieces) + text[stop:]
        try:
            program = language.parse(edited)
        except ParseError as error:
            place = error.line, error.column
            program = None
        if program is None:
            lines = edited.split("\n")
            assert 1 <= place[0] <= len(lines)
            assert 1 <= place[1] <= len(lines[place[0] - 1]) + 1
        else:
            assert language.parse(text_of(language.show(program))) == program

    never_fails_otherwise()
