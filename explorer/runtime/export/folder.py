"""The folder of an extension: everything that is to be built, with what it needs, and what tries it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.compiler.target import EXTENT_LIMIT
from explorer.runtime.data.triples import InputError
from explorer.runtime.export.cuda import header_text, kernels_text
from explorer.runtime.export.expected import expected
from explorer.runtime.export.host import host_text
from explorer.runtime.export.model import FAMILIES, model_text
from explorer.runtime.export.names import Named, check_names
from explorer.runtime.export.plan import Plan
from explorer.runtime.export.texts import TEST, readme_text, setup_text

MODEL = "model.emb"
OURS = "explorer.runtime.export.files"


def export(compilation: Compilation, folder: Path, grad: bool) -> tuple[str, ...]:
    """Writes the extension of a compilation, with its backward pass where `grad`, into a folder, which is made, or over
    an extension that is there: the paths that were written. Raises InputError where there are no kernels, where names
    would be mixed up, or no such folder can be written to."""
    plan = Plan.of(compilation, grad)
    check_names(plan.graph)
    package = package_of(plan.compilation.name)
    try:
        if folder.exists() and any(folder.iterdir()) and not (folder / MODEL).exists():
            raise InputError(f"{folder} is not empty: an extension has a folder for itself")
        written = []
        for path, text in _texts(plan, package):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            written.append(path)
        np.savez_compressed(folder / "expected.npz", allow_pickle=False, **expected(plan))
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from None
    return (*written, "expected.npz")


def package_of(name: str) -> str:
    """What the package of a model is called."""
    return f"{name.lower()}_kernels"


def _texts(plan: Plan, package: str) -> Iterator[tuple[str, str]]:
    named = Named(_names(plan), [launch.symbol for program in plan.programs for launch in program.launches])
    yield "README.md", readme_text(plan, package)
    yield "setup.py", setup_text(plan, package)
    yield "test_extension.py", TEST.replace("PACKAGE", package).replace("NAME", plan.compilation.name)
    yield MODEL, plan.compilation.text
    yield "csrc/kernels.h", header_text(plan, named)
    yield "csrc/host.cpp", host_text(plan, named, package, EXTENT_LIMIT)
    for program in plan.programs:
        yield f"csrc/{program.name}.cu", kernels_text(program, named)
    yield f"{package}/__init__.py", _init(plan)
    yield f"{package}/model.py", model_text(plan, named, package)
    for name in ("indices", "maps", "module", FAMILIES[plan.graph.family][1]):
        yield f"{package}/{name}.py", (files(OURS) / f"{name}.py").read_text()


def _init(plan: Plan) -> str:
    name = plan.compilation.name
    return f'"""{name} as an extension of PyTorch."""\n\nfrom .model import {name}\n\n__all__ = ["{name}"]\n'


def _names(plan: Plan) -> list[str]:
    """All that has a name in the C++."""
    found = list[str]()
    for program in plan.programs:
        found += program.buffers
        for call in program.calls:
            found += [*call.sizes, *(name for name, _ in (*call.counts, *call.constants))]
        found += [name for launch in program.launches for name in launch.arguments]
    return list(dict.fromkeys(found))
