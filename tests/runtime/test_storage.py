"""Tables in float16, bfloat16 and int8 in a run, in a module of PyTorch, beside PyTorch, and in an extension."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.stored import packed
from explorer.runtime.arrays import check_inputs
from explorer.runtime.data.triples import InputError
from explorer.runtime.run import RunRequest, execute
from explorer.runtime.runs.console import summary
from explorer.runtime.targets.gpu.program import GpuProgram

torch = pytest.importorskip("torch", reason="what is stored is held against PyTorch's types")

from tests.stored_models import BAGS, CASES, GRAPH, MATRIX, NAMES, QUANTISED, STORED, TRIPLES, close  # noqa: E402

DTYPES = {**STORED, "i8": torch.int8}
ROUNDING = {"f16": 2.0**-11, "bf16": 2.0**-8}
"""The most that rounding to the nearest changes of a number, as a share of it."""


def tensors_of(model: Any, inputs: dict[str, Any], storage: str) -> dict[str, Any]:
    """The inputs as a caller of a module has them, tensors of the types that are declared."""
    found = {name: each if isinstance(each, int) else torch.from_numpy(each) for name, each in inputs.items()}
    return {name: each.to(DTYPES[storage]) if name in model.narrow else each for name, each in found.items()}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("model", "storage", "size"), CASES, ids=NAMES)
def test_modules_take_the_types_and_give_gradients_of_them(model: Any, storage: str, size: int) -> None:
    inputs = model.inputs(size)
    given = tensors_of(model, inputs, storage)
    module = model.compiled(size, storage).torch()
    shape = model.expected(inputs, storage)[0].shape
    upstream = np.random.default_rng(9).normal(size=shape).astype(np.float32)
    want, slopes = model.expected(inputs, storage, upstream)
    with torch.no_grad():
        close(module(**given).numpy(), want)
    for name in slopes:
        given[name].requires_grad_()
    result = module(**given)
    assert result.dtype == torch.float32
    result.backward(torch.from_numpy(upstream))
    for name, slope in slopes.items():
        assert given[name].grad.dtype == given[name].dtype
        off = ROUNDING.get(storage, 0.0) * np.abs(slope) if name in model.narrow else 0.0
        assert np.all(np.abs(given[name].grad.double().numpy() - slope) <= off + 5e-6 * np.abs(slope).max())


def test_a_module_holds_parameters_as_they_are_stored() -> None:
    module = BAGS.compiled(8, "bf16").torch(row=30)
    assert module.T.dtype == torch.bfloat16
    again = BAGS.compiled(8, "bf16").torch(row=30)
    again.load_state_dict(module.state_dict())
    given = tensors_of(BAGS, BAGS.inputs(8), "bf16")
    del given["T"]
    assert torch.equal(module(**given), again(**given))
    optimiser = torch.optim.SGD(module.parameters(), lr=0.5)
    module(**given).square().sum().backward()
    optimiser.step()
    assert not torch.equal(module.T, again.T)


def test_other_types_are_refused() -> None:
    given = tensors_of(BAGS, BAGS.inputs(8), "f16")
    with pytest.raises(ValueError, match=r"T holds torch.float16, but it is declared to be stored in torch.bfloat16"):
        BAGS.compiled(8, "bf16").torch()(**given)
    with pytest.raises(ValueError, match=r"T holds torch.float16, but compiled kernels compute in torch.float32"):
        BAGS.compiled(8, "f32").torch()(**given)


def run(text: str, **fields: Any) -> dict[str, Any]:
    return list(execute(RunRequest(text=text, repeat=1, data="", **fields)))[-1]


@pytest.mark.parametrize("on", ["cpu", "dae"])
@pytest.mark.parametrize("storage", ["f16", "bf16"])
def test_a_run_is_held_against_what_is_stored_and_says_what_rounding_changed(on: Any, storage: str) -> None:
    found = run(BAGS.compiled(16, storage).text, on=on)
    assert found["matches_reference"], found["message"]
    assert found["rounding"]["tensors"] == {"T": storage}
    # A sum of independent errors is to a sum of independent numbers as one of them is to one of these, on average.
    share = found["rounding"]["root_mean_square"]
    assert 0.2 * ROUNDING[storage] < share < ROUNDING[storage]
    assert f"rounded T: {storage}: against tables of float32, the result differs by" in summary(found)


def test_a_run_of_whole_numbers_has_rounded_nothing() -> None:
    found = run(QUANTISED.compiled(16, "i8").text, on="cpu")
    assert found["matches_reference"], found["message"]
    assert found["rounding"] is None


@pytest.mark.parametrize("model", [TRIPLES, GRAPH], ids=["score", "layer"])
def test_gradients_of_a_run(model: Any, tmp_path: Path) -> None:
    text, file = model.compiled(8, "bf16").text, tmp_path / "few.tsv"
    file.write_text("".join(f"e{i % 7}\tr{i % 2}\te{i * i % 9}\n" for i in range(40)))
    data = str(file) if model is TRIPLES else "tiny"
    request = RunRequest(text=text, on="cpu", data=data, batch=50, repeat=1, options={"grad": True})
    found = list(execute(request))[-1]
    assert found["matches_reference"], found["message"]
    assert set(found["gradients"]) >= {*model.learnt}
    assert found["rounding"]["tensors"] == dict.fromkeys(model.narrow, "bf16")


def test_bytes_of_a_run_are_those_that_are_stored() -> None:
    found = {}
    for storage in ("f32", "f16", "i8"):
        text = BAGS.text.replace("param T[row, D]: S", f"input T[row, D]: {storage}").replace("D = 8", "D = 32")
        found[storage] = run(text, on="cpu")
    read = found["f32"]["data"]["entries"] * found["f32"]["sizes"]["D"]
    least = {storage: each["limits"]["stream_bytes"] for storage, each in found.items()}
    assert least["f32"] - least["f16"] == 2 * read
    assert least["f32"] - least["i8"] == 3 * read


@pytest.mark.parametrize("storage", ["f16", "bf16", "i8"])
def test_eager_pytorch_beside_it_picks_rows_as_they_are_stored(storage: str, tmp_path: Path) -> None:
    from explorer.runtime.peers.torch_code import TorchModel

    compilation, inputs = MATRIX.compiled(8, storage), MATRIX.inputs(8)
    inputs["X"] = np.rint(60 * inputs["X"])
    arrays, finish = compilation.encode(compilation, inputs, None)
    peer = TorchModel(compilation.stages["graph"].program, arrays, "cpu")
    assert peer._tensors["X"].dtype == DTYPES[storage]
    close(finish(peer.run()[0].numpy(), {})[0], MATRIX.expected(inputs, storage)[0])


@pytest.mark.parametrize(
    ("model", "storage"),
    [pytest.param(BAGS, "bf16", marks=pytest.mark.sweep, id="bf16"), pytest.param(QUANTISED, "i8", id="i8")],
)
def test_an_extension_takes_the_types(model: Any, storage: str, tmp_path: Path) -> None:
    from explorer.runtime.export.folder import export, package_of
    from tests.runtime.export.emulated import build, tried

    compilation = model.compiled(8, storage)
    export(compilation, tmp_path, True)
    build(tmp_path, package_of(compilation.name))
    done = tried(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "5 inputs match the float64 reference" in done.stdout


@pytest.mark.parametrize("stage", ["loops", "kernels", "dlc"])
def test_an_edited_stage_is_held_against_what_is_stored(stage: str) -> None:
    plain = QUANTISED.compiled(8, "i8")
    text = plain.stages[stage].text
    edited = explorer.compile(plain.text, edited={stage: text.replace("scale1", "factor")})
    assert [edit.verdict.status for edit in edited.edits] == ["matches"]
    squared = explorer.compile(plain.text, edited={stage: text.replace("scale1 * t", "t * t")})
    assert [edit.verdict.status for edit in squared.edits] == ["wrong"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("storage", ["f16", "bf16"])
@pytest.mark.parametrize("model", [BAGS, MATRIX, TRIPLES, GRAPH], ids=["bags", "matrix", "triples", "graph"])
def test_bits_are_the_numbers_that_they_are_of(model: Any, storage: str) -> None:
    """In every family, on each side: 16-bit floats that were packed before."""
    compilation, inputs = model.compiled(41, storage), model.inputs(41)
    bits = {name: packed(inputs[name], storage) for name in model.narrow}
    want = model.expected(inputs, storage)[0]
    for on in ("cpu", "graph"):
        close(compilation.run({**inputs, **bits}, on), want)


class OnDevice(torch.Tensor):
    """A tensor that says it lies on a GPU."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


@pytest.mark.parametrize(("storage", "share"), [("f32", 4), ("f16", 2), ("bf16", 2), ("i8", 1)])
def test_a_gpu_is_given_the_bits(fake_cuda: Any, storage: str, share: int) -> None:
    """As many bytes of a table as its elements have, and what lies on the device is taken where it lies."""
    compilation, inputs = MATRIX.compiled(8, storage), MATRIX.inputs(8)
    inputs["X"] = np.rint(60 * inputs["X"])
    arrays, finish = compilation.encode(compilation, inputs, None)
    checked, extents = check_inputs(compilation.stages["loops"].program, arrays)
    assert checked["X"].nbytes == share * inputs["X"].size
    bound = GpuProgram.of(compilation).bind(checked, extents)
    want = MATRIX.expected(inputs, storage)[0]
    close(finish(*bound.run())[0], want)
    there = bound.arrays["X"]
    again = GpuProgram.of(compilation).bind({**checked, "X": there}, extents)
    assert again.arrays["X"] is there
    if storage == "f16":
        halves = there.view(np.float16)
        again = GpuProgram.of(compilation).bind({**checked, "X": halves}, extents)
        assert again.arrays["X"].dtype == np.uint16
        close(finish(*again.run())[0], want)
    if storage != "f32":
        import cupy

        tensor = torch.from_numpy(inputs["X"]).to(DTYPES[storage]).as_subclass(OnDevice)
        again = GpuProgram.of(compilation).bind({**checked, "X": tensor}, extents)
        assert again.arrays["X"].data.ptr == tensor.data_ptr()
        close(finish(*again.run())[0], want)
        with pytest.raises(InputError, match="X holds float32 on the device"):
            GpuProgram.of(compilation).bind({**checked, "X": cupy.asarray(inputs["X"])}, extents)
