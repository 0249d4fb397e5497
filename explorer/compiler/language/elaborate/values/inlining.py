"""Calls of helpers: their bodies in the places of the calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.compiler.language.diagnostics import slice_text
from explorer.compiler.language.elaborate.result import OperationSite
from explorer.compiler.language.elaborate.values.binding import bind_helper
from explorer.compiler.language.names.builtins import GRAPH_WORD, MATRIX_WORD
from explorer.compiler.language.names.entities import Constant, Entity, Index, Several, StructureArgument
from explorer.compiler.language.names.prelude import is_of_prelude, prelude_text
from explorer.compiler.language.names.structures import GRAPH_KIND
from explorer.compiler.language.parsing import syntax

if TYPE_CHECKING:
    from explorer.compiler.language.elaborate.elaborate import Elaborator


class Inlining:
    """What an elaborator does with calls of helpers; `calls` are those that are being inlined, from the outermost."""

    def __init__(self, elaborator: Elaborator) -> None:
        self._elaborator = elaborator
        self._builder = elaborator.operations.builder
        self._collector = elaborator.collector
        self.calls: list[str] = []

    def inline(
        self,
        node: syntax.Call,
        helper: syntax.Definition,
        entities: list[Entity | None],
        needs_return: bool = True,
    ) -> Entity | Several | None:
        """A helper's body in place of its call; counted, because helpers that call each other twice double."""
        self._builder.count_operation(node.function.extent)
        name = helper.name.text
        if name in self.calls:
            self._collector.report(f"'{name}' calls itself: the language has no recursion", node.function.extent)
            return None
        places = bind_helper(node, helper, self._collector)
        if places is None:
            return None
        scope: dict[str, Entity | None] = {}
        for slot, parameter in enumerate(helper.parameters):
            if slot in places:
                scope[parameter.name.text] = entities[places[slot]]
            elif parameter.default is not None:
                scope[parameter.name.text] = self._default(parameter.default)
        if not self._check_annotations(node, helper, scope):
            return None
        self.calls.append(name)
        with self._prelude_of(node, helper):
            result = self._elaborator.body(helper, scope, needs_return)
        self.calls.pop()
        if isinstance(result, Constant) and is_of_prelude(helper):
            return replace(result, span=node.extent, label=name)  # a number's place in the prelude is no place here
        return result

    @contextmanager
    def _prelude_of(self, node: syntax.Call, helper: syntax.Definition) -> Iterator[None]:
        """While a helper of the prelude is inlined, what it computes and what is wrong with it is its call's."""
        if not is_of_prelude(helper) or self._builder.caller is not None:
            yield
            return
        text = self._elaborator.text
        self._builder.caller = OperationSite(node.function.text, node.function.extent, node.extent)
        self._collector.place = node.extent
        self._elaborator.text = self._elaborator.operations.text = prelude_text()
        try:
            yield
        finally:
            self._builder.caller = self._collector.place = None
            self._elaborator.text = self._elaborator.operations.text = text

    def _report_of_matrices(self, node: syntax.Call) -> None:
        """About a helper of a matrix that an op of lists calls: it writes its softmax out."""
        message = f"'{node.function.text}' is of the edges of a graph or the nonzeros of a matrix"
        over = slice_text(self._elaborator.text, node.arguments[0].value.extent)
        loop, data = f"for i in {over}", 'i["s"]'
        detail = (
            f"Write it out: top = max({data} {loop}); {loop}: {data} = exp({data} - top); total = sum({data} {loop});"
            f" {loop}: {data} /= total."
        )
        self._collector.report(message, node.extent, detail)

    def _default(self, node: syntax.Expression) -> Entity | None:
        """A parameter's default, which sees sizes and functions only."""
        outer, self._elaborator.scope = self._elaborator.scope, {}
        result = self._elaborator.given(node)
        self._elaborator.scope = outer
        return result

    def _check_annotations(
        self, node: syntax.Call, helper: syntax.Definition, scope: Mapping[str, Entity | None]
    ) -> bool:
        """Whether the arguments of parameters with an index set are indices of it."""
        fits = True
        structure = self._elaborator.structure
        for parameter in helper.parameters:
            entity = scope[parameter.name.text]
            if parameter.annotation is None or entity is None:
                continue
            wanted = parameter.annotation.text
            if wanted == GRAPH_WORD:
                right, what = isinstance(entity, StructureArgument) and structure.kind == GRAPH_KIND, "the graph"
            elif wanted == MATRIX_WORD and is_of_prelude(helper):
                right, what = isinstance(entity, StructureArgument), "the matrix"
            else:
                right = isinstance(entity, Index) and entity.index_set == wanted
                what = f"an index of {wanted}"
            if not right and is_of_prelude(helper) and structure.each != "unit":
                self._report_of_matrices(node)
                return False
            if not right:
                message = f"'{helper.name.text}' needs {what} for '{parameter.name.text}'"
                self._collector.report(message, node.extent)
                fits = False
        return fits
