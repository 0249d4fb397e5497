"""Kernels bound to a device's arrays: what is allocated, given, launched, refused. The device is a pretended one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.compiler.codegen.text import Code, Launch
from explorer.compiler.ir.kernels import Count
from explorer.compiler.ir.loops import Buffer
from explorer.runtime.arrays import check_inputs
from explorer.runtime.data.triples import InputError, Triples
from explorer.runtime.encode.batch import draw
from explorer.runtime.encode.layers import upstream_names
from explorer.runtime.encode.scores import graph_of
from explorer.runtime.targets.gpu import device as gpu_device
from explorer.runtime.targets.gpu.cuda_graph import waiting
from explorer.runtime.targets.gpu.device import DeviceFault, NoGpu, current_device, missing
from explorer.runtime.targets.gpu.memory import lifetimes, place
from explorer.runtime.targets.gpu.program import GpuProgram

SIZE = {"n": 1000}
BIAS = "score Bias(h: entity, r: relation, t: entity):\n    param a[entity]\n    return a[h]\n"


def buffer(name: str, kind: str, *extents: Any) -> Buffer:
    return Buffer(name=name, kind=kind, extents=extents, origin=())


def launch(symbol: str, *arguments: str) -> Launch:
    return Launch(symbol, arguments, Count((("n", 64),)), 128)


def chain(shared_bytes: int = 0) -> Code:
    """x -> a -> b -> out, each of n numbers: a is over when out is made."""
    buffers = (buffer("x", "param", "n"), *(buffer(name, "output", "n") for name in ("a", "b", "out")))
    steps = (launch("first", "x", "a", "n"), launch("second", "a", "b", "n"))
    last = Launch("third", ("b", "out", "n"), Count((("n", 64),)), 128, 2, shared_bytes)
    return Code((), (*steps, last), buffers, made=frozenset({"a", "b", "out"}))


def test_arrays_that_are_never_needed_at_once_share_memory(fake_cuda: Any) -> None:
    bound = GpuProgram(chain(), "out").bind({"x": np.zeros(300_000, np.float32)}, {"n": 300_000})
    pointers = {name: bound.arrays[name].data.ptr for name in ("a", "b", "out")}
    assert pointers["a"] == pointers["out"] != pointers["b"]
    assert bound.made_bytes == 1_200_128 + 1_200_000  # two of them, the first up to the next 256 bytes
    assert bound.given_bytes == 1_200_000


def test_small_arrays_share_nothing(fake_cuda: Any) -> None:
    """Kernels that run side by side would have to wait for the place."""
    bound = GpuProgram(chain(), "out").bind({"x": np.zeros(1000, np.float32)}, SIZE)
    assert len({bound.arrays[name].data.ptr for name in ("a", "b", "out")}) == 3


def test_a_place_is_free_only_while_nobody_else_needs_it() -> None:
    sizes = {"a": 100, "b": 300, "c": 100, "d": 200}
    needed = {"a": (0, 1), "b": (0, 2), "c": (2, 3), "d": (3, 3)}
    placed = place(needed, sizes)
    for one in sizes:
        for other in sizes:
            apart = (
                placed.offsets[one] + sizes[one] <= placed.offsets[other]
                or placed.offsets[other] + sizes[other] <= placed.offsets[one]
            )
            at_once = needed[one][0] <= needed[other][1] and needed[other][0] <= needed[one][1]
            assert one == other or apart or not at_once
    assert placed.total == 612
    assert all(offset % 256 == 0 for offset in placed.offsets.values())


def test_what_a_caller_gets_is_kept_to_the_end() -> None:
    steps = chain().launches
    assert lifetimes(("a", "b", "out"), steps, ("a",)) == {"a": (0, 3), "b": (1, 2), "out": (2, 2)}
    assert lifetimes(("unused",), steps, ()) == {}
    assert lifetimes(("unused",), steps, ("unused",)) == {"unused": (3, 3)}


def test_launching_allocates_nothing_and_passes_grids_and_shared_memory(fake_cuda: Any) -> None:
    bound = GpuProgram(chain(shared_bytes=70_000), "out").bind({"x": np.zeros(1000, np.float32)}, SIZE)
    allocated = fake_cuda.allocated
    fake_cuda.log.clear()
    bound.launch()
    bound.launch()
    assert fake_cuda.allocated == allocated
    assert fake_cuda.log == ["first", "second", "third", "graph", "first", "second", "third"]
    assert fake_cuda.shared == {"third": 70_000}
    assert [each.grid for each in bound.launches] == [(16, 1), (16, 1), (16, 2)]


def test_numbers_reach_kernels_as_32_bit_integers_and_counts_are_computed(fake_cuda: Any) -> None:
    step = Launch("only", ("out", "tiles"), Count((("tiles", 1),)), 32)
    code = Code(
        (), (step,), (buffer("out", "output", "tiles"),), (("tiles", Count((("n", 64), (5, 1)))),), frozenset({"out"})
    )
    (bound,) = GpuProgram(code).bind({}, SIZE).launches
    assert bound.grid[0] == bound.arguments[1] == 21
    assert bound.arguments[1].dtype == np.int32


def test_more_than_kernels_count_to_is_refused(fake_cuda: Any) -> None:
    step = Launch("only", ("out", "n"), Count((("n", 64),)), 32)
    program = GpuProgram(Code((), (step,), (buffer("out", "output", "n"),), made=frozenset({"out"})))
    with pytest.raises(InputError, match="n is 2,146,435,072, but kernels of the GPU count in 32 bits: to 2,146,435,0"):
        program.bind({}, {"n": 2**31 - 2**20})


def test_index_arrays_that_nobody_must_give_are_made(fake_cuda: Any) -> None:
    step = Launch("group", ("r", "order", "out", "n"), Count((("n", 64),)), 128)
    buffers = (buffer("r", "index", "n"), buffer("order", "index", "n"), buffer("out", "output", "n"))
    program = GpuProgram(Code((), (step,), buffers, made=frozenset({"order", "out"})), "out")
    bound = program.bind({"r": np.zeros(1000, np.int32)}, SIZE)
    assert (bound.arrays["order"].dtype, bound.arrays["order"].shape) == (np.int32, (1000,))
    with pytest.raises(InputError, match="There is no array for r"):
        program.bind({}, SIZE)


def test_what_depends_on_the_graph_alone_runs_when_it_is_given(fake_cuda: Any) -> None:
    steps = (launch("first", "x", "a", "n"), replace(launch("group", "r", "order", "n"), once=True))
    last = launch("last", "a", "order", "out", "n")
    indices = (buffer("r", "index", "n"), buffer("order", "index", "n"))
    buffers = (buffer("x", "param", "n"), *indices, buffer("a", "output", "n"), buffer("out", "output", "n"))
    program = GpuProgram(Code((), (*steps, last), buffers, made=frozenset({"a", "order", "out"})), "out")
    bound = program.bind({"x": np.zeros(1000, np.float32), "r": np.zeros(1000, np.int32)}, SIZE)
    assert fake_cuda.log[-1] == "group"
    bound.launch()
    assert fake_cuda.log[-3:] == ["group", "first", "last"]
    assert len({bound.arrays[name].data.ptr for name in ("a", "order", "out")}) == 3
    assert lifetimes(("a", "order"), (*steps, last), ()) == {"a": (0, 2), "order": (0, 3)}


@pytest.mark.parametrize(("once", "counted", "blocks"), [(True, 3, 3), (True, 90, 16), (True, 0, 0), (False, 3, 16)])
def test_blocks_that_an_inspector_has_found_idle_are_not_launched(
    fake_cuda: Any, once: bool, counted: int, blocks: int
) -> None:
    """Of a count that is made again at each launch, only the kernels know."""
    count = replace(launch("count", "r", "used", "n"), once=once, writes=frozenset({"used"}))
    product = replace(launch("product", "r", "out", "n"), busy="used")
    buffers = (buffer("r", "index", "n"), buffer("used", "index", 1), buffer("out", "output", "n"))
    program = GpuProgram(Code((), (count, product), buffers, made=frozenset({"used", "out"})), "out")
    given = {"r": np.zeros(1000, np.int32), "used": np.array([counted], np.int32)}
    bound = program.bind(given, SIZE).launches
    assert [each.grid[0] for each in bound if each.launch.symbol == "product"] == ([blocks] if blocks else [])


def test_arrays_must_begin_where_vectors_may(fake_cuda: Any) -> None:
    import cupy

    shifted = cupy.ndarray((1000,), memptr=cupy.empty(1001).data + 4)
    with pytest.raises(InputError, match="x begins at an address of the device that is no multiple of 16 bytes"):
        GpuProgram(chain(), "out").bind({"x": shifted}, SIZE)


def test_a_grid_of_no_blocks_is_not_launched(fake_cuda: Any) -> None:
    bound = GpuProgram(chain(), "out").bind({"x": np.zeros(0, np.float32)}, {"n": 0})
    bound.launch()
    assert fake_cuda.log == []
    assert bound.run()[0].shape == (0,)


def test_arrays_of_the_device_are_used_as_they_are(fake_cuda: Any) -> None:
    import cupy

    given, out = cupy.empty(1000), cupy.empty(1000)
    elsewhere = SimpleNamespace(shape=(1000,), shared=given, __dlpack__=None, __dlpack_device__=lambda: (2, 0))
    bound = GpuProgram(chain(), "out").bind({"x": elsewhere, "out": out}, SIZE)
    assert bound.arrays["x"] is given
    assert bound.results() == (out, {})


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "There is no array for x"),
        ({"x": np.zeros(7, np.float32)}, r"x has the shape \[7\], but needs \[1000\]"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(fake_cuda: Any, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GpuProgram(chain(), "out").bind(arrays, SIZE)


def test_an_array_of_the_device_is_never_converted(fake_cuda: Any) -> None:
    import cupy

    with pytest.raises(InputError, match="x holds float64 on the device: it must be contiguous float32"):
        GpuProgram(chain(), "out").bind({"x": cupy.empty(1000, np.float64)}, SIZE)


def test_a_run_that_does_not_fit_is_refused_before_anything_is_allocated(fake_cuda: Any) -> None:
    program, inputs = GpuProgram(chain(), "out"), {"x": np.zeros(1000, np.float32)}
    with pytest.raises(InputError, match=r"its largest arrays are a\[1000\] with"):
        program.bind(inputs, SIZE, limit=10_000)
    fake_cuda.free_bytes = (256 << 20) + 10_000
    with pytest.raises(InputError, match="of the GPU's memory"):
        program.bind(inputs, SIZE)
    assert fake_cuda.allocated == 0
    fake_cuda.free_bytes = 1 << 30
    program.bind(inputs, SIZE, limit=17_000)


def test_a_kernel_that_breaks_is_told_in_a_sentence(fake_cuda: Any) -> None:
    fake_cuda.breaks = "second"
    bound = GpuProgram(chain(), "out").bind({"x": np.zeros(1000, np.float32)}, SIZE)
    with pytest.raises(DeviceFault, match=r"^The GPU stopped the kernels: an illegal memory access was encountered\.$"):
        bound.run()


@pytest.mark.parametrize("options", [{}, {"negatives": "tail:3"}, {"grad": True}])
def test_a_score_runs_on_the_device(fake_cuda: Any, root: Path, options: dict[str, Any]) -> None:
    text = (root / "examples" / "kge" / "transr.emb").read_text()
    compilation = explorer.compile(text, sizes={"D": 4, "K": 3}, options=options)
    ids = np.arange(12, dtype=np.int32) % 5
    inputs = draw(compilation, Triples("ring", "file", 5, 5, ids, ids, ids[::-1].copy()), 6)
    upstream = inputs.pop(next(iter(upstream_names(graph_of(compilation))), ""), None)
    want = compilation.run(inputs, on="graph", grad=upstream)
    got = compilation.run(inputs, on="gpu", grad=upstream)
    if upstream is None:
        got, want = (got, {}), (want, {})
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
    assert got[1].keys() == want[1].keys()
    assert all(np.allclose(got[1][name], want[1][name], rtol=1e-4, atol=1e-6) for name in want[1])


def test_the_machine_code_is_loaded_once_and_ptx_where_the_device_is_another(fake_cuda: Any) -> None:
    compilation = explorer.compile(BIAS)
    inputs = {**{name: np.zeros(2, np.int32) for name in "hrt"}, "a": np.ones(3, np.float32)}
    arrays, extents = check_inputs(compilation.stages["loops"].program, inputs)
    program = GpuProgram.of(compilation)
    for _ in range(2):
        assert program.bind(arrays, extents).run()[0].tolist() == [1.0, 1.0]
    assert program.code.binary is not None
    loads = [entry for entry in fake_cuda.log if entry.startswith("load")]
    assert loads == [f"load {len(program.code.binary.cubin)} bytes"]
    fake_cuda.capability = (10, 0)
    gpu_device._device.cache_clear()
    program.bind(arrays, extents)
    assert fake_cuda.log[-1] == f"load {len(compilation.stages['ptx'].text.encode()) + 1} bytes"
    fake_cuda.capability = (8, 0)
    gpu_device._device.cache_clear()
    program.bind(arrays, extents)
    assert fake_cuda.log[-1] == f"compile {len(compilation.stages['cuda'].text)} characters"


def test_a_device_runs_its_own_generation(fake_cuda: Any) -> None:
    for capability, arch, runs in (((8, 6), "sm_80", True), ((9, 0), "sm_90a", True), ((12, 0), "sm_90", False)):
        fake_cuda.capability = capability
        gpu_device._device.cache_clear()
        assert current_device().compile_for == arch
        assert current_device().runs(arch) is runs
        assert current_device().translates("sm_90a") is current_device().runs("sm_90a") is (capability == (9, 0))
    fake_cuda.capability = (7, 5)
    gpu_device._device.cache_clear()
    with pytest.raises(NoGpu, match="need sm_80 or newer"):
        _ = current_device().compile_for


def test_without_cupy_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    missing.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "CuPy, which drives it, is not installed" in missing()
    missing.cache_clear()


def test_kernels_wait_for_those_whose_arrays_they_touch() -> None:
    """Two that only read an array do not wait for one another; what others wait for is waited for once."""
    a, b, c, part = (0, 8), (8, 16), (16, 24), (4, 6)
    writes_a, a_to_b, a_to_c = ([a], [a]), ([a, b], [b]), ([a, c], [c])
    assert waiting([writes_a, a_to_b, a_to_c]) == [(), (0,), (0,)]
    assert waiting([writes_a, a_to_b, ([b, c], [c])]) == [(), (0,), (1,)]
    assert waiting([a_to_b, ([part], [part]), ([b, c], [c])]) == [(), (0,), (0,)]
    assert waiting([writes_a, a_to_b, a_to_c, ([a, b, c], [a])]) == [(), (0,), (0,), (1, 2)]
    assert waiting([]) == []


def test_a_kernel_knows_what_it_writes() -> None:
    text = (Path(explorer.__file__).parents[1] / "examples" / "rgnn" / "rgcn.emb").read_text()
    code = explorer.compile(text).stages["cuda"].program
    assert isinstance(code, Code)
    written = {each.symbol: each.writes for each in code.launches}
    assert written["RGCN_0_rest_kernel"] == {"out"}
    assert written["RGCN_0_product_kernel"] == written["RGCN_0_rows_product_kernel"] == {"RGCN_0_y5"}


@pytest.mark.parametrize(("capability", "arch"), [((9, 0), "sm_90a"), ((8, 6), "sm_80"), ((10, 0), "sm_90")])
def test_a_compilation_runs_on_the_device_as_compiled_for_it(
    fake_cuda: Any, monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], arch: str
) -> None:
    """As `explorer run` and the module of PyTorch do, and once for all runs."""
    made: list[str] = []
    of = GpuProgram.of
    monkeypatch.setattr(GpuProgram, "of", lambda compilation: made.append(compilation) or of(compilation))
    fake_cuda.capability = capability
    compilation = explorer.compile(BIAS)
    inputs = {**{name: np.zeros(2, np.int32) for name in "hrt"}, "a": np.ones(3, np.float32)}
    for _ in range(2):
        assert compilation.run(inputs, on="gpu").tolist() == [1.0, 1.0]
    first, second = made
    assert first is second
    assert first.options.arch == arch
