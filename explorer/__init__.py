"""The Embedding Compiler Explorer: `compile` a model text, and look into or run the `Compilation`."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from explorer.compiler.compilation import Compilation, Target, compile_model
from explorer.compiler.decisions import Value

__all__ = ["Compilation", "compile"]


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
) -> Compilation:
    """Compiles a model text through every stage, or those that are asked for; see
    `explorer.compiler.compilation.compile_model`.

    `Compilation.run` takes "cpu", "gpu" and "dae" beside the stages that have interpreters."""
    targets: dict[str, Target] = {"cpu": _run_on_cpu, "dae": _run_on_dae}
    compilation = compile_model(
        text,
        sizes=sizes,
        options=options,
        name=name,
        targets=targets,
        encode=_encode,
        make_module=_make_module,
        counts=counts,
        counted_on=counted_on,
        on_demand=on_demand,
        schedule=schedule,
    )
    for_device = cache(lambda: _for_device(compilation))
    targets["gpu"] = lambda _, inputs: _run_on_gpu(for_device(), inputs)
    return compilation


def _for_device(compilation: Compilation) -> Compilation:
    """The compilation for the GPU that is there, as `explorer run` and a module have it too."""
    from explorer.runtime.data.triples import InputError
    from explorer.runtime.targets.gpu.device import compiled_for_device

    try:
        return compiled_for_device(compilation)
    except InputError as error:
        raise ValueError(str(error)) from None


def _run_on_gpu(compilation: Compilation, inputs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A code knows how to launch its kernels; what their arrays must hold, the loops know."""
    from explorer.runtime.data.triples import InputError
    from explorer.runtime.encode.arrays import check_inputs
    from explorer.runtime.targets.gpu.program import GpuProgram

    loops: Any = compilation.stages["loops"].program
    try:
        return GpuProgram.of(compilation).bind(*check_inputs(loops, inputs)).run()
    except InputError as error:
        raise ValueError(str(error)) from None


def _run_on_cpu(program: Any, inputs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    from explorer.runtime.targets.cpu import prepare_once

    return prepare_once(program).bind(inputs).run()


def _run_on_dae(program: Any, inputs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    from explorer.runtime.targets.dae import simulate

    simulated = simulate(program, inputs)
    return simulated.output, simulated.gradients


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


def _make_module(compilation: Compilation, sizes: Mapping[str, int], check_indices: bool) -> Any:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"Compilation.torch needs PyTorch, which does not load here ({error}): pip install torch"
        ) from None
    from explorer.runtime.torch.module import make_module

    return make_module(compilation, sizes, check_indices)
