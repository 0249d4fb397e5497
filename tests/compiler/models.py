"""Model texts that several tests compile, and inputs for them."""

from pathlib import Path

import numpy as np

import explorer
from explorer.compiler.ir.graph import Graph

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples" / "kge").glob("*.emb"))

TRANSR = """dim D = 4, K = 3
score TransR(h: entity, r: relation, t: entity):
    param E[entity, D]
    param R[relation, K]
    param P[relation, D, K]
    return norm((E[h] - E[t]) @ P[r] + R[r], 2)
"""


def compiled(text, **arguments):
    """The compilation of a text that must be a model."""
    compilation = explorer.compile(text, **arguments)
    assert compilation.ok, "\n".join(diagnostic.render(text) for diagnostic in compilation.diagnostics)
    return compilation


def draw_inputs(compilation, batch=5, entities=7, relations=3, seed=0):
    """Random inputs by name, float32 and int32, for a compilation."""
    graph = compilation.stages["graph"].program
    assert isinstance(graph, Graph)
    generator = np.random.default_rng(seed)
    counts = {"entity": entities, "relation": relations}
    negatives = compilation.options.negatives
    lists, count = (-(-batch // negatives.sharing), negatives.count) if negatives else (batch, 0)
    shapes = {"batch": (batch,), "negative": (lists, count)}
    inputs = {}
    for entry in graph.maps:
        inputs[entry.name] = generator.integers(0, counts[entry.codomain], shapes[entry.domain]).astype(np.int32)
    for tensor in graph.tensors:
        shape = [counts[name] for name in tensor.sets] + [graph.size(extent) for extent in tensor.dims]
        inputs[tensor.name] = generator.normal(size=shape).astype(np.float32)
    return inputs
