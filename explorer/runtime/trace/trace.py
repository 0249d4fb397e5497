"""`explorer.trace`: from a module of PyTorch to a text of the model language, its compilation, and a replacement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from functools import cached_property
from itertools import product
from typing import Any

import torch

from explorer.compiler.compilation import Compilation
from explorer.runtime.compiling import compile
from explorer.runtime.trace.check import check
from explorer.runtime.trace.joins.joined import stacks_of
from explorer.runtime.trace.module import Binding, Modes, TracedModule, modes_of
from explorer.runtime.trace.tapes.arguments import Arguments
from explorer.runtime.trace.tapes.counted import with_counts
from explorer.runtime.trace.tapes.examples import DRAWS, Example, redrawn, rises
from explorer.runtime.trace.tapes.ids import Ids, ids_of, read
from explorer.runtime.trace.tapes.lengths import coincide, picked
from explorer.runtime.trace.tapes.recorded import Recorded, in_mode, own_of, place_of, record
from explorer.runtime.trace.tapes.tape import TraceError, Where
from explorer.runtime.trace.tapes.unions import sums
from explorer.runtime.trace.texts.layers import write_layer
from explorer.runtime.trace.texts.names import identifier
from explorer.runtime.trace.texts.scores import is_score, write_score
from explorer.runtime.trace.texts.written import Written, number_of
from explorer.runtime.trace.translate import Translation, translate


@dataclass(frozen=True, eq=False)
class Traced:
    """What a module is in the model language. `tensors` are the module's parameters and buffers by their names in the
    text, `maps` the ids of the example by theirs. `lines` are, for each line of the text, the lines of the user's files
    that ask for what it computes, in their order."""

    text: str
    lines: tuple[tuple[Where, ...], ...]
    tensors: Mapping[str, Any]
    maps: Mapping[str, Any]
    compilation: Compilation
    _original: Any
    _binding: Binding

    @property
    def numbers(self) -> frozenset[str]:
        """The whole numbers that forward takes which say how many rows there are: other calls may have others."""
        return self._binding.arguments.numbered

    def module(self, *, check_indices: bool = True) -> TracedModule:
        """A replacement of the traced module, which shares its parameters: the same calls, results and gradients. As
        for `Compilation.torch`, `check_indices=False` leaves out the check that ids have rows."""
        compiled = self._compiled if check_indices else self.compilation.torch(check_indices=False)
        return TracedModule(self._original, compiled, self._binding)

    @cached_property
    def _compiled(self) -> Any:
        return self.compilation.torch()


def trace(module: Any, *example_inputs: Any, **named_inputs: Any) -> Traced:
    """See `explorer.trace`."""
    if not isinstance(module, torch.nn.Module):
        raise TraceError(f"a {type(module).__name__} is no torch.nn.Module: make it the forward of one.")
    if torch.is_inference_mode_enabled():
        raise TraceError("gradients are traced too, which torch.inference_mode() has none of: trace outside of it.")
    if any(isinstance(each, TracedModule) for each in module.modules()):
        raise TraceError("a module that was traced is compiled: trace the one that it takes the place of.")
    for path, each in own_of(module)[1].items():
        if each.is_inference():
            raise TraceError(f"{path} was made in torch.inference_mode(), so that it has no gradient: clone it.")
        if each.is_complex():
            raise TraceError(f"{path} is of complex numbers: keep its parts in a dimension, and take view_as_complex.")
        if each.is_floating_point() and each.dtype != torch.float32:
            raise TraceError(f"{path} is of {each.dtype}: the language computes in 32-bit floats.")
    arguments, inputs = Arguments.of(module, example_inputs, named_inputs)
    arguments, inputs = with_counts(module, arguments, inputs, _fixed(module))
    written, runs, translations = _agreed(module, arguments, inputs)
    ids = _ids(runs, translations, written, arguments)
    compilation = compile(written.text, on_demand=True)
    if not compilation.ok:
        reasons = "\n".join(each.render(written.text) for each in compilation.diagnostics)
        raise TraceError(f"the text that was made of it is not one of the language's:\n{reasons}")
    paths = {each.name: each.place for each in translations[0].given.values()}
    modes = frozenset({modes_of(module), *_same_otherwise(module, arguments, inputs, written)})
    binding = Binding(
        written, ids, arguments, paths, frozenset(runs[0].whole), modes, runs[0].form, tuple(runs[0].results)
    )
    own = own_of(module)[1]
    parts = {each.place: each.tensor for each in translations[0].given.values() if each.kind != "input"}
    known = {**parts, **own, **{place_of(argument): tensor for argument, tensor in inputs.items()}}
    found = ids.of({place: known[place] for place in runs[0].whole})
    tensors = {name: own[paths[name]] for name in written.own if paths[name] in own}
    if written.typed:
        counted = {name: known[paths[name]] for name in (written.counted,) if name in paths}
        lengths = written.lengths(known)
        found = written.with_types(found, written.nodes(found, counted, lengths), lengths)
        tensors |= {
            name: torch.stack([row.of(own[paths[row.name]]) for row in rows])
            for name, rows in stacks_of(written.typed).items()
        }
    traced = Traced(
        text=written.text,
        lines=tuple(tuple(sorted(asked, key=lambda each: (each.file, each.line))) for asked in written.lines),
        tensors=tensors,
        maps={name: found[of] for name, of in written.ids.items() if of in found},
        compilation=compilation,
        _original=module,
        _binding=binding,
    )
    check(module, traced.module(), arguments, inputs)
    return traced


def _fixed(module: Any) -> set[int]:
    """The sizes of all dimensions that the module itself has."""
    own = [*module.state_dict().values(), *module.buffers(), *own_of(module)[1].values()]
    return {size for each in own for size in getattr(each, "shape", ())}


def _ids(runs: list[Recorded], translations: list[Translation], written: Written, arguments: Arguments) -> Ids:
    """How ids, and the numbers that `written` needs, are made of inputs; held against those of the second tape."""
    first, second = (translation.of_ids for translation in translations)
    one, other = translations
    counts = {number_of(of): (one.size_of(of), other.size_of(of)) for of in written.counted_by_ids}
    counted = list(zip(*(arguments.said(run.inputs) for run in runs), strict=True))
    ids = ids_of((runs[0].tape, runs[1].tape), (runs[0].whole, runs[1].whole), first, counts, counted)
    made = ids.of(runs[1].whole)
    if any(int(made[name]) != count for name, (_, count) in counts.items()):
        raise TraceError("how many rows there are cannot be told again from the inputs alone.", reached=-1)
    for name, (tensor, dim) in second.items():
        if not torch.equal(made[name], read(tensor, dim)):
            raise TraceError("ids cannot be made again from the inputs alone.", reached=-1)
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
    fixed = _fixed(module)
    for draw in range(DRAWS):
        try:
            drawn, found = _run(module, arguments, inputs, fixed, draw)
        except TraceError:
            if draw:  # ids of more rows than a table may have: the ones before were told apart as far as they can be
                continue
            raise
        runs, examples = found, drawn
        if _tell_apart(runs, examples, fixed):
            break
    if runs[0].form != runs[1].form:
        raise TraceError(
            "beside tensors the module returns what two examples of other sizes make two of, as how many rows there "
            "are: a text has tensors alone."
        )
    translations, texts = _said(module, runs, examples, arguments)
    if texts[0].text != texts[1].text:
        one, other = (each.text.splitlines() for each in texts)
        changed = [line for line in unified_diff(one, other, lineterm="", n=0) if line[:1] in "+-"]
        raise TraceError(
            "two examples of other sizes make two texts: a number of it, or what it does, comes from how many rows "
            "there are, or was taken out of a parameter.\n  " + "\n  ".join(changed[2:8])
        )
    return texts[0], runs, translations


def _run(
    module: Any, arguments: Arguments, inputs: Mapping[str, Any], fixed: set[int], draw: int
) -> tuple[list[Example], list[Recorded]]:
    """Two examples and the module's runs on them; where it raises of ids in any order, of those that rise as the
    example's. Raises the TraceError of the first."""
    refused: TraceError | None = None
    for rising in (False, True) if any(map(rises, inputs.values())) else (False,):
        drawn = redrawn(inputs, fixed, draw, arguments.counted, rising)
        try:
            return drawn, [record(module, each.inputs, arguments, others=at > 0) for at, each in enumerate(drawn)]
        except TraceError as error:
            refused = refused or error
    assert refused is not None
    raise refused


def _said(
    module: Any, runs: list[Recorded], examples: list[Example], arguments: Arguments
) -> tuple[list[Translation], list[Written]]:
    """What each run says, in the first way that there is: with what ids alone decide as words or apart from them, and
    with the edges of one set, or of several as one. Raises the TraceError of the one that gets furthest."""
    refused: tuple[tuple[float, bool], TraceError] | None = None
    for mixed, apart in product((False, True), (False, True)):
        try:
            translations, texts = _translated(module, runs, examples, apart, mixed)
            if apart:
                _ids(runs, translations, texts[0], arguments)
            return translations, texts
        except TraceError as error:
            reached = error.reached, apart
            refused = (reached, error) if refused is None or reached > refused[0] else refused
    assert refused is not None
    raise refused[1]


def _translated(
    module: Any, runs: list[Recorded], examples: list[Example], apart: bool, mixed: bool
) -> tuple[list[Translation], list[Written]]:
    """What each run says, and how it is written; `apart` as for `translate`, `mixed` as for `write_layer`."""
    translations = [
        translate(run.tape, run.given, example.sizes, run.results, apart)
        for run, example in zip(runs, examples, strict=True)
    ]
    return translations, [_written(module, *each, mixed) for each in zip(runs, translations, strict=True)]


def _tell_apart(runs: list[Recorded], examples: list[Example], static: set[int]) -> bool:
    """Whether the sets that ids pick are as long as no other in an example, and none as long in the other example; and
    those that are others one behind another as long as none, and as no dimension of the module's, which are
    `static`."""
    for run, each in zip(runs, examples, strict=True):
        lengths = list(sums(run.tape, each.sizes).values())
        if len({*lengths, *each.sizes, *static}) < len(lengths) + len({*each.sizes, *static}):
            return False
    picks = [picked(run.tape, {id(each.tensor): each.name for each in run.given}) for run in runs]
    fixed = any(picks[1].get(origin) == size for origin, size in picks[0].items())
    return not fixed and not any(coincide(found, each.sizes) for found, each in zip(picks, examples, strict=True))


def _written(module: Any, run: Recorded, translation: Translation, mixed: bool) -> Written:
    name = identifier(type(module).__name__)
    given = {id(tensor): identifier(argument) for argument, tensor in run.inputs.items()}
    ids = {each.name: given[id(each.ids)] for each in translation.maps.values() if id(each.ids) in given}
    return write_score(name, translation, ids) if is_score(translation) else write_layer(name, translation, mixed)
