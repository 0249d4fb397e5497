"""`explorer.trace`: from a module of PyTorch to a text of the model language, its compilation, and a replacement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from functools import cached_property
from typing import Any

import torch

from explorer.compiler.compilation import Compilation
from explorer.runtime.compiling import compile
from explorer.runtime.trace.check import check
from explorer.runtime.trace.module import Binding, Modes, TracedModule, modes_of
from explorer.runtime.trace.tapes.arguments import Arguments
from explorer.runtime.trace.tapes.examples import redrawn
from explorer.runtime.trace.tapes.ids import Ids, column, ids_of
from explorer.runtime.trace.tapes.recorded import Recorded, in_mode, record
from explorer.runtime.trace.tapes.tape import TraceError
from explorer.runtime.trace.texts.layers import write_layer
from explorer.runtime.trace.texts.names import identifier
from explorer.runtime.trace.texts.scores import is_score, write_score
from explorer.runtime.trace.texts.written import Written
from explorer.runtime.trace.translate import Translation, translate


@dataclass(frozen=True, eq=False)
class Traced:
    """What a module is in the model language. `tensors` are the module's parameters and buffers by their names in the
    text, `maps` the ids of the example by theirs."""

    text: str
    tensors: Mapping[str, Any]
    maps: Mapping[str, Any]
    compilation: Compilation
    _original: Any
    _binding: Binding

    def module(self) -> TracedModule:
        """A replacement of the traced module, which shares its parameters: the same calls, results and gradients."""
        return TracedModule(self._original, self._compiled, self._binding)

    @cached_property
    def _compiled(self) -> Any:
        return self.compilation.torch()


def trace(module: Any, *example_inputs: Any, **named_inputs: Any) -> Traced:
    """See `explorer.trace`."""
    if not isinstance(module, torch.nn.Module):
        raise TraceError(f"a {type(module).__name__} is no torch.nn.Module: make it the forward of one.")
    for path, each in (*module.named_parameters(), *module.named_buffers()):
        if each.is_floating_point() and each.dtype != torch.float32:
            raise TraceError(f"{path} is of {each.dtype}: the language computes in 32-bit floats.")
    arguments, inputs = Arguments.of(module, example_inputs, named_inputs)
    written, runs, translations = _agreed(module, arguments, inputs)
    ids = _ids(runs, translations)
    compilation = compile(written.text, on_demand=True)
    if not compilation.ok:
        reasons = "\n".join(each.render(written.text) for each in compilation.diagnostics)
        raise TraceError(f"the text that was made of it is not one of the language's:\n{reasons}")
    paths = {each.name: each.path for each in runs[0].given}
    modes = frozenset({modes_of(module), *_same_otherwise(module, arguments, inputs, written)})
    binding = Binding(written, ids, arguments, paths, frozenset(runs[0].whole), modes)
    own = dict([*module.named_parameters(), *module.named_buffers()])
    found = ids.of({path: own[path] if path in own else inputs[path] for path in runs[0].whole})
    traced = Traced(
        text=written.text,
        tensors={name: own[paths[name]] for name in written.tensors if paths[name] in own},
        maps={name: found[of] for name, of in written.ids.items() if of in found},
        compilation=compilation,
        _original=module,
        _binding=binding,
    )
    check(module, traced.module(), arguments, inputs)
    return traced


def _ids(runs: list[Recorded], translations: list[Translation]) -> Ids:
    """How ids are made of inputs; held against those of the second tape."""
    maps = {each.name: (each.ids, each.along) for each in translations[0].maps.values()}
    ids = ids_of((runs[0].tape, runs[1].tape), (runs[0].whole, runs[1].whole), maps)
    made = ids.of(runs[1].whole)
    for each in translations[1].maps.values():
        if not torch.equal(made[each.name], column(each.ids, each.along)):
            raise TraceError("ids cannot be made again from the inputs alone.")
    return ids


def _same_otherwise(module: Any, arguments: Arguments, inputs: Mapping[str, Any], written: Written) -> set[Modes]:
    """The other modes in which the module is the same text: all in evaluation, and all in training."""
    found, here = set(), modes_of(module)
    for training in (True, False):
        with in_mode(module, training):
            if (modes := modes_of(module)) == here:
                continue
            try:
                if _agreed(module, arguments, inputs)[0].text == written.text:
                    found.add(modes)
            except TraceError:
                continue
    return found


def _agreed(
    module: Any, arguments: Arguments, inputs: Mapping[str, Any]
) -> tuple[Written, list[Recorded], list[Translation]]:
    """The text that two examples of other sizes agree on."""
    fixed = {size for each in module.state_dict().values() for size in getattr(each, "shape", ())}
    runs, translations, texts = [], [], []
    for number, example in enumerate(redrawn(inputs, fixed)):
        run = record(module, example.inputs, arguments.call, others=number > 0)
        translation = translate(run.tape, run.given, example.sizes, run.result)
        runs.append(run)
        translations.append(translation)
        texts.append(_written(module, run, translation))
    if texts[0].text != texts[1].text:
        one, other = (each.text.splitlines() for each in texts)
        changed = [line for line in unified_diff(one, other, lineterm="", n=0) if line[:1] in "+-"]
        raise TraceError(
            "two examples of other sizes make two texts: a number of it, or what it does, comes from how many rows "
            "there are, or was taken out of a parameter.\n  " + "\n  ".join(changed[2:8])
        )
    return texts[0], runs, translations


def _written(module: Any, run: Recorded, translation: Translation) -> Written:
    name = identifier(type(module).__name__)
    given = {id(tensor): identifier(argument) for argument, tensor in run.inputs.items()}
    ids = {each.name: given[id(each.ids)] for each in translation.maps.values() if id(each.ids) in given}
    return write_score(name, translation, ids) if is_score(translation) else write_layer(name, translation)
