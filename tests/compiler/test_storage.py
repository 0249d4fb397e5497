"""Tables in float16, bfloat16 and int8: every stage and target computes what float64 does of the numbers stored."""

import numpy as np
import pytest
import torch

import explorer
from explorer.compiler.effects.effect import BYTES, counted
from explorer.compiler.effects.figures import predicted
from explorer.compiler.interpret.asked_bytes import asked_bytes
from explorer.compiler.ir.graph import print_graph
from explorer.compiler.ir.module import print_module
from explorer.compiler.ir.parse import ParseError, parse_graph, parse_module
from explorer.compiler.stored import packed, rounded, unpacked
from explorer.compiler.target import TARGETS
from explorer.runtime.data.triples import InputError
from explorer.runtime.targets.cpu import prepare_once
from explorer.runtime.targets.dae import simulate
from tests.compiler.ops import INTERPRETED
from tests.stored_models import BAGS, CASES, FLOATS, NAMES, QUANTISED, STORED, close

cases = pytest.mark.parametrize(("model", "storage", "size"), CASES, ids=NAMES)


@pytest.mark.sampled(6)
@cases
def test_every_stage_and_target_means_the_same(model, storage, size):
    compilation, inputs = model.compiled(size, storage), model.inputs(size)
    want, _ = model.expected(inputs, storage)
    for on in (*(INTERPRETED if size < 100 else ("graph",)), "cpu", "dae"):
        close(compilation.run(inputs, on), want)


@pytest.mark.sampled(6)
@cases
def test_gradients(model, storage, size):
    compilation, inputs = model.compiled(size, storage, grad=True), model.inputs(size)
    shape = model.expected(inputs, storage)[0].shape
    upstream = np.random.default_rng(9).normal(size=shape).astype(np.float32)
    want, slopes = model.expected(inputs, storage, upstream)
    for on in ("cpu", *(("graph", "loops", "kernels", "dae") if size < 41 else ())):
        result, found = compilation.run(inputs, on, grad=upstream)
        close(result, want)
        assert found.keys() == slopes.keys()
        for name, slope in slopes.items():
            close(found[name], slope, 5e-6)


def test_rounding_is_to_the_nearest_and_ties_to_even():
    values = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-7), 3.0e38, 1e-40, np.inf, 70000.0, -0.0], np.float32)
    for storage, dtype in STORED.items():
        want = torch.from_numpy(values).to(dtype).float().numpy()
        np.testing.assert_array_equal(rounded(values, storage), want)
        again = packed(rounded(values, storage), storage)
        np.testing.assert_array_equal(again, packed(values, storage))
    assert np.isnan(rounded(np.array([np.nan]), "bf16")).all()
    np.testing.assert_array_equal(rounded([0.5, 1.5, -200.0, 127.4], "i8"), [0, 2, -128, 127])


@pytest.mark.parametrize("bits", [np.arange(1 << 16, dtype=np.uint16)], ids=["all"])
def test_the_processor_reads_every_16_bits(bits):
    """Small ones, infinities and what is no number too: each in a bag of its own."""
    for storage in STORED:
        text = f"op Each(b: bag of row):\n    param T[row]: {storage}\n    return sum(T[i] for i in b)\n"
        program = explorer.compile(text, on_demand=True).stages["loops"].program
        arrays = {"idx": np.arange(len(bits)), "bag_ptr": np.arange(len(bits) + 1), "T": bits}
        got, _ = prepare_once(program).bind(arrays).run()
        np.testing.assert_array_equal(got, unpacked(bits, storage))


@pytest.mark.parametrize("name", ["graph", "loops", "kernels", "slc.opt3", "dlc"])
def test_stages_are_read_back(name):
    for model, storage in ((FLOATS["bags"], "bf16"), (FLOATS["graph"], "f16"), (QUANTISED, "i8")):
        stage = model.compiled(8, storage).stages[name]
        assert f": {storage}" in stage.text
        program = parse_graph(stage.text) if name == "graph" else parse_module(stage.text)
        lines = print_graph(program) if name == "graph" else print_module(program)
        assert "\n".join(line.text for line in lines) == stage.text.rstrip("\n")


def test_a_stage_says_what_elements_are_stored_in():
    with pytest.raises(ParseError, match="stored as f32, f16, bf16, i8, not as f8"):
        parse_graph(BAGS.compiled(8, "bf16").stages["graph"].text.replace(": bf16", ": f8"))


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("param T[row, D]: bfloat", "elements are not stored as 'bfloat': did you mean 'bfloat16'?"),
        ("param T[row, D]: double", "elements are not stored as 'double'"),
        ("param T[row, D]: int8", "'T' cannot be learnt: i8 holds whole numbers"),
        ("param T[row, D]:", None),
        ("param T[row, D]: f16 f16", None),
    ],
)
def test_what_is_no_storage_is_said(declared, message):
    text = BAGS.text.replace("param T[row, D]: S", declared)
    found = explorer.compile(text).diagnostics
    assert found[0].span.line == 3
    assert message is None or found[0].message.startswith(message)


@pytest.mark.parametrize(
    ("word", "storage"), [("half", "f16"), ("float16", "f16"), ("bfloat16", "bf16"), ("f32", "f32")]
)
def test_other_names(word, storage):
    graph = explorer.compile(BAGS.text.replace(": S", f": {word}")).stages["graph"].program
    assert [tensor.storage for tensor in graph.tensors if tensor.name == "T"] == [storage]


@pytest.mark.parametrize("wrong", [0.5, 200.0, np.nan])
def test_what_is_no_whole_number_of_8_bits_is_refused(wrong):
    inputs = QUANTISED.inputs(8)
    inputs["T"] = inputs["T"].astype(np.float32)
    inputs["T"][2, 3] = wrong
    with pytest.raises(InputError, match="whole numbers from -128 to 127"):
        QUANTISED.compiled(8, "i8").run(inputs, "cpu")


@pytest.mark.parametrize(("storage", "share"), [("f32", 1.0), ("bf16", 0.5), ("f16", 0.5), ("i8", 0.25)])
def test_bytes(storage, share):
    """Of rows of 128, kernels ask for as many bytes as elements have, and the machine for as many lines."""
    text = BAGS.text.replace("param T[row, D]: S", f"input T[row, D]: {storage}").replace("D = 8", "D = 128")
    compilation = explorer.compile(text, on_demand=True)
    (kernel,) = compilation.stages["kernels"].program.programs
    inputs = BAGS.inputs(128)
    inputs["T"] = np.rint(inputs["T"] * 100)
    arrays, _ = compilation.encode(compilation, inputs, None)
    asked = asked_bytes((kernel,), arrays)[kernel.name]
    rows, entries = len(inputs["ptr"]) - 1, len(inputs["idx"])
    padded = 8 * -(-np.diff(inputs["ptr"]) // 8).sum()  # whole batches of rows are asked for
    assert padded * 128 * 4 * share <= asked - rows * 128 * 4 <= padded * 128 * 4 * share + 4 * (2 * padded + 4 * rows)
    requests = simulate(compilation.stages["dlc"].program, arrays).account["memory"]["requests"]
    assert entries * 128 * 4 * share / 64 <= requests <= entries * (128 * 4 * share / 64 + 2) + rows


def test_predicted_bytes_and_those_of_a_kernel():
    """A bag's weighted row of 128: what is read of the table by what it is stored in, all else at 4 bytes."""
    found = {}
    for storage in ("f32", "f16"):
        compilation = BAGS.compiled(128, storage)
        graph, (nest,) = compilation.stages["graph"].program, compilation.stages["loops"].program.programs
        rows = {"entry": 1000, "bag": 10, "row": 50}
        moved = predicted(graph, graph.values, {graph.result}, rows, TARGETS["sm_90"])
        found[storage] = counted(nest)[BYTES], moved.bytes
    assert found["f32"][0] - found["f16"][0] == 2 * 128
    assert found["f32"][1] - found["f16"][1] == 2 * 128 * 1000
