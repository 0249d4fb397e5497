"""Runs of layers: what their events tell, on presets, files and both targets."""

import json
from pathlib import Path

import numpy as np
import pytest

from explorer.runtime.run import RunRequest, execute
from explorer.runtime.runs import layer
from explorer.runtime.runs.request import compile_request

RGCN = (Path(__file__).resolve().parents[3] / "examples" / "rgnn" / "rgcn.emb").read_text()
SMALL = {"F": 4, "G": 3}


def run(**fields):
    request = {"text": RGCN, "on": "cpu", "data": "tiny", "sizes": SMALL, "repeat": 2, **fields}
    events = list(execute(RunRequest(**request)))
    json.dumps(events[-1])
    return events


def returned_by(events):
    """What a generator returns at its end."""
    while True:
        try:
            next(events)
        except StopIteration as ended:
            return ended.value


def test_a_run_is_checked_and_timed():
    *_, last = run()
    assert last["event"] == "result"
    assert last["matches_reference"]
    assert last["rows_checked"] == 12
    assert 0 < last["error_over_bound"] < 1
    assert len(last["samples_ms"]) == 2
    assert last["data"] == {
        "name": "tiny",
        "source": "preset, generated",
        "nodes": 12,
        "edges": 30,
        "ntypes": 3,
        "etypes": 6,
    }
    assert 0 < last["encodings"]["compaction_ratio"] < 1
    assert last["encodings"]["preprocessing"]
    assert last["limits"]["flop"] > 0
    assert last["limits"]["compulsory_bytes"] <= last["limits"]["stream_bytes"]
    assert last["peak_bytes"] > 0


@pytest.mark.parametrize("reorder", [False, True])
@pytest.mark.parametrize("compact", [False, True])
def test_all_settings_agree_with_the_reference(reorder, compact):
    assert run(options={"reorder": reorder, "compact": compact}, repeat=1)[-1]["matches_reference"]


@pytest.mark.parametrize("on", ["cpu", "dae"])
def test_edges_by_source_agree_with_the_reference(on):
    last = run(options={"edges": "src", "grad": True}, repeat=1, on=on)[-1]
    assert last["matches_reference"]
    assert set(last["gradients"]) == {"W", "w0"}
    assert last["encodings"]["preprocessing"][0]["name"] == "sort edges by (src, etype, dst)"
    assert last["encodings"]["in_degree"] == run(repeat=1)[-1]["encodings"]["in_degree"]


def test_another_order_of_edges_is_encoded_anew():
    request = RunRequest(text=RGCN, on="cpu", data="tiny", sizes=SMALL)
    setup = returned_by(layer.prepare(request, compile_request(request)))
    turned = setup.recompiled({"edges": "src"})
    assert (np.diff(setup.encodings.maps["dst"]) >= 0).all()
    assert (np.diff(turned.encodings.maps["src"]) >= 0).all()
    assert setup.recompiled({"reorder": False}).encodings is setup.encodings


def test_gradients_are_checked_by_tensor():
    last = run(options={"grad": True}, data="small")[-1]
    assert last["matches_reference"]
    assert set(last["gradients"]) == {"W", "w0"}
    assert all(0 < check["error_over_bound"] < 1 for check in last["gradients"].values())


def test_a_wrong_gradient_shows_no_time(monkeypatch):
    from explorer.runtime.runs import layer as run_layer

    finish = run_layer.finish

    def spoilt(*arguments):
        result, gradients = finish(*arguments)
        return result, {name: gradient * np.float32(1.01) for name, gradient in gradients.items()}

    monkeypatch.setattr(run_layer, "finish", spoilt)
    last = run(options={"grad": True})[-1]
    assert not last["matches_reference"]
    assert last["median_ms"] is None
    assert last["samples_ms"] is None
    assert last["message"].startswith("The gradients by ")
    assert "times what rounding may make" in last["message"]


def test_a_large_graph_is_checked_as_a_whole_and_in_part(monkeypatch):
    monkeypatch.setattr("explorer.runtime.runs.layer.GRADIENT_EDGES", 1_000)
    last = run(options={"grad": True}, data="small", repeat=1)[-1]
    assert last["matches_reference"]
    assert set(last["gradients"]) == {"(all together)", "W", "w0"}
    assert last["gradients"]["(all together)"]["error_over_bound"] < 0.5


def test_triples_of_a_file_become_a_graph_with_inverses(tmp_path):
    path = tmp_path / "three.tsv"
    path.write_text("a\tlikes\tb\nb\tlikes\tc\na\tknows\tc\n")
    last = run(data=str(path))[-1]
    assert last["matches_reference"]
    assert (last["data"]["edges"], last["data"]["etypes"], last["data"]["nodes"]) == (6, 4, 3)
    assert last["data"]["source"] == "file, with inverse triples"


def test_the_machine_runs_layers():
    last = run(on="dae")[-1]
    assert last["matches_reference"]
    assert last["source"] == "simulated"
    assert last["cycles"] > 0


def test_the_machine_runs_the_gradients_of_layers():
    last = run(on="dae", options={"grad": True})[-1]
    assert last["matches_reference"]
    assert set(last["gradients"]) == {"W", "w0"}
    assert all(check["error_over_bound"] < 1 for check in last["gradients"].values())
    assert last["cycles"] > run(on="dae")[-1]["cycles"]


def test_what_would_not_fit_is_refused_before_it_is_made():
    last = run(data="mutag", sizes={"F": 65_536, "G": 64})[-1]
    assert (last["event"], last["kind"]) == ("failed", "refused")
    assert "GiB" in last["message"]


def test_an_unknown_graph_is_refused():
    last = run(data="smal")[-1]
    assert last["kind"] == "refused"
    assert "did you mean 'small'" in last["message"]
