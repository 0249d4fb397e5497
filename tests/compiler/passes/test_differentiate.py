"""The backward pass is made of values like any other; what leads to nothing learnt is left out."""

from tests.compiler.layers import layer, report
from tests.compiler.models import compiled


def test_every_learnt_tensor_has_a_gradient_of_its_own_shape():
    for name in ("rgcn", "rgat", "rgat_heads", "hgt", "gcn"):
        graph = layer(name, grad=True).stages["graph"].program
        learnt = [tensor for tensor in graph.tensors if tensor.kind == "param"]
        assert [tensor for tensor, _ in graph.gradients] == [tensor.name for tensor in learnt]
        for tensor, (_, value) in zip(learnt, graph.gradients, strict=True):
            assert [graph.size(e) for e in graph.value(value).shape] == [graph.size(e) for e in tensor.dims]
            assert graph.value(value).index_set == (tensor.sets[0] if tensor.sets else "unit")


def test_what_is_given_gets_none():
    graph = layer("rgcn", grad=True).stages["graph"].program
    assert "x" not in dict(graph.gradients)


def test_a_tensor_that_the_result_ignores_is_named():
    text = """dim F = 4
layer Model(g: graph):
    param x[node, F], unused[node, F]
    for n in g.nodes():
        n["h"] = relu(x[n])
        n["other"] = unused[n]
    return n["h"]
"""
    compilation = compiled(text, options={"grad": "true"})
    said = report(compilation, "differentiate")
    assert said.refusals == ("unused has no gradient: the result does not depend on it",)


def test_without_the_option_nothing_is_added():
    assert not report(layer("rgat"), "differentiate").changed
