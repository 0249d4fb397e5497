"""The texts of an extension that say how to build it, what it is, and whether it is right."""

from __future__ import annotations

from explorer.compiler.ir.index_sets import is_given
from explorer.runtime.encode.declared import declared_in
from explorer.runtime.export.plan import Plan
from explorer.version import version

TEST = '''"""PACKAGE on a GPU beside what the explorer's float64 reference made of the same small inputs (expected.npz).

Run it behind `python setup.py build_ext --inplace`: python test_extension.py, or pytest.
"""

from pathlib import Path

import numpy as np
import torch

from PACKAGE import NAME as MODEL

DEVICE = "cuda"
EXPECTED = np.load(Path(__file__).with_name("expected.npz"))
CASES = sorted({name.partition("/")[0] for name in EXPECTED})


def given(case):
    """What a call takes, by name: numbers, indices, and tensors, which want gradients where there are some."""
    found = {}
    for name in EXPECTED:
        if name.startswith(f"{case}/given/"):
            value = EXPECTED[name]
            found[name.split("/", 2)[2]] = torch.from_numpy(value).to(DEVICE) if value.ndim else value.item()
    declared = {tensor.name: tensor for tensor in MODEL.tensors}
    for name, tensor in declared.items():
        found[name] = found[name].to(tensor.stored).requires_grad_(tensor.learnt and MODEL.gradients is not None)
    known = {*declared, *INDICES}
    return {name: value for name, value in found.items() if name in known}


INDICES = {
    *(name for name, _ in MODEL.maps),
    *("src", "dst", "etype", "ntype", *getattr(MODEL, "counted", ())),
    *("ptr", "idx", "num_rows", "blocks", "num_blocks", "rowptr", "row", "col", "num_cols"),
}


def held(case, name, got, stored=torch.float32):
    """Raises unless a result is within what rounding may make of the reference's, once more to how it is `stored`."""
    want, error = EXPECTED[f"{case}/want/{name}"], EXPECTED[f"{case}/error/{name}"]
    if stored != torch.float32:
        error = error + np.abs(want) * torch.finfo(stored).eps
    got = got.detach().cpu().double().numpy()
    assert got.shape == want.shape, (case, name, got.shape, want.shape)
    wrong = np.isfinite(error) & np.isfinite(want) & ~(np.abs(got - want) <= error)
    assert not wrong.any(), (case, name, got[wrong][:4], want[wrong][:4])


def results_of(case, arguments):
    """The results, each held against the reference's."""
    found = MODEL()(**arguments)
    found = found if isinstance(found, tuple) else (found,)
    assert len(found) == len(MODEL.outputs), case
    for number, result in enumerate(found, 1):
        held(case, f"result {number}", result)
    return found


def test_results_and_gradients():
    for case in CASES:
        arguments = given(case)
        results = results_of(case, arguments)
        with torch.no_grad():
            results_of(case, arguments)
        if MODEL.gradients is not None:
            numbers = range(1, 1 + len(results))
            upstreams = [torch.from_numpy(EXPECTED[f"{case}/upstream/{number}"]).to(DEVICE) for number in numbers]
            torch.autograd.backward(results, upstreams)
            for name in MODEL.slopes:
                held(case, f"gradient of {name}", arguments[name].grad, arguments[name].dtype)


if __name__ == "__main__":
    test_results_and_gradients()
    print(f"{len(CASES)} inputs match the float64 reference")
'''


def setup_text(plan: Plan, package: str) -> str:
    """The file `setup.py`."""
    sources = ", ".join(f'"csrc/{name}"' for name in ("host.cpp", *(f"{p.name}.cu" for p in plan.programs)))
    arch = _arch(plan)
    return f'''"""Builds it by nvcc: `pip install --no-build-isolation .`, or `python setup.py build_ext --inplace`."""

import os

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

# What the kernels were scheduled for. Others may be set, of the same generation or newer.
os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "{arch}")

setup(
    name="{package}",
    version="0.1.0",
    packages=["{package}"],
    ext_modules=[
        CUDAExtension(
            "{package}._C",
            [{sources}],
            extra_compile_args={{"cxx": ["-O2"], "nvcc": ["-O3"]}},
        )
    ],
    cmdclass={{"build_ext": BuildExtension}},
)
'''


def _arch(plan: Plan) -> str:
    """`9.0+PTX`, and `9.0a`, for which there is no PTX that a later device takes."""
    arch = plan.compilation.options.arch.removeprefix("sm_")
    number = f"{arch.rstrip('a')[:-1]}.{arch.rstrip('a')[-1]}"
    return f"{number}a" if arch.endswith("a") else f"{number}+PTX"


def readme_text(plan: Plan, package: str) -> str:
    """The file `README.md`."""
    name, graph = plan.compilation.name, plan.graph
    declared = "".join(f", {entry.name}={entry.name}" for entry in declared_in(graph))
    held = sorted({each for tensor in graph.tensors if tensor.kind == "param" for each in tensor.sets})
    sizes = ", ".join(f"{each}=..." for each in held)
    passed = {
        "score": ", ".join(entry.name for entry in graph.maps if is_given(entry)),
        "layer": "src, dst, etype",
        "op": {"bags": "ptr, idx", "blocks": "ptr, blocks", "csr": "rowptr, col", "coo": "row, col"}.get(
            graph.structure, ""
        ),
    }[graph.family]
    others = "".join(
        f", {t.name}={t.name}"
        for t in graph.tensors
        if t.kind == "input" or (t.kind == "structure" and graph.family == "op")
    )
    backward = "with its backward pass" if plan.gradients else "without a backward pass"
    operators = ", ".join(f"`{call.name}`" for program in plan.programs for call in program.calls)
    return f"""# {package}

{graph.family.capitalize()} {name}, {backward}, as a PyTorch extension of its own: CUDA, host functions, and a module.
The explorer (version {version()}) wrote it from `model.emb`. It needs PyTorch with CUDA and nvcc, and nothing of the
explorer.

    python setup.py build_ext --inplace
    python test_extension.py

```python
from {package} import {name}

model = {name}({sizes}).cuda()
{_results(plan)} = model({passed}{declared}{others})
```

- `csrc/*.cu`: the kernels, as the explorer's stage `cuda` shows them, and the functions that launch them
- `csrc/host.cpp`: what checks, makes and launches: `torch.ops.{package}` has
  {operators}
- `{package}/`: the module, and the encoding of its indices in PyTorch
- `expected.npz`: small inputs with the results of the float64 reference, which `test_extension.py` holds it against
"""


def _results(plan: Plan) -> str:
    """What the results are called where they are assigned."""
    count = len(plan.outputs)
    return "result" if count == 1 else ", ".join(f"result_{number}" for number in range(1, count + 1))
