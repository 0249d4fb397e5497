"""Addresses are sent in place of indices (Ember §7.3)."""

import numpy as np
import pytest

import explorer
from explorer.compiler.interpret import run_program
from explorer.compiler.interpret.dlc import pushed
from explorer.machine.parameters import MachineParameters
from explorer.runtime.targets.dae import simulate
from tests.compiler import ops
from tests.compiler.layers import FEW_PAIRS

GOLDEN = """\
  slc.for (%r from 0 to rows) {
    %begin = slc.mem_str(row_ptr[%r])
    %n = slc.alu_str(+, %r, 1)
    %end = slc.mem_str(row_ptr[%n])
    slc.for (%z from %begin to %end) {
      %value1 = slc.mem_str(value[%z])
      %icol = slc.mem_str(col[%z])
      %buf = slcv.buf_str<4>()
      slcv.for<4> ((%d, %msk) from 0 to D) {
        %x = slcv.mem_str<4>(X[%icol, %d], %msk)
        slc.push(%buf, %x)
      }
      %a = slc.alu_str(*, %r, D)
      slcv.callback {
        value1 = slcv.to_val(splat<4>(%value1))[0]
        at = slcv.to_val(splat<4>(%a))[0]
        buf = slc.to_val(%buf)
        for d in 0..D step 4
          x = buf[d]
          u = value1 * x
          index a1 = at + d
          out[a1] += u
      }
    }
  }
"""
SPMM = (ops.FOLDER / "spmm.emb").read_text()


def addressed(text, **options):
    return ops.compiled(text, **{"vlen": 4, "address_streams": True, **options})


def read(name):
    return (ops.FOLDER / f"{name}.emb").read_text()


def data(compilation):
    graph = compilation.stages["graph"].program
    return ops.encoded(graph, *ops.structure_of(graph, (2, 0, 2, 1)))


def refusals(compilation):
    return next(r for r in compilation.stages["slc.opt3"].passes if r.name == "address_streams").refusals


def test_the_address_of_a_row_is_sent_and_nothing_counted():
    assert GOLDEN in addressed(SPMM).stages["slc.opt3"].text


def test_no_token_tells_of_a_segments_end():
    plain, compilation = addressed(SPMM, address_streams=False), addressed(SPMM)
    arrays = data(compilation)
    tokens = [
        [token for token, _ in pushed(each.stages["dlc"].program.programs[0], arrays)] for each in (plain, compilation)
    ]
    row = ["d_end", "d_end", "z_end"]
    assert tokens == [[*row, "z_end", *row, "d_end", "z_end", "done"], [*["d_end"] * 5, "done"]]


def test_what_is_sent_is_the_first_element_of_a_row():
    compilation = addressed(read("spmm_coo"))
    arrays = data(compilation)
    records = pushed(compilation.stages["dlc"].program.programs[0], arrays)
    assert [words[4] for token, words in records if token == "d_end"] == [5 * row for row in arrays["row"]]


@pytest.mark.parametrize("path", ops.OPS, ids=lambda path: path.stem)
def test_the_machine_reaches_the_same_elements(path):
    text = path.read_text()
    compilation = addressed(text)
    arrays = data(compilation)
    want, _ = run_program(ops.compiled(text).stages["loops"].program, arrays)
    got = simulate(compilation.stages["dlc"].program, arrays, MachineParameters()).output
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_without_the_option_nothing_changes():
    compilation = addressed(SPMM, address_streams=False)
    report = next(r for r in compilation.stages["slc.opt3"].passes if r.name == "address_streams")
    assert not report.changed
    assert not report.refusals


@pytest.mark.parametrize(
    ("example", "grad", "sentence"),
    [
        ("embedding/sddmm", False, "SDDMM_0: z stays, since out has one dimension, so that its index is its address"),
        ("rgnn/rgcn", True, "RGCN_1: n1 stays, since it is a part of several addresses"),
        ("rgnn/hgt", False, "HGT_0: h stays, since it is not sent together with n"),
        ("rgnn/rgat", True, "RGAT_9: f14 stays, since the core needs the index itself"),
    ],
)
def test_other_indices_stay(example, grad, sentence):
    text, options = (ops.FOLDER.parent / f"{example}.emb").read_text(), {"address_streams": True, "grad": grad}
    counts = FEW_PAIRS if example == "rgnn/rgat" else None
    assert sentence in refusals(explorer.compile(text, options=options, counts=counts))


def test_several_indices_make_one_address():
    compilation = addressed(read("spattn_replicated"))
    arrays = data(compilation)
    *records, _ = pushed(compilation.stages["dlc"].program.programs[0], arrays)
    assert [words[0] for _, words in records] == list(range(0, 5 * len(records), 5))
    assert {len(words) for _, words in records} == {4 + 8}


@pytest.mark.parametrize("path", ops.OPS, ids=lambda path: path.stem)
def test_what_is_stored_in_another_loop_has_the_same_address(path):
    """A row that gradients read is stored beside the loop whose sums it takes: `b * D` is a stream of both."""
    text = path.read_text()
    options = {"grad": True, "vlen": 4}
    plain = ops.compiled(text, **options)
    both = ops.compiled(text, address_streams=True, store_streams=True, **options)
    arrays = data(plain)
    want, gradients = run_program(plain.stages["loops"].program, arrays)
    got, found = run_program(both.stages["dlc"].program, arrays)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(found[name], gradient, rtol=1e-5, atol=1e-5, err_msg=name)
