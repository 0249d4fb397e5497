"""Scalars of a row as columns of the vectors that are read with them: which, with what numbers, and which not."""

import numpy as np
import pytest

from explorer.compiler.ir.kernels import ScheduledKernel
from explorer.compiler.ir.loops import Load, Store
from explorer.compiler.ir.module import Packing
from explorer.compiler.ir.node import walk
from explorer.compiler.ir.parse.kernels import parse_scheduled
from explorer.compiler.ir.parse.module import parse_module
from explorer.compiler.report import Report
from explorer.compiler.schedule.repack import repack
from explorer.runtime.reference import evaluate as reference
from tests.compiler.layers import buffers, layer, report
from tests.compiler.models import compiled
from tests.compiler.test_layers import EXAMPLES, check_gradients, check_result, drawn, tiny_graph
from tests.compiler.test_layers import compiled as small

PACKED = [
    ("rgat", {}),
    ("rgat", {"compact": False}),
    ("rgat_heads", {"reorder": False}),
]
WITH_GRADIENTS = [("rgat", {}), ("hgt", {}), ("hgt", {"compact": False})]
TWO_SCALARS = """dim F = {size}, G = {size}
layer Two(g: graph):
    input x[node, F], s[node]
    param W[etype, F, G], a[etype, G], b[etype, G]
    for e in g.edges():
        e["m"] = e.src.x @ W[e.etype]
        e["p"] = dot(e["m"], a[e.etype])
        e["q"] = dot(e["m"], b[e.etype])
    for n in g.dst_nodes():
        n["h"] = sum((e["p"] * e.dst.s + relu(e["q"] + e.dst.s)) * e["m"] for e in n.incoming_edges())
    return n["h"]
"""
ALONE = """dim F = 8, G = 8
layer Alone(g: graph):
    input x[node, F]
    param W[etype, F, G], a[etype, G]
    for e in g.edges():
        e["m"] = e.src.x @ W[e.etype]
        e["p"] = dot(e["m"], a[e.etype])
    for n in g.dst_nodes():
        n["s"] = sum(exp(e["p"]) for e in n.incoming_edges())
    for e in g.edges():
        e["w"] = e["p"] * dot(e.src["s"] * e["m"], e["m"])
    for n in g.dst_nodes():
        n["h"] = sum(e["w"] * e["m"] for e in n.incoming_edges())
    return n["h"]
"""
"""Attention that a sum reads without the message."""


def example(name):
    return next(path for path in EXAMPLES if path.stem == name)


def scheduled(compilation):
    """The kernels of the GPU, with the loads and stores of each."""
    kernels = compilation.stages["kernels"].program.programs
    assert all(isinstance(kernel, ScheduledKernel) for kernel in kernels)
    return [(kernel, [n for n in walk(kernel) if isinstance(n, Load | Store)]) for kernel in kernels]


def test_attention_is_a_column_of_the_message():
    packed, apart = layer("rgat", pack=True), layer("rgat")
    assert buffers(apart)["v25"] == ("src_pairs", "G")
    assert buffers(packed)["v25"] == ("src_pairs", 68)  # so that rows begin at 16 bytes, as before
    assert buffers(apart).keys() - buffers(packed).keys() == {"v27"}
    assert packed.stages["loops"].program.packed == (Packing("v25", "G", ("v27",)),)
    said = report(packed, "pack", "loops")
    assert said.said[0] == (
        "v27 is column 64 of v25. A row gathered from one array touches 9 sectors of 32 bytes, from 2 arrays 9;"
        " 12 of its 272 bytes are padding"
    )


def test_it_is_off_unless_it_is_asked_for():
    said = report(layer("rgat"), "pack", "loops")
    assert not said.changed
    (refusal,) = said.refusals
    assert refusal.startswith("v25 and v27 are arrays of their own: the option pack is off.")


@pytest.mark.parametrize(
    ("size", "sectors"),
    [(64, ("9", "9")), (12, ("2", "3")), (60, ("8", "9")), (7, ("1", "2.75"))],
    ids=["whole sectors", "a row and a half", "room for one", "unaligned"],
)
def test_what_a_gathered_row_touches(size, sectors):
    """Counted here row by row, of 32 bytes at a time."""
    compilation = compiled(example("rgat").read_text(), sizes={"F": size, "G": size}, options={"pack": True})
    vector = 4 if size % 4 == 0 else 1
    stride = -(-(size + 1) // vector) * vector

    def touched(filled, apart):
        rows = [range(row * apart * 4, (row * apart + filled) * 4) for row in range(64)]
        return sum(len({byte // 32 for byte in row}) for row in rows) / len(rows)

    together, alone = touched(size + 1, stride), touched(size, size) + 1
    assert (f"{together:g}", f"{alone:g}") == sectors
    assert (
        f"touches {together:g} sectors of 32 bytes, from 2 arrays {alone:g};"
        in report(compilation, "pack", "loops").summary
    )
    assert buffers(compilation)["v25"] == ("src_pairs", stride)


@pytest.mark.parametrize(("name", "options"), PACKED)
@pytest.mark.parametrize("on", ["loops", "slc", "slc.opt3", "dlc", "dae", "cpu", "kernels"])
def test_the_numbers_are_those_of_the_reference(name, options, on):
    compilation = small(example(name), pack=True, **options)
    assert report(compilation, "pack", "loops").changed
    check_result(compilation, on, tiny_graph())


@pytest.mark.parametrize(
    ("name", "options"),
    [WITH_GRADIENTS[0], *(pytest.param(*each, marks=pytest.mark.sweep) for each in WITH_GRADIENTS[1:])],
)
def test_gradients(name, options):
    compilation = small(example(name), pack=True, grad=True, **options)
    assert report(compilation, "pack", "loops").changed
    check_gradients(compilation, ["loops", "slc", "dlc", "cpu", "kernels"])


@pytest.mark.parametrize("size", [9, 12])
def test_two_scalars_of_a_row(size):
    text = TWO_SCALARS.format(size=size)
    compilation = compiled(text, options={"pack": True, "reorder": False}, on_demand=True)
    ((vectors, _, scalars, _),) = compilation.stages["loops"].program.packed
    assert len(scalars) == 2
    assert buffers(compilation)[vectors][-1] == (16 if size == 12 else 11)
    inputs = drawn(compilation, tiny_graph())
    want = reference.layer(text, inputs, {})
    for on in ("loops", "dlc", "cpu", "kernels"):
        np.testing.assert_allclose(compilation.run(inputs, on), want, rtol=1e-4, atol=1e-5, err_msg=on)


@pytest.mark.parametrize(("name", "options"), [*PACKED, ("hgt", {"compact": False})])
def test_a_schedule_is_that_of_arrays_apart(name, options):
    """The same kernels with the same decisions: only the accesses differ."""
    packed, apart = layer(name, pack=True, **options), layer(name, **options)
    assert packed.schedule == apart.schedule
    (packing,) = packed.stages["loops"].program.packed
    for (kernel, accesses), (other, others) in zip(scheduled(packed), scheduled(apart), strict=True):
        assert kernel.schedule == other.schedule
        assert {buffer.name for buffer in kernel.buffers}.isdisjoint(packing.scalars)
        assert len(accesses) == len(others)
    assert packed.stages["cuda"].available


def test_what_is_read_without_the_row_stays_apart():
    compilation = compiled(ALONE, options={"pack": True, "compact": False}, on_demand=True)
    said = report(compilation, "pack", "loops")
    assert any("reads it without the row" in refusal for refusal in said.refusals), said
    inputs = drawn(compilation, tiny_graph())
    np.testing.assert_allclose(compilation.run(inputs, "cpu"), reference.layer(ALONE, inputs, {}), rtol=1e-4, atol=1e-5)


def test_what_another_kernel_writes_stays_apart():
    said = report(layer("rgat", compact=False, pack=True), "pack", "loops")
    assert said.refusals == ("v10 is no column of v3: another kernel writes it",)


def test_a_result_is_packed_with_nothing():
    compilation = layer("rgat", grad=True, pack=True)
    module = compilation.stages["loops"].program
    packed = {name for vectors, _, scalars, _ in module.packed for name in (vectors, *scalars)}
    assert packed
    assert packed.isdisjoint(module.kept)


def test_the_text_says_what_is_packed():
    text = layer("rgat", pack=True).stages["loops"].text
    assert text.split("\n")[0].endswith("packed v25 = [G, v27]")
    assert parse_module(text).packed == (Packing("v25", "G", ("v27",)),)


KERNEL = """scheduled Sums  template rows  threads 32
  size D = 8
  temporary msg[edges, D], att[edges]
  output out[edges]
  for e in 0..ceil(edges / 4) @block
    for l in 0..4{step} @lane
      index z = e * 4 + l
      where z < edges
        m = msg[{row}]
        a = att[z]
        u = a * m
        out[z] = u
"""


@pytest.mark.parametrize(
    ("row", "step", "reason"),
    [
        ("z, 0", "", ""),
        ("z", "", "Sums takes msg as one row"),
        ("e, 0", " step 4", "Sums takes neighbouring rows of att together"),
    ],
    ids=["packed", "one row", "neighbours"],
)
def test_a_scheduled_kernel_that_cannot_be_packed_says_so(row, step, reason):
    kernel, report_of_it = parse_scheduled(KERNEL.format(row=row, step=step)), Report.silent()
    (made,) = repack((kernel,), (Packing("msg", "D", ("att",)),), report_of_it)
    assert report_of_it.refusals == ([f"att stays out of msg: {reason}"] if reason else [])
    arrays = {buffer.name: buffer.extents for buffer in made.buffers}
    assert arrays["msg"] == (("edges", "D") if reason else ("edges", 12))
    assert ("att" in arrays) == bool(reason)


def test_what_is_summed_in_place_stays_apart_from_what_is_stored():
    """A target clears rows that begin as zeros: all of a row, or, where anything stores there first, nothing."""
    text = (EXAMPLES[0].parent.parent / "kge" / "transf.emb").read_text()
    options = {"negatives": "tail:1", "reorder": False, "aggregate": False, "grad": True, "pack": True}
    packed = compiled(text, options=options)
    assert not packed.stages["loops"].program.packed
    said = report(packed, "pack", "loops")
    assert any("one is summed in place, from zeros, and the other is stored" in each for each in said.refusals)


NEGATIVES = """dim D = 3
score Product(h: entity, t: entity, n: negatives of entity):
    param E[entity, D]
    return prod(1 + 0.2 * sum(E[k] * E[t]) for k in n)
"""


def test_rows_that_a_kernel_has_as_one_stay_as_they_are():
    """A fact's numbers of each negative are a row, and those of all facts one where the negatives are flattened."""
    asked = {"negatives": "own:3", "inspect": "chunks", "pack": True, "grad": True}
    compilation = compiled(NEGATIVES, options=asked, on_demand=True)
    assert any("as one" in reason for reason in compilation.stages["kernels"].passes[-1].refusals)
    random = np.random.default_rng(0)
    inputs = {"E": random.normal(size=(5, 3)).astype(np.float32), "n": random.integers(0, 5, (4, 3)).astype(np.int32)}
    inputs |= {name: random.integers(0, 5, 4).astype(np.int32) for name in "ht"}
    upstream = random.normal(size=4).astype(np.float32)
    scores, slopes = reference.gradients(NEGATIVES, inputs, {}, upstream, ["E"], arithmetic=reference.FLOAT64)
    got, found = compilation.run(inputs, "kernels", grad=upstream)
    np.testing.assert_allclose(got, scores, rtol=1e-5)
    np.testing.assert_allclose(found["E"], slopes["E"], rtol=1e-4, atol=1e-5)
    assert compilation.stages["cuda"].program is not None
