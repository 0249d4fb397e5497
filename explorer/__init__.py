"""The Embedding Compiler Explorer: `compile` a model text, and look into or run the `Compilation`."""

from collections.abc import Mapping
from typing import Any

from explorer.compiler.compilation import Compilation, compile_model

__all__ = ["Compilation", "compile"]


def compile(
    text: str,
    *,
    sizes: Mapping[str, int] | None = None,
    options: Mapping[str, str | int | bool] | None = None,
    name: str | None = None,
    counts: Mapping[str, int] | None = None,
    counted_on: str = "",
) -> Compilation:
    """Compiles a model text through every stage; see `explorer.compiler.compilation.compile_model`.

    `Compilation.run` takes "cpu" and "dae" beside the stages that have interpreters."""
    targets = {"cpu": _run_on_cpu, "dae": _run_on_dae}
    return compile_model(
        text,
        sizes=sizes,
        options=options,
        name=name,
        targets=targets,
        encode=_encode,
        counts=counts,
        counted_on=counted_on,
    )


def _run_on_cpu(program: Any, inputs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    from explorer.runtime.cpu import prepare_once

    return prepare_once(program).bind(inputs).run()


def _run_on_dae(program: Any, inputs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    from explorer.runtime.dae import simulate

    simulated = simulate(program, inputs)
    return simulated.output, simulated.gradients


def _encode(compilation: Compilation, inputs: Mapping[str, Any], grad: Any) -> Any:
    from explorer.runtime import layer_inputs, op_inputs, score_inputs
    from explorer.runtime.inputs import InputError

    encoders = {"score": score_inputs, "layer": layer_inputs, "op": op_inputs}
    try:
        return encoders[compilation.family].encode_inputs(compilation, inputs, grad)
    except InputError as error:
        raise ValueError(str(error)) from None
