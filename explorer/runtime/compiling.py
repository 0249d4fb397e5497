"""Compiling with all that a compilation runs on: its targets, the encoders of its arrays, its module of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.compiler.compilation import Compilation, Target, compile_model
from explorer.compiler.decisions import Value
from explorer.compiler.edited.verdict import Read, Verdict
from explorer.compiler.kept import Kept
from explorer.compiler.stages import Program
from explorer.runtime.targets.table import TARGETS


def compile(
    text: str,
    *,
    sizes: Mapping[str, int] | None = None,
    options: Mapping[str, str | int | bool] | None = None,
    name: str | None = None,
    counts: Mapping[str, int] | None = None,
    counted_on: str = "",
    on_demand: bool = False,
    schedule: Mapping[str, Value] | str | None = None,
    edited: Mapping[str, str] | None = None,
    kept: Kept[Any] | None = None,
) -> Compilation:
    """Compiles a model text through every stage, or those that are asked for; see
    `explorer.compiler.compilation.compile_model`.

    `edited` are texts of stages that go in the place of the compiler's, `{"loops": "kernel TransR ..."}`: each is read,
    verified and held against the float64 reference on small inputs, and `Compilation.edits` says what was found.

    `Compilation.run` takes the targets ("cpu", "gpu" and "dae") beside the stages that have interpreters."""
    return compile_model(
        text,
        sizes=sizes,
        options=options,
        name=name,
        targets_of=_targets_of,
        encode=_encode,
        make_module=_make_module,
        counts=counts,
        counted_on=counted_on,
        on_demand=on_demand,
        schedule=schedule,
        edited=edited,
        prove=_prove,
        kept=kept,
    )


def _targets_of(compilation: Compilation) -> dict[str, Target]:
    return {name: target.computing(compilation) for name, target in TARGETS.items()}


def _encode(compilation: Compilation, inputs: Mapping[str, Any], grad: Any) -> Any:
    from explorer.runtime.data.triples import InputError
    from explorer.runtime.encode import layers as layer_inputs
    from explorer.runtime.encode import ops as op_inputs
    from explorer.runtime.encode import scores as score_inputs

    encoders = {"score": score_inputs, "layer": layer_inputs, "op": op_inputs}
    try:
        return encoders[compilation.family].encode_inputs(compilation, inputs, grad)
    except InputError as error:
        raise ValueError(str(error)) from None


def _prove(compilation: Compilation, stage: str, read: Read) -> tuple[Program, Verdict]:
    from explorer.runtime.proof.prove import prove

    return prove(compilation, stage, read)


def _make_module(
    compilation: Compilation, sizes: Mapping[str, int], padding: Mapping[str, int], check_indices: bool
) -> Any:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"Compilation.torch needs PyTorch, which does not load here ({error}): pip install torch"
        ) from None
    from explorer.runtime.torch.module import make_module

    return make_module(compilation, sizes, padding, check_indices)
