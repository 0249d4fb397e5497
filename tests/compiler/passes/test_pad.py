"""Padded rows of what kernels make for one another: which, how far apart, with what numbers, and what memory says."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import memory
from explorer.compiler.compilation import compile_model
from explorer.compiler.ir.module import Packing
from explorer.compiler.ir.parse.kernels import parse_scheduled
from explorer.compiler.ir.parse.module import parse_module
from explorer.compiler.options import PADS
from explorer.compiler.report import Report
from explorer.compiler.schedule.repack import padded, repack
from explorer.runtime.data.graphs import load_graph
from explorer.runtime.liveness import kept_to_the_end
from tests.compiler.layers import buffers, layer, report
from tests.compiler.models import compiled
from tests.compiler.test_layers import EXAMPLES, check_gradients, check_result, tiny_graph
from tests.compiler.test_layers import compiled as small

EXAMPLE = {path.stem: path for path in EXAMPLES}
ODD = {"F": 41, "G": 41}
KINDS = ("output", "temporary")


def odd(**options):
    """RGAT with rows of 41 numbers."""
    return compiled(EXAMPLE["rgat"].read_text(), sizes=ODD, options=options)


def rows_of(stage):
    """By array that kernels of a stage make for one another, the last extent that each kernel knows it by, as a
    number."""
    module = stage.program
    found = {}
    for kernel in module.programs:
        for buffer in kernel.buffers:
            if buffer.kind in KINDS and len(buffer.extents) > 1 and buffer.name not in kept_to_the_end(module):
                last = buffer.extents[-1]
                found.setdefault(buffer.name, set()).add(dict(kernel.sizes).get(last, last))
    return found


@pytest.mark.parametrize("multiple", PADS)
@pytest.mark.parametrize("stage", ["loops", "slc", "kernels"])
def test_rows_between_kernels_begin_at_multiples(multiple, stage):
    found = rows_of(odd(pad=multiple).stages[stage])
    apart = -(-41 // multiple) * multiple if multiple else 41
    assert {"v23", "v25"} <= found.keys()
    assert all(lengths == {apart} for name, lengths in found.items() if name in ("v23", "v25"))
    assert not multiple or all(length % multiple == 0 for lengths in found.values() for length in lengths)


def test_results_and_gradients_and_tensors_lie_as_they_are():
    plain, wide = (odd(pad=multiple, grad=True).stages["loops"].program for multiple in (0, 8))
    same = {"param", "input", "upstream", "structure", "index"}

    def given(module):
        return {
            (buffer.name, buffer.extents)
            for kernel in module.programs
            for buffer in kernel.buffers
            if buffer.kind in same or buffer.name in module.kept
        }

    assert given(plain) == given(wide)
    assert wide.packed


def test_it_says_what_it_costs():
    said = report(odd(pad=32), "pad", "loops")
    assert said.said[0] == (
        "rows of v25 are 64 numbers apart: 92 of 256 bytes are padding, and a row touches 6 sectors of 32 bytes,"
        " without it 6"
    )


def test_it_is_off_unless_it_is_asked_for():
    said = report(odd(), "pad", "loops")
    assert not said.changed
    assert "rows of v25 are 41 numbers apart, and not all begin at 16 bytes: the option pad is 0" in said.refusals
    assert report(layer("rgat"), "pad", "loops").refusals == ()  # rows of 64 numbers all begin so


def test_the_text_says_what_is_padded():
    text = odd(pad=8).stages["loops"].text
    assert text.split("\n")[0].endswith("packed v25 = [G] stride 48, v23 = [F] stride 48")
    assert parse_module(text).packed == (Packing("v25", "G", (), 48), Packing("v23", "F", (), 48))


@pytest.mark.parametrize("stride", [4, 40])
def test_rows_that_are_edited_to_overlap_are_refused(stride):
    """Their last elements would be read where the next row begins, or not at all."""
    loops = odd(pad=8).stages["loops"].text
    text, options = EXAMPLE["rgat"].read_text(), {"pad": 8}
    edited = {"loops": loops.replace("v25 = [G] stride 48", f"v25 = [G] stride {stride}")}
    found = compile_model(text, sizes=ODD, options=options, edited=edited, on_demand=True)
    (edit,) = found.edits
    assert edit.verdict.status == "refused"
    assert f"rows of v25 hold 41 numbers, and begin {stride} apart" in edit.verdict.message


def test_a_packed_row_is_padded_with_its_columns():
    both = odd(pad=16, pack=True)
    assert Packing("v25", "G", ("v27",), 48) in both.stages["loops"].program.packed
    assert buffers(both)["v25"] == ("src_pairs", 48)
    assert rows_of(both.stages["kernels"])["v25"] == {48}
    assert parse_module(both.stages["loops"].text).packed == both.stages["loops"].program.packed


@pytest.mark.parametrize("multiple", [4, 16])
@pytest.mark.parametrize("name", ["rgat", "rgat_heads", "hgt"])
@pytest.mark.parametrize("on", ["loops", "slc", "slc.opt3", "dlc", "dae", "cpu", "kernels"])
def test_the_numbers_are_those_of_the_reference(name, on, multiple):
    compilation = small(EXAMPLE[name], pad=multiple)
    assert report(compilation, "pad", "loops").changed
    check_result(compilation, on, tiny_graph())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rgat", {}),
        *(
            pytest.param(name, options, marks=pytest.mark.sweep)
            for name in ("rgat", "rgat_heads", "hgt")
            for options in ({"compact": False}, {"pack": True}, {"apart": True})
        ),
    ],
)
def test_gradients(name, options):
    compilation = small(EXAMPLE[name], pad=8, grad=True, **options)
    assert report(compilation, "pad", "loops").changed
    check_gradients(compilation, ["loops", "slc", "dlc", "cpu", "kernels"])


def test_a_schedule_is_that_of_rows_as_they_are():
    """A layout leaves a schedule as it is."""
    wide, plain = odd(pad=8, grad=True), odd(grad=True)
    assert wide.schedule == plain.schedule
    pairs = zip(wide.stages["kernels"].program.programs, plain.stages["kernels"].program.programs, strict=True)
    assert all(kernel.schedule == other.schedule for kernel, other in pairs)
    assert wide.stages["cuda"].available


def test_the_account_of_memory_has_the_padding():
    counts = memory.set_sizes(load_graph("small"))
    options = {"reorder": True, "compact": True, "grad": False}
    plain, wide = (memory.account("rgat", counts, {**options, "pad": pad}, ODD) for pad in (0, 16))
    made = {name: each["bytes"] for name, each in plain["temporaries"].items()}
    padding = 4 * (48 - 41) * counts["src_pair"]
    assert wide["temporaries"]["v25"]["bytes"] == made["v25"] + padding


KERNEL = """scheduled Sums  template rows  threads 32
  size D = 6
  temporary m[edges, D]
  output out[edges], parts[edges, D]
  for e in 0..ceil(edges / 4) @block
    for l in 0..4 @lane
      index z = e * 4 + l
      where z < edges
        u = m[{row}]
        out[z] = u
        parts[{row}] = u
"""


def test_what_only_scheduled_kernels_make_is_padded_too():
    kernel, said = parse_scheduled(KERNEL.format(row="z, 0")), Report.silent()
    said.options = compiled(EXAMPLE["rgcn"].read_text(), options={"pad": 8}).options
    (made,) = padded((kernel,), ("out",), said)
    assert {buffer.name: buffer.extents[-1] for buffer in made.buffers} == {"m": "D", "out": "edges", "parts": 8}
    assert padded((kernel,), ("out", "parts"), said) == (kernel,)


def test_a_kernel_that_has_rows_as_one_keeps_them():
    kernel, said = parse_scheduled(KERNEL.format(row="z")), Report.silent()
    assert repack((kernel,), (Packing("m", "D", (), 8),), said) == (kernel,)
    assert said.refusals == ["rows of m are not padded: Sums takes m as one row"]


@pytest.mark.parametrize("name", ["sls", "spmm_max"])
def test_gradients_of_an_op_between_kernels(name):
    """Arrays that a backward pass hands on, against the same without padding."""
    text = (Path(EXAMPLES[0]).parents[1] / "embedding" / f"{name}.emb").read_text()
    plain, wide = (compiled(text, sizes={"D": 5}, options={"grad": True, "pad": pad}) for pad in (0, 16))
    assert wide.stages["loops"].program.packed
    random = np.random.default_rng(3)
    count = 7
    arrays = {
        "sls": {"T": random.normal(size=(count, 5)), "ptr": [0, 3, 3, 6], "idx": [1, 2, 2, 6, 0, 1]},
        "spmm_max": {
            **{"X": random.normal(size=(count, 5)), "value": random.normal(size=6)},
            **{"row": [0, 0, 0, 2, 2, 2], "num_rows": 3, "col": [1, 2, 2, 6, 0, 1]},
        },
    }[name]
    inputs = {
        key: np.asarray(each, np.float32 if np.asarray(each).dtype.kind == "f" else np.int32)
        for key, each in arrays.items()
    }
    upstream = random.normal(size=(3, 5)).astype(np.float32)
    for on in ("loops", "dlc", "cpu", "kernels"):
        want, slopes = plain.run(inputs, on, grad=upstream)
        got, found = wide.run(inputs, on, grad=upstream)
        np.testing.assert_array_equal(got, want, err_msg=on)
        assert found.keys() == slopes.keys()
        for tensor, slope in slopes.items():
            np.testing.assert_array_equal(found[tensor], slope, err_msg=f"{on} {tensor}")
