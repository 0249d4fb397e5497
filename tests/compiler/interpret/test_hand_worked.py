"""Every example on two entities whose scores were worked out by hand, at every stage (traps 1 and 2)."""

from pathlib import Path

import numpy as np
import pytest

from tests.compiler.models import compiled

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "kge"
HEAD, TAIL = [1.0, 2.0], [4.0, 6.0]  # their difference is (-3, -4)
STAGES = ("graph", "loops", "slc", "dlc", "cpu", "dae")

BY_HAND = {
    "transe_l1": ({"R": [[1.0, 1.0]]}, 5.0),  # |-2| + |-3|
    "transe_l2": ({"R": [[0.0, 0.0]]}, 5.0),  # sqrt(9 + 16)
    "transh": ({"R": [[1.0, 1.0]], "w": [[1.0, 0.0]]}, np.sqrt(10.0)),  # (-3,-4) + (1,1) + 3 (1,0) = (1,-3)
    "transr": ({"R": [[1.0]], "P": [[[1.0], [2.0]]]}, 10.0),  # |-3 - 8 + 1|
    "transf": ({"R": [[1.0, 1.0]]}, 39.0),  # 2 (4 + 12) + (3 + 4)
    "rescal": ({"P": [[[0.0, 1.0], [2.0, 0.0]]]}, 22.0),  # (4, 1) . (4, 6); its transpose gives 22 - 8 = 14
    "distmult": ({"R": [[1.0, 2.0]]}, 28.0),  # 4 + 24
}


def inputs_for(compilation, tensors):
    """The two entities, and the relation's tensors by the order in which the model declares them."""
    graph = compilation.stages["graph"].program
    entity, *relation = graph.tensors
    assert entity.sets == ("entity",)
    rank = {1: [v for v in tensors.values() if np.ndim(v) == 2], 2: [v for v in tensors.values() if np.ndim(v) == 3]}
    inputs = {entity.name: np.array([HEAD, TAIL], dtype=np.float32)}
    for tensor in relation:
        inputs[tensor.name] = np.array(rank[len(tensor.dims)].pop(0), dtype=np.float32)
    return inputs


@pytest.mark.parametrize("on", STAGES)
@pytest.mark.parametrize("name", BY_HAND)
def test_the_score_is_the_one_worked_by_hand(name, on):
    tensors, want = BY_HAND[name]
    text = (EXAMPLES / f"{name}.emb").read_text()
    sizes = {"D": 2, "K": 1} if name == "transr" else {"D": 2}
    compilation = compiled(text, sizes=sizes)
    indices = {"h": [0], "r": [0], "t": [1]}
    inputs = inputs_for(compilation, tensors) | {k: np.array(v, dtype=np.int32) for k, v in indices.items()}
    np.testing.assert_allclose(compilation.run(inputs, on=on), [want], rtol=1e-6)


@pytest.mark.parametrize("end", ["tail", "head"])
@pytest.mark.parametrize("name", BY_HAND)
def test_a_negative_that_is_the_true_triple_has_its_score(name, end):
    """A reference copied from DGL-KE fails here: its negatives differ from its positives in sign or transpose."""
    tensors, want = BY_HAND[name]
    text = (EXAMPLES / f"{name}.emb").read_text()
    sizes = {"D": 2, "K": 1} if name == "transr" else {"D": 2}
    compilation = compiled(text, sizes=sizes, options={"negatives": f"{end}:2"})
    indices = {"h": [0], "r": [0], "t": [1]}
    indices[end[0]] = [[0, 0]] if end == "head" else [[1, 1]]
    inputs = inputs_for(compilation, tensors) | {k: np.array(v, dtype=np.int32) for k, v in indices.items()}
    for on in ("graph", "dlc"):
        np.testing.assert_allclose(compilation.run(inputs, on=on), [[want, want]], rtol=1e-6)
