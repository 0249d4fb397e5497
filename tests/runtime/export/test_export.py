"""Extensions: what is written, what it computes on the emulator, and its encodings beside the runtime's."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.cli import main
from explorer.compiler.ir.graph import NODES
from explorer.runtime.data.graphs import load_graph
from explorer.runtime.data.triples import InputError
from explorer.runtime.encode.graph import encode
from explorer.runtime.encode.layers import upstream_names
from explorer.runtime.export.folder import export, package_of
from explorer.runtime.export.names import Named
from explorer.runtime.export.plan import Plan
from explorer.runtime.targets.gpu.phases import Phases
from explorer.runtime.targets.gpu.program import GpuProgram

torch = pytest.importorskip("torch", reason="extensions are PyTorch's, which this machine does without")

ROOT = Path(__file__).resolve().parents[3]
TEXTS = sorted([*(ROOT / "examples").rglob("*.emb"), *(ROOT / "tests" / "zoo").glob("*.emb")])
HOSTILE = """
dim D = 8
layer Words(g: graph):
    param float[etype, D], new[node, D], stream[D]
    for e in g.edges():
        e["check"] = new[e.src] * float[e.etype]
    for n in g.dst_nodes():
        n["h"] = sum(e["check"] for e in n.incoming_edges()) + stream
    return n["h"]
"""
RUN = {
    "kge/transr": ({"D": 8, "K": 4}, {}, True),
    "kge/transf": ({"D": 8}, {"negatives": "tail:3"}, True),
    "kge/transe_l1 shared": ({"D": 8}, {"negatives": "head:3/8"}, True),
    "kge/transr chunks": ({"D": 8, "K": 8}, {"inspect": "chunks"}, False),
    "rgnn/rgat": ({"F": 8, "G": 8}, {}, True),
    "rgnn/hgt": ({}, {}, True),
    "embedding/sls": ({"D": 8}, {}, False),
    "embedding/spmm_coo": ({"D": 8}, {}, True),
    "embedding/spmm_coo compressed": ({"D": 8}, {"encoding": "compressed"}, False),
    "rgnn/rgat compressed": ({"F": 8, "G": 8}, {"encoding": "compressed", "compact": False}, True),
    "rgnn/rgat by source": ({"F": 8, "G": 8}, {"edges": "src", "encoding": "compressed"}, True),
    "embedding/spattn": ({}, {}, True),
}
"""By example: sizes, options, and whether it has its backward pass."""


def compiled(path: Path | str, sizes=None, options=None) -> explorer.Compilation:
    file = path if isinstance(path, Path) else ROOT / "examples" / f"{path.split()[0]}.emb"
    found = explorer.compile(file.read_text(), sizes=sizes, options=options, on_demand=True)
    assert found.ok, found.diagnostics
    return found


@pytest.mark.sampled(24)
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_every_model_is_written_as_python_that_compiles(path, tmp_path):
    for grad in (False, True):
        try:
            written = export(compiled(path), tmp_path / str(grad), grad)
        except InputError:
            assert grad
            assert compiled(path, options={"grad": True}).stages["graph"].program.gradients == ()
            continue
        texts = {name: (tmp_path / str(grad) / name).read_text() for name in written if not name.endswith(".npz")}
        for name, text in texts.items():
            if name.endswith(".py"):
                compile(text, name, "exec")
                assert "import explorer" not in text, name
                assert "from explorer" not in text, name
        assert ("csrc/gradients.cu" in texts) == grad


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", RUN)
def test_an_extension_passes_its_own_test_on_the_emulator(name, tmp_path):
    from tests.runtime.export.emulated import build, tried

    sizes, options, grad = RUN[name]
    compilation = compiled(name, sizes, options)
    export(compilation, tmp_path, grad)
    build(tmp_path, package_of(compilation.name))
    done = tried(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "5 inputs match the float64 reference" in done.stdout
    spoilt = dict(np.load(tmp_path / "expected.npz"))
    wrong = next(key for key, value in spoilt.items() if "/want/" in key and value.any())
    spoilt[wrong] = spoilt[wrong] + 1
    np.savez(tmp_path / "expected.npz", **spoilt)
    assert tried(tmp_path).returncode


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc, which compiles extensions, is not here")
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["kge/transr", "rgnn/rgcn", "embedding/spmm", "embedding/sls"])
def test_nvcc_takes_the_kernels(name, tmp_path):
    export(compiled(name), tmp_path, grad=True)
    for file in ("result", "gradients"):
        target = str(tmp_path / f"{file}.o")
        subprocess.run(
            ["nvcc", "-O0", "-arch=sm_90", "-c", str(tmp_path / f"csrc/{file}.cu"), "-o", target], check=True
        )


def test_words_of_other_languages_are_renamed(tmp_path):
    compilation = explorer.compile(HOSTILE, on_demand=True)
    assert compilation.ok, compilation.diagnostics
    export(compilation, tmp_path, grad=True)
    host = (tmp_path / "csrc" / "host.cpp").read_text()
    for word in ("float", "new", "stream"):
        assert f"Tensor {word}," not in host
        assert f"at::Tensor& {word}," not in host
    assert Named(["float", "x"])["float"] != "float"
    assert Named(["float", "x"])["x"] == "x"


def test_the_backward_pass_goes_on_where_the_forward_pass_ended():
    plan = Plan.of(compiled("kge/transr"), grad=True)
    assert plan.gradients is not None
    assert [call.name for call in plan.gradients.calls] == ["start", "finish"]
    start, finish = plan.gradients.calls
    left = {buffer.name for buffer in start.made}
    assert start.made[0].name == "out"
    assert left - {"out"}
    assert left - {"out"} <= {buffer.name for buffer in finish.given}
    assert {buffer.name for buffer in finish.made} == {"grad_E", "grad_R", "grad_P"}
    assert Plan.of(compiled("kge/transr"), grad=False).gradients is None


@pytest.mark.parametrize("edges", ["dst", "src"])
@pytest.mark.parametrize("data", ["tiny", "small"])
@pytest.mark.parametrize("ends", [NODES, ("user", "item")])
def test_a_graph_is_encoded_as_the_runtime_does_it(ends, data, edges):
    from explorer.runtime.export.files import layers

    graph = load_graph(data, ends=ends)
    if ends != NODES:
        graph = replace(graph, num_destinations=graph.num_nodes + 5)
    want = encode(graph, edges=edges)
    given = {name: torch.from_numpy(np.array(array)) for name, array in graph.arrays().items()}
    got = layers.encode(given, dict(graph.sizes), ends, edges)
    assert {name: got.counts[name] for name in want.counts} == want.counts
    for name, array in {**want.maps, "norm": want.norm, "in_degree": want.in_degree}.items():
        np.testing.assert_array_equal(got.arrays[name].numpy(), array, err_msg=name)
        assert got.arrays[name].numpy().dtype == array.dtype
    np.testing.assert_array_equal(got.order.numpy(), want.edge_order)
    pair = {"dst": "src_pair", "src": "dst_pair"}[edges]
    got.invert(got.arrays[pair], (got.counts[pair],), "ends", "order")
    segments = want.segments(pair)
    np.testing.assert_array_equal(got.arrays["ends"].numpy(), segments.ptr)
    np.testing.assert_array_equal(got.arrays["order"].numpy(), segments.order)


def test_ids_that_have_no_row_are_refused():
    from explorer.runtime.export.files import indices

    with pytest.raises(ValueError, match="not between 0"):
        indices.narrow(torch.tensor([0, -1]), "h", True)
    with pytest.raises(ValueError, match="whole numbers"):
        indices.narrow(torch.tensor([0.5]), "h", True)
    with pytest.raises(ValueError, match="32 bits"):
        indices.inverse(torch.zeros(1, dtype=torch.int32), 2**31)


def test_the_command_writes_a_folder_and_says_how_to_build_it(tmp_path, capsys):
    folder = tmp_path / "made"
    command = ["export", str(ROOT / "examples/embedding/sls.emb"), str(folder), "--set", "D=8"]
    assert main([*command, "--grad"]) == 0
    assert "python setup.py build_ext --inplace" in capsys.readouterr().out
    assert (folder / "csrc" / "gradients.cu").exists()
    assert main(command) == 0, "an extension may be written over"
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("")
    assert main([*command[:2], str(other)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert list(other.iterdir()) == [other / "mine.txt"]


def test_what_has_no_gradient_is_refused_with_the_reason(tmp_path, capsys):
    assert main(["export", str(ROOT / "tests/zoo/in_degree_only.emb"), str(tmp_path / "x"), "--grad"]) == 2
    assert "has no tensor with a gradient" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("path", "apart"), [("kge/transr", False), ("rgnn/rgat", True), ("rgnn/hgt", True)])
def test_an_extension_has_the_kernels_of_a_step_by_torch(path, apart):
    """Which are parted only where kernels of the results need the gradients of these."""
    derived = compiled(path, options={"grad": True})
    upstreams = upstream_names(derived.stages["graph"].program)
    assert bool(Phases.of(GpuProgram.of(derived), upstreams).parts) is not apart
    plan = Plan.of(compiled(path), grad=True)
    assert plan.gradients.rest is not None
    assert plan.derived.options == replace(derived.options, apart=apart)
