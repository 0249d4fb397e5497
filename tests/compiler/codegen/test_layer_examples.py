"""Every layer of the examples, through its own text: on the CPU and the machine, and as CUDA and PTX."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.runtime.dae import simulate
from explorer.runtime.graphs import load_graph
from explorer.runtime.layer_inputs import encode_inputs, programs
from explorer.runtime.reference import layer
from explorer.runtime.run_layer import draw_tensors

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("rgnn/*.emb"))
SETTINGS = [{"reorder": reorder, "compact": compact} for reorder in (True, False) for compact in (True, False)]

every_example = pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
every_setting = pytest.mark.parametrize("options", SETTINGS, ids=lambda o: "-".join(name for name in o if o[name]))


def compiled(path: Path, options: dict[str, Any]) -> explorer.Compilation:
    """Small and odd dimensions, and two heads where there are heads."""
    text = path.read_text()
    sizes = dict.fromkeys(explorer.compile(text).sizes, 5)
    return explorer.compile(text, sizes=sizes | ({"H": 2} if "H" in sizes else {}), options=options)


def draw(compilation: explorer.Compilation) -> dict[str, Any]:
    """The smallest preset with tensors."""
    data = load_graph("tiny")
    graph, _ = programs(compilation)
    counts = {"node": data.num_nodes, "edge": data.num_edges, "etype": data.num_etypes, "ntype": data.num_ntypes}
    numbers = {"num_nodes": data.num_nodes, "num_etypes": data.num_etypes, "num_ntypes": data.num_ntypes}
    return {**data.arrays(), **numbers, **draw_tensors(graph, counts, seed=3)}


def agree(got: Any, want: Any) -> bool:
    return np.allclose(got, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


@every_example
@every_setting
def test_both_targets_agree_with_the_reference(path: Path, options: dict[str, Any]) -> None:
    compilation = compiled(path, options)
    inputs = draw(compilation)
    want = layer(compilation.text, inputs, compilation.sizes)
    assert agree(compilation.run(inputs, "cpu"), want)
    assert agree(compilation.run(inputs, "dae"), want)


@every_example
def test_both_targets_give_the_gradients_of_the_graph(path: Path) -> None:
    compilation = compiled(path, {"grad": True})
    inputs = draw(compiled(path, {}))
    rows = layer(compilation.text, inputs, compilation.sizes)
    upstream = np.random.default_rng(0).standard_normal(rows.shape, np.float32)
    want, wanted = compilation.run(inputs, "graph", upstream)
    arrays, finish = encode_inputs(compilation, inputs, upstream)
    machine: Any = compilation.stages["dlc"].program
    simulated = simulate(machine, arrays)
    outcomes = [compilation.run(inputs, "cpu", upstream), finish(simulated.output, simulated.gradients)]
    for got, gradients in outcomes:
        assert agree(got, want)
        assert gradients.keys() == wanted.keys()
        assert all(agree(gradients[name], wanted[name]) for name in wanted)


@every_example
@pytest.mark.parametrize("grad", [False, True], ids=["forward", "backward"])
def test_ptx_leads_back_to_every_operation(path: Path, grad: bool) -> None:
    compilation = explorer.compile(path.read_text(), options={"grad": grad})
    cuda, ptx = compilation.stages["cuda"], compilation.stages["ptx"]
    assert ptx.available, ptx.reason
    assert ptx.text.count(".entry") == cuda.text.count("__global__") == len(cuda.program.launches)
    operations = {span for line in compilation.stages["loops"].lines for span in line.origin}
    assert {span for line in cuda.lines for span in line.origin} == operations
    assert {span for line in ptx.lines for span in line.origin} <= operations


def test_what_one_lane_stores_is_loaded_by_the_others_behind_the_barrier() -> None:
    """A node's mean is lane 0's, which all lanes multiply: none may go on with what it loaded for its own share."""
    text = next(path for path in EXAMPLES if path.stem == "gcn").read_text()
    compilation = explorer.compile(text, sizes={"F": 1, "G": 4}, options={"grad": True})
    before, _, behind = compilation.stages["ptx"].text.partition("bar.warp.sync")
    address = re.findall(r"st\.global\.f32\s+(\[%\w+\])", before)[-1]
    assert re.search(rf"ld\.global\.f32\s+%\w+, {re.escape(address)}", behind.partition(".entry")[0])
