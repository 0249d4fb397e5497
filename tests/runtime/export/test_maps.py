"""Extensions of models that declare maps and divide ids: what their kernels are given, and what does not fit."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from explorer.runtime.arrays import kernels_of
from explorer.runtime.export.folder import export, package_of
from tests.compiler.by_form import facts
from tests.compiler.by_form.facts import FACTS
from tests.compiler.by_form.graph_forms import OF_GRAPHS
from tests.compiler.by_form.mapped_forms import MAPPED_BODIES
from tests.compiler.by_form.set_forms import SET_FORMS, inputs_of
from tests.compiler.models import compiled

torch = pytest.importorskip("torch", reason="extensions are PyTorch's, which this machine does without")

FORMS = (
    *MAPPED_BODIES,
    *(
        "ids that are divided",
        "times and rows that are hashed",
        "rows and columns that are divided",
        "a tensor of four dimensions",
    ),
    *OF_GRAPHS,
    "both ends of friends",
    *("facts with a bag each", "ids beside a bag", "sums along maps", "data of times", "data of reversed edges"),
)
BUILT = {
    "times of entries": {},
    "times of nonzeros": {},
    "hashed nodes": {},
    "hashed ends of edges": {},
    "facts with a bag each": {},
    "a softmax over a second graph": {},
    "both ends of friends": {},
    "hashed ids": {"negatives": "tail:3"},
    "crossed ids": {"negatives": "tail:3"},
    "ends of edges that are crossed": {},
}
"""By form, the options that it is built with."""
MAPS = ("when", "twin", "sort", "owner")


def case_of(name: str, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The compilation of a form and its inputs."""
    if name in FACTS:
        inputs = facts.inputs_of(FACTS[name], options.get("negatives", "none"))
        return compiled(FACTS[name].text, options=options, on_demand=True), inputs
    return compiled(SET_FORMS[name].text, options=options, on_demand=True), inputs_of(SET_FORMS[name])


def tensors_of(inputs: dict[str, Any], compilation: Any) -> dict[str, Any]:
    """Those that a call of a module takes."""
    given = {name: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for name, v in inputs.items()}
    unused = {"weight", "value"} - {tensor.name for tensor in compilation.stages["graph"].program.tensors}
    return {name: each for name, each in given.items() if name not in unused}


class Model:
    """A form's module, whose operators note what they are given and return arrays of the shapes that are wanted."""

    def __init__(self, compilation: Any, folder: Any, monkeypatch: Any, grad: bool = True) -> None:
        from tests.runtime.export.imported import imported

        export(compilation, folder, grad)
        package = imported(folder, package_of(compilation.name), monkeypatch, lambda *given: None)
        self.compilation = compilation
        self.kind = getattr(package, compilation.name)

    def given(self, program: Any, inputs: dict[str, Any], upstreams: tuple[Any, ...]) -> tuple[Any, Any]:
        """The arrays and sizes that a program's operators are given."""
        module = self.kind()
        tensors = tensors_of(inputs, self.compilation)
        known = {tensor.name for tensor in module.tensors}
        held = {name: each for name, each in tensors.items() if name in known}
        made = module.prepare(**{name: each for name, each in tensors.items() if name not in known})
        counts = module._check(made, held)
        held |= dict(zip(module.upstreams, upstreams, strict=True))
        return module.arrays(replace(program, inspect=None), made, counts, held)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in FORMS),
        *(
            (name, {"negatives": n})
            for name in ("hashed ids", "multiplied and added ids", "halves of times", "crossed ids")
            for n in ("none", "tail:3", "head:2")
        ),
    ],
    ids=str,
)
def test_kernels_are_given_what_the_runtime_gives_them(name, options, tmp_path, monkeypatch):
    compilation, inputs = case_of(name, options)
    model = Model(compilation, tmp_path, monkeypatch)
    plain = compilation.run(inputs, "cpu")
    upstream = np.random.default_rng(2).normal(size=plain.shape).astype(np.float32)
    for grad, program in ((False, model.kind.result), (True, model.kind.gradients)):
        derived = compilation.with_options(grad=grad)
        want, _ = derived.encode(derived, inputs, upstream if grad else None)
        got, sizes = model.given(program, inputs, (torch.from_numpy(upstream),))
        operators = [each for each in (program.inspect, program.run, program.rest) if each is not None]
        inside = {made for each in operators for made in each.made}
        read = {array for each in operators for array in each.arrays} - inside
        assert read
        for array in read:
            np.testing.assert_array_equal(got[array].numpy().reshape(-1), np.ravel(want[array]), err_msg=array)
        shapes = {b.name: b.extents for kernel in kernels_of(derived.stages["loops"].program) for b in kernel.buffers}
        for array in read & shapes.keys():
            extents = [sizes.get(extent, size) for extent, size in zip(shapes[array], got[array].shape, strict=True)]
            assert list(got[array].shape) == extents, array


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", BUILT)
def test_an_extension_passes_its_own_test_on_the_emulator(name, tmp_path):
    from tests.runtime.export.emulated import build, tried

    compilation, _ = case_of(name, BUILT[name])
    export(compilation, tmp_path, grad=True)
    build(tmp_path, package_of(compilation.name))
    done = tried(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "5 inputs match the float64 reference" in done.stdout


WRONG = [
    ("times of entries", {"when": np.zeros(5, np.int32)}, "when has the shape [5], but there are 6 entries."),
    ("times of entries", {"when": np.full(6, 2, np.int32)}, "when holds 2, but W has 2 rows."),
    ("times of entries", {"twin": np.full(6, 6, np.int32)}, "twin holds 6, but E has 6 rows."),
    ("times of entries", {"owner": np.zeros(3, np.int32)}, "owner has the shape [3], but there are 4 bags."),
    ("times of nonzeros", {"twin": np.full(6, 6, np.int32)}, "twin holds 6, but there are 6."),
    ("times of nonzeros", {"like": np.full(4, -1, np.int32)}, "like holds -1, which is not between 0 and 2147483647."),
    ("times of nonzeros", {"like": np.full(4, 4, np.int32)}, "like holds 4, but Form has 4 rows."),
    ("times that are divided", {"when": np.full(6, 4, np.int32)}, "when_div_2 leads to 3 rows, but P has 2."),
    ("halves of times", {"w": np.full(4, 8, np.int32)}, "w_div_2 leads to 5 rows, but T has 2."),
    ("halves of times", {"h": np.full(4, 9, np.int32)}, "h holds 9, but E has 6 rows."),
    ("halves of times", {"Q": np.zeros(2, np.float32)}, "t_div_2 leads to 3 rows, but Q has 2."),
]


@pytest.mark.parametrize(("name", "change", "message"), WRONG)
def test_what_does_not_fit_is_refused_in_the_words_of_the_runtimes_module(name, change, message, tmp_path, monkeypatch):
    compilation, inputs = case_of(name, {})
    model = Model(compilation, tmp_path, monkeypatch, grad=False)
    for kind in (model.kind, compilation.torch):
        module = kind()
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            module(**tensors_of(inputs | change, compilation))


GRAPHS = [
    ({"q_dst": np.zeros(5, np.int32)}, "q_dst has the shape [5], but there are 8 q_edges."),
    ({"q_src": np.full(8, 5, np.int32)}, "q_src holds 5, but x has 5 rows."),
    ({"q_etype": np.full(8, 3, np.int32)}, "q_etype holds 3, but R has 3 rows."),
]


@pytest.mark.parametrize(("change", "message"), GRAPHS)
def test_what_does_not_fit_a_second_graph_is_refused(change, message, tmp_path, monkeypatch):
    compilation, inputs = case_of("a softmax over a second graph", {})
    module = Model(compilation, tmp_path, monkeypatch, grad=False).kind()
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        module(**tensors_of(inputs | change, compilation))


def test_a_second_graph_may_have_nodes_of_its_own_and_no_types(tmp_path, monkeypatch):
    compilation, inputs = case_of("a softmax over a second graph", {})
    module = Model(compilation, tmp_path, monkeypatch, grad=False).kind(q_etype=3)
    given = {name: torch.from_numpy(inputs[name]) for name in ("src", "dst", "q_src", "q_dst")}
    made = module.prepare(**given | {"q_dst": torch.full((8,), 7)})
    assert (made.counts["node"], made.counts["q_edge"], made.counts["q_etype"]) == (8, 8, 3)
    assert made.arrays["q_etype"].tolist() == [0] * 8
    with pytest.raises(ValueError, match=r"^Form takes src, dst, q_src, q_dst, and etype and ntype and q_etype where"):
        module.prepare(**given, r_src=given["src"])


LAYER = [
    ({"when": np.zeros(5, np.int32)}, "when has the shape [5], but there are 7 edges."),
    ({"when": np.full(7, -1, np.int32)}, "when holds -1, which is not between 0 and 2147483647."),
    ({"Q": np.zeros((2, 4), np.float32)}, "node_div_2 leads to 3 rows, but Q has 2."),
    ({"H": np.zeros((2, 4), np.float32)}, "when_div_2_mod_3 leads to 3 rows, but H has 2."),
]


@pytest.mark.parametrize(("change", "message"), LAYER)
def test_what_does_not_fit_a_layer_is_refused(change, message, tmp_path, monkeypatch):
    compilation, inputs = case_of("hashed nodes", {})
    module = Model(compilation, tmp_path, monkeypatch, grad=False).kind()
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        module(**tensors_of(inputs | change, compilation))


def test_a_map_that_is_not_given_or_too_many_are_named(tmp_path, monkeypatch):
    compilation, inputs = case_of("times of entries", {})
    module = Model(compilation, tmp_path, monkeypatch, grad=False).kind()
    ptr, idx, when, twin, sort, owner = (torch.from_numpy(inputs[each]) for each in (*("ptr", "idx"), *MAPS))
    made = module.prepare(ptr, idx, when, twin, sort, owner)
    assert {each: made.arrays[each].tolist() for each in MAPS} == {each: inputs[each].tolist() for each in MAPS}
    with pytest.raises(ValueError, match=r"^There is no tensor for owner\.$"):
        module.prepare(ptr, idx, when, twin, sort)
    with pytest.raises(
        ValueError, match=r"^Form takes ptr and idx and when and twin and sort and owner, and num_rows\.$"
    ):
        module.prepare(ptr, idx, when, twin, sort, owner, owner)


def test_ids_without_a_table_of_their_own_are_of_one_set(tmp_path, monkeypatch):
    compilation, inputs = case_of("hashed ids", {})
    inputs |= {"h": np.zeros(4, np.int32), "t": np.array([1, 5, 0, 2], np.int32)}
    module = Model(compilation, tmp_path, monkeypatch, grad=False).kind()
    given = tensors_of(inputs, compilation)
    counts = module._check(module.prepare(*(given[each] for each in "hrt")), {each: given[each] for each in "QMR"})
    assert counts["entity"] == 6
