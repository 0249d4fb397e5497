"""Names that a model may have and that an extension's Python or C++ has already."""

from __future__ import annotations

import inspect
import runpy
import shutil
import subprocess

import numpy as np
import pytest

import explorer
from explorer.runtime.data.triples import InputError
from explorer.runtime.export.folder import export, package_of

torch = pytest.importorskip("torch", reason="extensions are PyTorch's, which this machine does without")

TEXT = """
dim D = 8
score {model}(h: entity, r: relation, t: entity):
    param {tensor}[entity, D], R[relation, D]
    return sum({tensor}[h] * R[r] * {tensor}[t])
"""


def exported(folder, text, grad=True):
    """The folder of a text's extension, and its name."""
    found = explorer.compile(text, on_demand=True)
    assert found.ok, found.diagnostics
    export(found, folder, grad)
    return found.name


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """The model's class as a program that uses the extension imports it; its operators are never called."""

    def load(text, grad=True):
        from tests.runtime.export.imported import imported as package

        name = exported(tmp_path, text, grad)
        return getattr(package(tmp_path, package_of(name), monkeypatch), name)

    return load


@pytest.mark.parametrize("tensor", ["_E", "__E", "_RESULT", "_OPS"])
def test_names_that_begin_with_an_underscore_are_strings(tensor, imported):
    model = imported(TEXT.format(model="S", tensor=tensor))
    assert [each.name for each in model.tensors] == [tensor, "R"]
    assert model.slopes.keys() == {tensor, "R"}
    assert dict(model(entity=3, relation=2).named_parameters())[tensor].shape == (3, 8)


HEADERS = """
dim LONG_MAX = 8
score {model}(h: entity, r: relation, t: entity):
    param NULL[entity, LONG_MAX], NAN[relation, LONG_MAX], INFINITY[LONG_MAX], errno[LONG_MAX], cudaStream_t[LONG_MAX]
    param linux[LONG_MAX], {model}_kernel[LONG_MAX], run[entity, LONG_MAX], forward[LONG_MAX]
    EOF = NULL[h] * NAN[r] * INFINITY * errno + {model}_kernel * run[h]
    return sum(EOF * NULL[t] + linux * cudaStream_t * forward)
"""


def test_tensors_that_are_called_as_macros_are_built_and_pass_their_own_test(tmp_path):
    from tests.runtime.export.emulated import build, tried

    build(tmp_path, package_of(exported(tmp_path, HEADERS.format(model="EXPECTED"))))
    done = tried(tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc, which compiles extensions, is not here")
def test_nvcc_takes_kernels_on_tensors_that_are_called_as_macros_are(tmp_path):
    exported(tmp_path, HEADERS.format(model="S"))
    for file in ("result", "gradients"):
        source, target = tmp_path / f"csrc/{file}.cu", tmp_path / f"{file}.o"
        subprocess.run(["nvcc", "-O0", "-arch=sm_90", "-c", str(source), "-o", str(target)], check=True)


@pytest.mark.parametrize("model", ["EXPECTED", "CASES", "DEVICE", "INDICES", "np", "torch", "given", "held", "Score"])
def test_a_model_of_any_name_leaves_its_test_the_names_that_this_has(model, imported, tmp_path):
    found = imported(TEXT.format(model=model, tensor="E"))
    test = runpy.run_path(str(tmp_path / "test_extension.py"))
    assert test["MODEL"].__name__ == found.__name__ == model
    assert test["DEVICE"] == "cuda"
    assert test["np"] is np
    assert test["torch"] is torch
    assert test["CASES"] == sorted({name.partition("/")[0] for name in test["EXPECTED"]})
    assert {"ptr", "h"} <= test["INDICES"]
    assert all(inspect.isfunction(test[name]) for name in ("given", "held"))


def test_parameters_that_are_called_as_what_every_module_has_have_another_attribute(imported):
    made = imported(TEXT.format(model="S", tensor="forward"))(entity=3, relation=2)
    assert {name: each.shape for name, each in made.named_parameters()} == {"forward_": (3, 8), "R": (2, 8)}
    assert callable(made.forward)


REFUSED = {
    "self": TEXT.format(model="S", tensor="self"),
    "known": TEXT.format(model="S", tensor="E").replace("r: rel", "known: rel").replace("[r]", "[known]"),
    "check_indices": """
dim D = 8
op SLS(b: bag of check_indices):
    param T[check_indices, D]
    return sum(T[i] for i in b)
""",
    "blocks": """
dim D = 8
op SLS(b: bag of row):
    param blocks[row, D]
    return sum(blocks[i] for i in b)
""",
}


DECLARED = """
dim D = 8
op SLS(b: bag of row):
    param T[time, D]
    map known: entry -> time
    return sum(T[i.known] for i in b)
"""


def test_a_declared_map_that_a_call_could_not_tell_apart_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"^known is what every such module is given by that name"):
        exported(tmp_path / "made", DECLARED)


@pytest.mark.parametrize("name", REFUSED)
def test_names_that_a_call_could_not_tell_apart_are_refused(name, tmp_path):
    with pytest.raises(InputError, match=f"^{name} is what every such module is given by that name"):
        exported(tmp_path / "made", REFUSED[name])
    assert not (tmp_path / "made").exists()
